use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{advance, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::Limits;
use crate::metrics::Metrics;

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);

struct World {
    keys: Arc<Keyring>,
    metrics: Arc<Metrics>,
    sessions: Arc<Sessions>,
}

impl World {
    fn new(sessions: usize) -> Self {
        Self::with_key([7; 32], sessions)
    }

    fn with_key(key: [u8; 32], sessions: usize) -> Self {
        let limits = Limits { sessions, calls_per_session: 3, ..Limits::default() };
        let (keys, metrics) = (Arc::new(Keyring::new(&[key])), Metrics::new("test"));
        let sessions = Sessions::new(&limits, Arc::clone(&keys), Arc::clone(&metrics));
        Self { keys, metrics, sessions }
    }

    fn open(&self, view: &str) -> Arc<Session> {
        self.sessions.open(view, agreed()).unwrap()
    }

    fn find(&self, session: &Session) -> Option<Arc<Session>> {
        self.sessions.find(session.id(), session.view())
    }

    /// How many there are, by the gauge that people see.
    fn count(&self) -> usize {
        let text = self.metrics.render();
        text.lines().find_map(|line| line.strip_prefix("trunkline_sessions ")).unwrap().parse().unwrap()
    }

    /// Whether it is in memory, without adopting it.
    fn holds(&self, session: &Session) -> bool {
        self.sessions.all().iter().any(|held| held.id() == session.id())
    }
}

fn agreed() -> Agreed {
    Agreed {
        revision: "2025-11-25".into(),
        capabilities: r#"{"roots":{"listChanged":true},"sampling":{}}"#.into(),
        client: "test/1".into(),
    }
}

fn text(n: usize) -> Bytes {
    n.to_string().into()
}

/// The next message, whose number is `n` as well.
async fn next(stream: &mut Follower) -> (u64, Bytes) {
    match stream.next().await {
        Some(Told::Message { number, message, .. }) => (number, message),
        other => panic!("no message but {other:?}"),
    }
}

/// Reads the messages from `n` on that are there.
async fn reads(stream: &mut Follower, range: std::ops::RangeInclusive<usize>) {
    for n in range {
        assert_eq!(next(stream).await, (n as u64, text(n)));
    }
}

fn resumed(session: &Arc<Session>, id: &str) -> Follower {
    let resumed = session.resume(id);
    let Resumed::Stream(stream) = resumed else { panic!("not resumed at {id} but {resumed:?}") };
    stream
}

#[test]
fn ids_are_unique_and_found_on_their_view_only() {
    let world = World::new(10_000);
    let all: Vec<_> = (0..1000).map(|_| world.open("/mcp")).collect();
    let ids: HashSet<_> = all.iter().map(|session| session.id().to_owned()).collect();
    assert_eq!((ids.len(), world.count()), (1000, 1000));
    assert!(ids.iter().all(|id| id.len() <= 1024 && id.bytes().all(|byte| byte.is_ascii_graphic())));
    let found = world.find(&all[7]).unwrap();
    assert!(Arc::ptr_eq(&found, &all[7]));
    assert!(!found.initialized() && found.revision() == "2025-11-25" && found.agreed() == &agreed());
    assert!(world.sessions.find(all[7].id(), "/mcp/github").is_none());
    assert!(world.sessions.find("", "/mcp").is_none());
}

#[test]
fn a_tampered_or_foreign_id_is_unknown() {
    let (world, stranger) = (World::new(9), World::with_key([8; 32], 9));
    let session = world.open("/mcp");
    let id = session.id();
    assert!(stranger.sessions.find(id, "/mcp").is_none());
    for bad in
        [id.strip_suffix(|_: char| true).unwrap(), &format!("{id}A"), &id.to_lowercase(), &"1.".repeat(5000)]
    {
        assert!(world.sessions.find(bad, "/mcp").is_none(), "{bad}");
    }
    // Sealed with the right key, for something else.
    assert!(world.sessions.find(&world.keys.seal("cursor", b"0123456789abcdef01234567"), "/mcp").is_none());
    assert_eq!(world.count(), 1);
}

