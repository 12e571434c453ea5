use super::*;
use crate::catalog::View;
use crate::clock::Clock;
use crate::config::{self, Machine, Source};
use crate::fleet::Fleet;
use crate::mcp::{Level, Shown};
use crate::metrics::Metrics;
use crate::session::{Agreed, Keyring, Sessions};
use crate::upstream::Upstream;
use crate::wire::Kind;

struct World {
    relay: Arc<Relay>,
    upstream: Arc<Upstream>,
    sessions: Arc<Sessions>,
    metrics: Arc<Metrics>,
}

impl World {
    async fn new(limits: &str) -> Self {
        let text = format!("mcpServers: {{a: {{command: none, startup: false}}}}\nlimits: {{{limits}}}\n");
        let source = Source { name: "test", directory: std::path::Path::new("/"), world: &Machine };
        let config = Arc::new(config::parse(&text, &source).unwrap().config);
        let metrics = Metrics::new("test");
        let keys = Arc::new(Keyring::random());
        let sessions = Sessions::new(&config.limits, keys.clone(), metrics.clone());
        let fleet = Fleet::spawn(config, metrics.clone()).await;
        let upstream = fleet.snapshot().upstreams.values().next().unwrap().clone();
        Self {
            relay: Relay::new(fleet, Arc::new(Clock::default()), keys, metrics.clone()),
            upstream,
            sessions,
            metrics,
        }
    }

    fn guest(&self, level: Option<Level>) -> Caller {
        let capabilities = r#"{"elicitation":{},"sampling":{},"roots":{}}"#.into();
        let agreed = Agreed { revision: "2026-07-28".into(), capabilities, client: String::new() };
        let session = self.sessions.guest("", agreed, level);
        Caller { session, view: View::All, events: false, shown: Shown::default(), handed: None }
    }

