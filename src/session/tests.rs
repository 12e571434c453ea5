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
        let (keys, metrics) = (Arc::new(Keyring::new(&[key]).unwrap()), Metrics::new("test"));
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
    let (got, whole) = tokio::join!(second.next(), async { session.push(text(1)) });
    assert_eq!((got, whole), (Some(text(1)), true));
    assert!(timeout(MINUTE, second.next()).await.is_err());
    session.push(text(2));
    assert_eq!(second.next().await, Some(text(2)), "a wait that was given up lost nothing");
    drop(second);
    assert!(!session.attached());
}

#[tokio::test(start_paused = true)]
async fn a_slow_stream_loses_the_oldest() {
    let session = World::new(9).open("/mcp");
    let mut stream = session.attach();
    assert!((0..256).all(|n| session.push(text(n))));
    assert!(!session.push(text(256)));
    for n in 1..=256 {
        assert_eq!(stream.next().await, Some(text(n)));
    }
    // By size: two of these are too much together, and one alone is let through.
    let big = Bytes::from(vec![b'x'; (1 << 20) + 1]);
    assert!(session.push(big.clone()));
    assert!(!session.push(big.clone()));
    assert!(!session.push(text(1)));
    assert_eq!(stream.next().await, Some(text(1)));
    drop(stream);
    assert!((0..8).all(|n| session.push(text(n))));
    assert!(!session.push(text(8)), "few wait while nobody listens");
    assert_eq!(session.attach().next().await, Some(text(1)));
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