#[test]
fn another_process_with_the_key_adopts() {
    let (first, second) = (World::new(9), World::new(9));
    let session = first.open("/mcp");
    assert!(second.sessions.find(session.id(), "/mcp/github").is_none(), "wrong view");
    let adopted = second.find(&session).unwrap();
    assert!(adopted.initialized() && adopted.agreed() == &agreed());
    assert!(Arc::ptr_eq(&adopted, &second.find(&session).unwrap()));
    assert_eq!(second.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_closed_session_stays_closed_and_ends_its_stream() {
    let world = World::new(9);
    let session = world.open("/mcp");
    let mut stream = session.attach();
    session.push(text(1));
    assert!(world.sessions.close(session.id()));
    reads(&mut stream, 1..=1).await;
    assert_eq!(stream.next().await, None);
    assert!(!session.push(text(2)));
    assert!(world.find(&session).is_none(), "not adopted again");
    assert!(!world.sessions.close(session.id()) && world.count() == 0);
}

#[test]
fn many_that_come_and_go_leave_nothing_but_their_mark() {
    let world = World::new(100);
    let closed: Vec<_> = (0..2000)
        .map(|_| {
            let session = world.open("/mcp");
            assert!(world.sessions.close(session.id()));
            session
        })
        .collect();
    assert_eq!((world.count(), world.sessions.queued()), (0, 0));
    assert!(closed.iter().all(|session| world.find(session).is_none()));
    assert!(closed.iter().all(|session| Arc::strong_count(session) == 1));
}

#[tokio::test(start_paused = true)]
async fn idle_sessions_leave_memory_and_active_ones_do_not() {
    let world = World::new(9);
    let stop = CancellationToken::new();
    let idle = world.open("/mcp");
    let (listening, calling, used) = (world.open("/mcp"), world.open("/mcp"), world.open("/mcp"));
    let stream = listening.attach();
    let call = calling.begin(b"1").unwrap();
    let script = async {
        tokio::time::sleep(20 * MINUTE).await;
        world.find(&used).unwrap();
        tokio::time::sleep(9 * MINUTE).await;
        assert_eq!(world.count(), 4, "nothing goes before its time");
        tokio::time::sleep(2 * MINUTE).await;
        assert!(!world.holds(&idle) && world.count() == 3);
        tokio::time::sleep(300 * MINUTE).await;
        assert_eq!(world.count(), 2, "only what is in use is left");
        drop((stream, call));
        tokio::time::sleep(29 * MINUTE).await;
        assert_eq!(world.count(), 2, "idle since the end of the last use");
        tokio::time::sleep(2 * MINUTE).await;
        assert_eq!(world.count(), 0);
        stop.cancel();
    };
    tokio::join!(world.sessions.run(stop.clone()), script);
    let again = world.find(&idle).expect("an idle session's id is still good");
    assert_eq!(again.agreed(), &agreed());
}

#[tokio::test(start_paused = true)]
async fn an_id_ends_after_a_day() {
    let (world, other) = (World::new(9), World::new(9));
    let session = world.open("/mcp");
    let closed = world.open("/mcp");
    world.sessions.close(closed.id());
    advance((24 * 60 - 1) * MINUTE).await;
    assert!(other.find(&session).is_some() && world.find(&closed).is_none());
    advance(2 * MINUTE).await;
    assert!(World::new(9).find(&session).is_some(), "a process whose clock stands a day back");
    world.sessions.sweep();
    other.sessions.sweep();
    assert!(world.find(&session).is_none() && !world.holds(&session));
    assert!(other.find(&session).is_some(), "one in use stays");
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_makes_room() {
    let world = World::new(3);
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(world.open("/mcp"));
        advance(MINUTE).await;
    }
    world.find(&all[0]).unwrap(); // now `all[1]` is the one idle longest
    advance(MINUTE).await;
    let fourth = world.open("/mcp");
    assert!(!world.holds(&all[1]) && world.count() == 3);
    advance(MINUTE).await;
    let stream = all[2].attach(); // idle longest, were it not for its stream
    let fifth = world.open("/mcp");
    assert!(!world.holds(&all[0]) && world.holds(&all[2]));

    let calls = [fourth.begin(b"1").unwrap(), fifth.begin(b"1").unwrap()];
    assert_eq!(world.sessions.open("/mcp", agreed()).unwrap_err(), Full);
    assert!(world.find(&all[0]).is_none(), "nor is there room to adopt one");
    drop(calls);
    advance(Duration::from_millis(200)).await;
    world.open("/mcp");
    assert!(world.holds(&all[2]) && world.count() == 3);
    drop(stream);
}

#[test]
fn an_id_in_flight_is_not_used_twice() {
    let world = World::new(9);
    let (session, other) = (world.open("/mcp"), world.open("/mcp"));
    let first = session.begin(b"1").unwrap();
    assert_eq!(session.begin(b"1").unwrap_err(), BeginError::Duplicate);
    let _string = session.begin(br#""1""#).unwrap();
    let _elsewhere = other.begin(b"1").unwrap();
    let _third = session.begin(b"3").unwrap();
    assert_eq!(session.begin(b"4").unwrap_err(), BeginError::TooMany);
    drop(first);
    let _again = session.begin(b"1").unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancel_wakes_that_call_only() {
    let session = World::new(9).open("/mcp");
    let (number, string) = (session.begin(b"1").unwrap(), session.begin(br#""1""#).unwrap());
    let waits = async |call: &CallGuard| timeout(MINUTE, call.cancelled()).await.is_err();
    assert!(waits(&number).await); // a wait that was given up
    assert!(!session.cancel(b"2"));
    assert!(session.cancel(b"1"));
    assert!(!waits(&number).await && waits(&string).await);
    assert!(!waits(&number).await, "however often it is asked");
    drop(number);
    assert!(!session.cancel(b"1"), "too late");
    let again = session.begin(b"1").unwrap();
    assert!(waits(&again).await, "not by the cancel of its predecessor");
}

#[tokio::test(start_paused = true)]
async fn a_new_stream_takes_over() {
    let session = World::new(9).open("/mcp");
    let mut first = session.attach();
    let (end, mut second) = tokio::join!(first.next(), async { session.attach() });
    assert_eq!(end, None);
    drop(first); // must not detach its successor
    assert!(session.attached());
    let (got, whole) = tokio::join!(next(&mut second), async { session.push(text(1)) });
    assert_eq!((got, whole), ((1, text(1)), true));
    assert!(timeout(MINUTE, second.next()).await.is_err());
    session.push(text(2));
    reads(&mut second, 2..=2).await; // a wait that was given up lost nothing
    drop(second);
    assert!(!session.attached());
    session.push(text(3));
    reads(&mut session.attach(), 3..=3).await; // without an id it goes on where the one before stopped
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_loses_the_oldest_and_is_told() {
    let session = World::new(9).open("/mcp");
    let mut stream = session.attach();
    assert!((1..=256).all(|n| session.push(text(n))));
    assert!(!session.push(text(257)));
    assert_eq!(stream.next().await, Some(Told::Lost(1)));
    reads(&mut stream, 2..=257).await;
    // By size: beside the newest there is room for no two of these.
    let big = Bytes::from(vec![b'x'; 1 << 19]);
    assert!(session.push(big.clone()) && session.push(big.clone()) && !session.push(text(260)));
    assert_eq!(stream.next().await, Some(Told::Lost(1)));
    assert_eq!(next(&mut stream).await, (259, big));
    reads(&mut stream, 260..=260).await;
}

#[tokio::test(start_paused = true)]
async fn few_messages_wait_for_a_stream_that_was_never_opened() {
    let session = World::new(9).open("/mcp");
    assert!((1..=8).all(|n| session.push(text(n))));
    assert!(!session.push(text(9)));
    let mut stream = session.attach();
    assert_eq!(stream.next().await, Some(Told::Lost(1)));
    reads(&mut stream, 2..=9).await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_after_any_of_its_events() {
    let session = World::new(9).open("/mcp");
    let mut own = session.attach();
    let (feed, mut call) = session.stream(Some(b"7"));
    for n in 1..=20 {
        session.push(text(n));
        feed.push(text(n)).await;
    }
    let start = [own.mark(), call.mark()];
    reads(&mut own, 1..=20).await;
    reads(&mut call, 1..=12).await;
    let ids: HashSet<_> = (1..=20)
        .flat_map(|n| [own.id(n, false), call.id(n, false)])
        .chain(start.clone())
        .chain([own.mark(), call.mark(), call.end_id()])
        .collect();
    assert_eq!(ids.len(), 45, "unique in the session");
    assert!(ids.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_graphic())), "{ids:?}");
    let (own_at, call_at) = (own.id(5, false), call.id(18, false));
    drop(own);
    for (id, from) in [(own_at, 6), (start[0].clone(), 1)] {
        let mut own = resumed(&session, &id);
        assert!(own.is_own());
        reads(&mut own, from..=20).await;
        assert!(timeout(MINUTE, own.next()).await.is_err(), "and on with what comes");
    }
    for (id, from) in [(call_at, 19), (start[1].clone(), 1), (call.mark(), 13)] {
        let mut call = resumed(&session, &id);
        assert!(!call.is_own());
        reads(&mut call, from..=20).await;
    }
    assert_eq!(call.next().await, None, "another took over");
    let mut call = resumed(&session, &call.id(20, false));
    feed.end(Some(text(21)));
    assert_eq!(call.next().await, Some(Told::Message { number: 21, message: text(21), last: true }));
    assert_eq!(call.next().await, None);
    // The answer may have been cut on its way.
    let mut again = resumed(&session, &call.id(20, false));
    assert_eq!(again.next().await, Some(Told::Message { number: 21, message: text(21), last: true }));
    assert!(matches!(session.resume(&call.end_id()), Resumed::Nothing));
    assert!(matches!(session.resume(&call.id(22, false)), Resumed::Unknown), "never sent");
    for made_up in ["", "1", "c0-1", &"9".repeat(1000)] {
        assert!(matches!(session.resume(made_up), Resumed::Unknown), "{made_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_gone_with_its_request() {
    let (session, other) = (World::new(9).open("/mcp"), World::new(9).open("/mcp"));
    let (_feed, call) = other.stream(Some(b"\"a\""));
    let resumed = session.resume(&call.id(1, false));
    let Resumed::Gone(Some(request)) = resumed else { panic!("{resumed:?}") };
    assert_eq!(request, "\"a\"");
    let (_feed, batch) = other.stream(None);
    assert!(matches!(session.resume(&batch.mark()), Resumed::Gone(None)));
    let (_feed, long) = other.stream(Some(&[b'1'; 100]));
    assert!(long.mark().len() < 40 && matches!(session.resume(&long.mark()), Resumed::Gone(None)));
    assert!(matches!(session.resume(&long.end_id()), Resumed::Nothing), "it was told all");
    assert!(matches!(session.resume(&other.attach().mark()), Resumed::Anew));
    // One whose call died.
    let (feed, mut call) = session.stream(Some(b"1"));
    let id = call.mark();
    drop(feed);
    assert_eq!((call.next().await, call.next().await), (Some(Told::Gone), None));
    assert!(matches!(session.resume(&id), Resumed::Gone(Some(_))));
    // One that was cancelled has told everything.
    let (feed, mut call) = session.stream(Some(b"1"));
    feed.end(None);
    assert_eq!(call.next().await, None);
    assert!(matches!(session.resume(&call.mark()), Resumed::Nothing));
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_reader_that_is_there_but_not_for_ever() {
    let session = World::new(9).open("/mcp");
    let (feed, mut call) = session.stream(Some(b"1"));
    for n in 1..=64 {
        assert!(timeout(SECOND, feed.push(text(n))).await.is_ok());
    }
    assert!(timeout(SECOND, feed.push(text(0))).await.is_err(), "it is full");
    let ((), ()) = tokio::join!(feed.push(text(65)), reads(&mut call, 1..=1));
    // A reader that reads nothing for half a minute is no longer waited for, nor is one that is gone.
    let started = tokio::time::Instant::now();
    for n in 66..=5000 {
        feed.push(text(n)).await;
    }
    assert_eq!(started.elapsed(), SECOND * 30);
    assert_eq!(call.next().await, Some(Told::Lost(5000 - 4096 - 1)), "what is too much is lost, and told");
    reads(&mut call, 5000 - 4096 + 1..=5000).await;
    for n in 5001..=5064 {
        feed.push(text(n)).await;
    }
    let id = call.mark();
    drop(call);
    for n in 5065..=5300 {
        feed.push(text(n)).await;
    }
    assert_eq!(started.elapsed(), SECOND * 30);
    reads(&mut resumed(&session, &id), 5001..=5300).await;
    // By bytes as well.
    let (feed, _call) = session.stream(Some(b"2"));
    feed.push(vec![b'x'; 1 << 20].into()).await;
    assert!(timeout(SECOND, feed.push(text(0))).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn streams_are_kept_for_a_while_and_then_take_nothing() {
    let world = World::new(9);
    let session = world.open("/mcp");
    let kept = |id: &str| {
        world.sessions.sweep();
        !matches!(session.resume(id), Resumed::Gone(_))
    };
    let mut ended = Vec::new();
    for reads_to_the_end in [true, true, false] {
        let (feed, mut call) = session.stream(Some(b"1"));
        feed.end(Some(text(1)));
        ended.push(call.mark());
        if reads_to_the_end {
            reads(&mut call, 1..=1).await;
        }
    }
    let (running, call) = session.stream(Some(b"3"));
    let running_id = call.mark();
    drop(call);
    running.push(text(1)).await;
    advance(SECOND * 59).await;
    assert!(kept(&ended[0]), "the last bytes may not have arrived");
    advance(SECOND).await;
    assert!(!kept(&ended[1]));
    advance(SECOND * 239).await;
    assert!(kept(&ended[2]), "and is there for as long again, since it was asked for");
    advance(SECOND * 299).await;
    assert!(kept(&ended[2]));
    advance(MINUTE * 5).await;
    assert!(!kept(&ended[2]) && !kept(&ended[0]));
    // A call that runs for long is there when its client comes back after long.
    advance(MINUTE * 20).await;
    reads(&mut resumed(&session, &running_id), 1..=1).await;
    running.end(Some(text(2)));
    advance(MINUTE * 5).await;
    assert!(!kept(&running_id));
    assert_eq!(world.sessions.kept(), 0);

    // What its own stream told is let go of as well, but not what it has yet to tell.
    let mut own = session.attach();
    assert!((1..=100).all(|n| session.push(text(n))));
    reads(&mut own, 1..=90).await;
    let full = world.sessions.kept();
    advance(MINUTE * 5).await;
    world.sessions.sweep();
    assert!(world.sessions.kept() < full / 5, "an idle stream takes little");
    drop(own);
    advance(MINUTE * 5).await;
    world.sessions.sweep();
    let mut own = session.attach();
    assert_eq!(own.next().await, Some(Told::Lost(2)), "as few as if it had never been opened");
    reads(&mut own, 93..=100).await;
}

#[tokio::test(start_paused = true)]
async fn streams_are_bounded() {
    let world = World::new(99);
    let session = world.open("/mcp");
    // In number: the oldest that have ended go first.
    let ids: Vec<_> = (0..40)
        .map(|_| {
            let (feed, call) = session.stream(Some(b"1"));
            feed.end(Some(text(1)));
            call.mark()
        })
        .collect();
    let kept: Vec<_> = ids.iter().map(|id| matches!(session.resume(id), Resumed::Stream(_))).collect();
    assert!(kept[..24].iter().all(|kept| !kept) && kept[24..].iter().all(|kept| *kept));
    let running: Vec<_> = (0..200).map(|_| session.stream(Some(b"1"))).collect();
    let kept = |id: &str| matches!(session.resume(id), Resumed::Stream(_));
    assert_eq!(running.iter().filter(|(_, call)| kept(&call.mark())).count(), 128);
    drop(running);

    // In bytes, all together: beyond the limit nothing is kept for those who are away.
    let big = Bytes::from(vec![b'x'; 1 << 20]);
    let mut calls = Vec::new();
    for _ in 0..80 {
        let session = world.open("/mcp");
        let (feed, call) = session.stream(Some(b"1"));
        let id = call.mark();
        drop(call);
        feed.add(big.clone());
        calls.push((session, feed, id));
    }
    assert!(world.sessions.kept() <= 66 << 20, "{}", world.sessions.kept());
    assert!(matches!(calls[0].0.resume(&calls[0].2), Resumed::Stream(_)));
    assert!(matches!(calls[79].0.resume(&calls[79].2), Resumed::Gone(Some(_))));
    // One who is there gets everything all the same.
    let (feed, mut call) = session.stream(Some(b"1"));
    for n in 1..=100 {
        feed.push(text(n)).await;
        reads(&mut call, n..=n).await;
    }
    feed.end(Some(big));
    assert!(matches!(call.next().await, Some(Told::Message { number: 101, last: true, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_keeps_no_stream() {
    let world = World::new(9);
    let session = world.open("/mcp");
    let (feed, mut call) = session.stream(Some(b"1"));
    let (left, gone) = session.stream(Some(b"2"));
    let id = gone.mark();
    drop(gone);
    left.push(text(1)).await;
    world.sessions.close(session.id());
    assert!(matches!(session.resume(&id), Resumed::Gone(_)));
    left.push(vec![0; 9999].into()).await;
    feed.push(text(1)).await;
    reads(&mut call, 1..=1).await; // who is there still gets the answer
    feed.end(Some(text(2)));
    reads(&mut call, 2..=2).await;
    assert!(world.sessions.kept() < 1000, "{}", world.sessions.kept());
    assert_eq!(session.attach().next().await, None);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_all_streams_end_and_ids_stay_good() {
    let world = World::new(9);
    let session = world.open("/mcp");
    let mut stream = session.attach();
    let (end, ()) = tokio::join!(stream.next(), async { world.sessions.end_all() });
    assert_eq!((end, world.count()), (None, 0));
    assert!(World::new(9).find(&session).is_some());
}

#[test]
fn an_idle_session_takes_less_than_a_kibibyte() {
    let session = World::new(9).open("/mcp/a-server-with-a-name");
    let parts = session.agreed();
    let texts = [session.id(), session.view(), &parts.revision, &parts.capabilities, &parts.client];
    // Its places in the two tables: 8 bytes and 40, both perhaps half empty.
    let bytes = size_of::<Session>() + texts.map(str::len).iter().sum::<usize>() + 2 * (8 + 1 + 40);
    assert!(bytes < 1024, "{bytes}");
    assert!(size_of::<spool::Spool>() < 512, "nor does a stream take much: {}", size_of::<spool::Spool>());
}

#[tokio::test]
async fn answers_find_their_requests_and_ends_reach_them() {
    let world = World::new(10);
    let session = world.open("");
    let answer = |id: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        crate::wire::Message::parse(text.into(), 9).unwrap()
    };
    let (mut first, second) = (session.ask().unwrap(), session.ask().unwrap());
    assert_ne!(first.id(), second.id());
    for stranger in ["1", r#""1""#, r#""gw-9""#, r#""gw-""#] {
        assert!(!session.answered(answer(stranger)), "{stranger}");
    }
    assert!(session.answered(answer(&first.id())) && !session.answered(answer(&first.id())));
    assert!(first.answer().await.is_some());
    let id = second.id();
    drop(second);
    assert!(!session.answered(answer(&id)));
    let mut last = session.ask().unwrap();
    world.sessions.close(session.id());
    assert!(last.answer().await.is_none() && session.ask().is_err());
}

#[test]
fn leases_end_with_the_session_or_before() {
    let world = World::new(10);
    let session = world.open("");
    let lease = Arc::new(());
    assert!(session.hold("a", lease.clone()) && session.hold("b", lease.clone()));
    assert!(!session.hold("a", lease.clone()) && session.holds("a"));
    assert_eq!(Arc::strong_count(&lease), 3);
    assert!(session.give_back("a") && !session.give_back("a"));
    assert_eq!(Arc::strong_count(&lease), 2);
    world.sessions.close(session.id());
    assert_eq!(Arc::strong_count(&lease), 1);
    assert!(!session.hold("c", lease));
}