    /// Makes the call, whose server asks `questions` one after the other, or all at once, and answers with what it heard.
    fn call(
        &self,
        caller: &Caller,
        message: Message,
        questions: &'static [&'static str],
        at_once: bool,
    ) -> Handled {
        let upstream = self.upstream.clone();
        self.relay.later_or_again(caller, message, move |errand, message| async move {
            errand.asides.asked_by(&upstream);
            let (session, mut heard) = (errand.guard.session().clone(), Vec::new());
            let turns = if at_once { vec![questions] } else { questions.chunks(1).collect() };
            for turn in turns {
                let mut legs = Vec::new();
                for method in turn {
                    let leg = session.ask().unwrap();
                    let (id, params) = (leg.id(), r#"{"n":1.50}"#);
                    let text =
                        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
                    errand.asides.ask(text.into()).await;
                    legs.push(leg);
                }
                for mut leg in legs {
                    let answer = tokio::select! {
                        answer = leg.answer() => answer.unwrap(),
                        () = errand.guard.cancelled() => return None,
                    };
                    heard.push(answer.body().unwrap().to_owned());
                }
                errand.asides.push(told(method::PROGRESS, r#"{"progressToken":7,"progress":1}"#)).await;
                errand.asides.push(told(method::MESSAGE, r#"{"level":"info","data":1}"#)).await;
            }
            Some(wire::response(&message.id().unwrap(), format!("[{}]", heard.join(",")).as_bytes()))
        })
    }

    fn retry(&self, caller: &Caller, message: Message) -> Handled {
        self.relay.later_or_again(caller, message, |_, _| async { panic!("it is none") })
    }

    fn value(&self, series: &str) -> String {
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_default().to_owned()
    }
}

const ALL: &[&str] = &[method::ELICITATION, method::SAMPLING, method::ROOTS_LIST];
const GAUGE: &str = r#"trunkline_held_calls{server="a"}"#;

fn told(method: &str, params: &str) -> Bytes {
    wire::notification(method, params)
}

fn message(id: u32, more: &str) -> Message {
    request(id, r#""name":"t","arguments":{"a":1}"#, more)
}

fn request(id: u32, asked: &str, more: &str) -> Message {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{{asked}{more}}}}}"#);
    Message::parse(text.into(), 64).unwrap()
}

fn with(state: &str, responses: &str) -> String {
    format!(r#","inputResponses":{responses},"requestState":{}"#, quoted(state))
}

/// All that comes, and the answer.
async fn answer(handled: Handled) -> (Vec<Bytes>, Option<Message>) {
    let mut asides = Vec::new();
    let mut call = match handled {
        Handled::Now(answer) | Handled::Busy(answer) => return (asides, Message::parse(answer, 64).ok()),
        Handled::Later(call) => call,
        Handled::Accepted => panic!(),
    };
    loop {
        match call.step().await {
            Step::Aside(text) => asides.push(text),
            Step::Answer(answer) => return (asides, answer.and_then(|text| Message::parse(text, 64).ok())),
            other @ (Step::Asked(_) | Step::Withdrawn(_) | Step::Part(_) | Step::Piece(_)) => {
                panic!("{other:?}")
            }
        }
    }
}

/// The state and the keys of an answer that asks.
fn asked(answer: &Message) -> (String, Vec<String>) {
    let result: serde_json::Value = serde_json::from_str(answer.body().unwrap()).unwrap();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let requests = result["inputRequests"].as_object().unwrap();
    assert!(requests.values().all(|request| request["params"] == serde_json::json!({"n": 1.5})), "{result}");
    (result["requestState"].as_str().unwrap().into(), requests.keys().cloned().collect())
}

fn code(answer: &Message) -> i64 {
    assert_eq!(answer.kind(), Kind::Error, "{:?}", answer.text());
    serde_json::from_str::<serde_json::Value>(answer.body().unwrap()).unwrap()["code"].as_i64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_at_once_is_one_answer_and_the_retry_goes_on() {
    let world = World::new("").await;
    let first = answer(world.call(&world.guest(Some(Level::Debug)), message(1, ""), ALL, true)).await;
    let (state, keys) = asked(first.1.as_ref().unwrap());
    assert_eq!((first.1.unwrap().number(), &*keys.concat()), (Some(1), "leg-1leg-2leg-3"));
    assert_eq!(world.value(GAUGE), "1");
    let responses = r#"{"leg-2":{"content":2.50},"leg-1":{"action":"accept"},"x":7,"leg-3":{"roots":[]}}"#;
    let more = format!(r#"{},"_meta":{{"progressToken":"mine"}}"#, with(&state, responses));
    let (asides, done) = answer(world.retry(&world.guest(None), message(2, &more))).await;
    let done = done.unwrap();
    assert_eq!(done.number(), Some(2));
    assert_eq!(done.body().unwrap(), r#"[{"action":"accept"},{"content":2.50},{"roots":[]}]"#);
    assert_eq!(asides, [told(method::PROGRESS, r#"{"progressToken":"mine","progress":1}"#)], "and no log");
    assert_eq!(world.value(GAUGE), "0");
    assert_eq!(world.value(r#"trunkline_held_calls_total{result="ended",server="a"}"#), "1");
    let again = answer(world.retry(&world.guest(None), message(3, &with(&state, responses)))).await.1;
    assert_eq!(code(&again.unwrap()), -32602, "a state is good once");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_answered_is_asked_again_and_rounds_have_keys_of_their_own() {
    let world = World::new("").await;
    let handled =
        world.call(&world.guest(None), message(1, ""), &[method::ELICITATION, method::SAMPLING], true);
    let (state, _) = asked(&answer(handled).await.1.unwrap());
    let some = with(&state, r#"{"leg-2":{"content":1}}"#);
    let (next, keys) = asked(&answer(world.retry(&world.guest(None), message(2, &some))).await.1.unwrap());
    assert_eq!(keys, ["leg-1"]);
    assert_ne!(next, state);
    let nothing = format!(r#","requestState":{}"#, quoted(&next));
    let (last, keys) = asked(&answer(world.retry(&world.guest(None), message(3, &nothing))).await.1.unwrap());
    assert_eq!(keys, ["leg-1"]);
    let rest = with(&last, r#"{"leg-1":{"action":"decline"}}"#);
    let (asides, done) = answer(world.retry(&world.guest(Some(Level::Info)), message(4, &rest))).await;
    assert_eq!(done.unwrap().body().unwrap(), r#"[{"action":"decline"},{"content":1}]"#);
    assert_eq!(asides, [told(method::MESSAGE, r#"{"level":"info","data":1}"#)], "and no progress");

    let handled = world.call(&world.guest(None), message(1, ""), ALL, false);
    let mut reply = answer(handled).await.1.unwrap();
    for (round, response) in
        [r#"{"action":"accept"}"#, r#"{"content":1}"#, r#"{"roots":[]}"#].iter().enumerate()
    {
        let (state, keys) = asked(&reply);
        assert_eq!(keys, [format!("leg-{}", round + 1)]);
        let more = with(&state, &format!(r#"{{"{}":{response}}}"#, keys[0]));
        reply = answer(world.retry(&world.guest(None), message(9, &more))).await.1.unwrap();
    }
    assert_eq!(reply.body().unwrap(), r#"[{"action":"accept"},{"content":1},{"roots":[]}]"#);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_refused_and_the_call_still_waits() {
    let world = World::new("").await;
    let handled = world.call(&world.guest(None), message(1, ""), &[method::ELICITATION], true);
    let (state, _) = asked(&answer(handled).await.1.unwrap());
    let good = r#"{"leg-1":{"action":"accept"}}"#;
    let elsewhere = World::new("").await;
    for (world, retry) in [
        (&world, message(2, &with(&format!("{state}-TAMPERED"), good))),
        (&world, message(2, &with("", good))),
        (&world, message(2, r#","requestState":7"#)),
        (&world, request(2, r#""name":"t","arguments":{"a":2}"#, &with(&state, good))),
        (&world, request(2, r#""name":"other","arguments":{"a":1}"#, &with(&state, good))),
        (&world, message(2, &with(&state, "7"))),
        (&world, message(2, &with(&state, r#"{"leg-1":7}"#))),
        (&world, message(2, &with(&state, r#"{"leg-1":{"act":"accept"}}"#))),
        (&elsewhere, message(2, &with(&state, good))),
    ] {
        let refused = answer(world.retry(&world.guest(None), retry)).await.1.unwrap();
        assert_eq!((code(&refused), refused.number()), (-32602, Some(2)));
    }
    let (one, other) =
        (world.retry(&world.guest(None), message(2, &with(&state, good))), message(3, &with(&state, good)));
    let other = world.retry(&world.guest(None), other);
    let (one, other) = tokio::join!(answer(one), answer(other));
    assert_eq!(one.1.unwrap().body().unwrap(), r#"[{"action":"accept"}]"#);
    assert_eq!(code(&other.1.unwrap()), -32602, "the first of two wins");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_that_nobody_comes_back_for_are_all_gone_when_their_time_is_over() {
    let world = World::new("holds: 4000, holdTime: 1m").await;
    let mut states = Vec::new();
    for n in 0..1000 {
        let handled = world.call(&world.guest(None), message(n, ""), ALL, true);
        states.push(asked(&answer(handled).await.1.unwrap()).0);
    }
    assert_eq!((world.value(GAUGE), world.relay.orphans.len()), ("1000".into(), 1000));
    tokio::time::advance(Duration::from_secs(55)).await;
    tokio::task::yield_now().await;
    let late = with(&states[999], r#"{"leg-1":{"action":"accept"}}"#);
    let (last, keys) = asked(&answer(world.retry(&world.guest(None), message(5, &late))).await.1.unwrap());
    assert_eq!(keys, ["leg-2", "leg-3"], "in time");
    tokio::time::sleep(Duration::from_secs(61)).await;
    world.relay.orphans.close();
    world.relay.orphans.wait().await;
    assert_eq!((world.value(GAUGE), world.relay.holds.len()), ("0".into(), 0));
    assert_eq!(world.value(r#"trunkline_held_calls_total{result="abandoned",server="a"}"#), "1000");
    for state in [&states[0], &last] {
        let gone = answer(world.retry(&world.guest(None), message(6, &with(state, "{}")))).await.1.unwrap();
        assert_eq!(code(&gone), -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn the_server_hears_that_nobody_comes_back() {
    let world = World::new("holdTime: 1m").await;
    let (tell, heard) = tokio::sync::oneshot::channel();
    let upstream = world.upstream.clone();
    let handled = world.relay.later_or_again(&world.guest(None), message(1, ""), |errand, _| async move {
        errand.asides.asked_by(&upstream);
        let session = errand.guard.session().clone();
        let mut heard = Vec::new();
        let mut legs = Vec::new();
        for method in ALL {
            legs.push(session.ask().unwrap());
            let id = legs.last().unwrap().id();
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"n":1.50}}}}"#);
            errand.asides.ask(text.into()).await;
        }
        for mut leg in legs {
            heard.push(leg.answer().await.unwrap().body().unwrap().to_owned());
        }
        errand.guard.cancelled().await;
        tell.send(heard).unwrap();
        None
    });
    asked(&answer(handled).await.1.unwrap());
    let heard = heard.await.unwrap();
    assert_eq!(heard[0], r#"{"action":"cancel"}"#);
    assert!(
        heard[1].starts_with(r#"{"code":-1,"#) && heard[2].starts_with(r#"{"code":-32603,"#),
        "{heard:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_meanwhile_waits_too_and_what_is_withdrawn_is_not_asked() {
    let world = World::new("").await;
    let upstream = world.upstream.clone();
    let handled = world.relay.later_or_again(&world.guest(None), message(1, ""), |errand, _| async move {
        errand.asides.asked_by(&upstream);
        for n in [1, 2] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":"gw-{n}","method":"roots/list","params":{{"n":1.5}}}}"#);
            errand.asides.ask(text.into()).await;
        }
        errand.asides.withdraw(told(method::CANCELLED, r#"{"requestId":"gw-1"}"#)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Some(wire::response(b"1", b"[1]"))
    });
    let (state, keys) = asked(&answer(handled).await.1.unwrap());
    assert_eq!(keys, ["leg-2"]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let done = answer(world.retry(&world.guest(None), message(2, &with(&state, "{}")))).await.1.unwrap();
    assert_eq!((done.number(), done.body().unwrap()), (Some(2), "[1]"));
}

#[tokio::test(start_paused = true)]
async fn one_server_has_half_of_the_room_and_more_questions_fail_by_themselves() {
    let world = World::new("holds: 2").await;
    let ask = || world.call(&world.guest(None), message(1, ""), &[method::ELICITATION], true);
    let (state, _) = asked(&answer(ask()).await.1.unwrap());
    let refused = answer(ask()).await.1.unwrap();
    assert!(refused.body().unwrap().contains("too many calls wait"), "{:?}", refused.text());
    assert_eq!(world.value(r#"trunkline_held_calls_total{result="refused",server="a"}"#), "1");
    let more = with(&state, r#"{"leg-1":{"action":"accept"}}"#);
    answer(world.retry(&world.guest(None), message(2, &more))).await;
    asked(&answer(ask()).await.1.unwrap());
}

#[tokio::test(start_paused = true)]
async fn whoever_hangs_up_on_a_retry_ends_the_call() {
    let world = World::new("").await;
    let handled =
        world.call(&world.guest(None), message(1, ""), &[method::ELICITATION, method::SAMPLING], false);
    let (state, _) = asked(&answer(handled).await.1.unwrap());
    let caller = world.guest(Some(Level::Info));
    let retry = world.retry(&caller, message(2, &with(&state, r#"{"leg-1":{"action":"accept"}}"#)));
    let Handled::Later(mut call) = retry else { panic!() };
    assert!(matches!(call.step().await, Step::Aside(_)));
    assert!(caller.session.cancel(b"2"));
    drop(call);
    world.relay.orphans.close();
    world.relay.orphans.wait().await;
    assert_eq!(world.value(GAUGE), "0");
    assert_eq!(world.value(r#"trunkline_held_calls_total{result="cancelled",server="a"}"#), "1");
}
