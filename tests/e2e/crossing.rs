//! Issue 3: two clients at once with the same progress token, the same request id and a cancellation each; nothing
//! crosses. Interleavings are drawn from a seed, which is printed; `TRUNKLINE_SEED` repeats one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Events, Fake, Reply, Script, Step, World, answer, entries, file, scaled};

/// What a call does, in this order. Each is set off by the test.
const STEPS: [&str; 4] = ["one", "leg", "two", "end"];

/// The gates of each call, by who makes it.
type Gates = Arc<Mutex<HashMap<String, [CancellationToken; 4]>>>;

/// Numbers that look random (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

fn script(gates: &Gates, legs: bool) -> Script {
    let gates = gates.clone();
    Script::answering(move |seen| {
        let who = seen.params()["arguments"]["who"].as_str().unwrap().to_owned();
        let [one, leg, two, end] = gates.lock().unwrap()[&who].clone();
        let progress = |step: &str| {
            Step::Send(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":$ID,"progress":1,"message":"{who} {step}"}}}}"#
            ))
        };
        let ask =
            format!(r#"{{"jsonrpc":"2.0","id":"{who}","method":"roots/list","params":{{"who":"{who}"}}}}"#);
        let ask = if legs { Step::Send(ask) } else { progress("leg") };
        Reply::Steps(vec![
            Step::Wait(one),
            progress("one"),
            Step::Wait(leg),
            ask,
            Step::Wait(two),
            progress("two"),
            Step::Wait(end),
            answer(&who),
        ])
    })
}

/// A client's call under way.
struct Player<'w> {
    client: &'w Client,
    who: String,
    gates: [CancellationToken; 4],
    events: Option<Events>,
    step: usize,
    /// The step at which it cancels instead.
    cancels: usize,
}

impl Player<'_> {
    fn over(&self) -> bool {
        self.events.is_none() && self.step > 0
    }

    async fn go_on(&mut self, up: &Fake) {
        let Some(events) = &mut self.events else {
            let call = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"who","arguments":{{"who":"{}"}},"_meta":{{"progressToken":"same"}}}}}}"#,
                self.who
            );
            // The first event needs its gate open, else it comes as one only after a second.
            self.gates[0].cancel();
            let mut events = self.client.stream(&call).await;
            self.check(&events.next().await.unwrap(), up).await;
            (self.events, self.step) = (Some(events), 1);
            return;
        };
        if self.step == self.cancels {
            let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
            assert_eq!(self.client.post(text).await.status, 202);
            let mut last = events.next().await;
            if last.as_ref().is_some_and(|told| told.contains("notifications/cancelled")) {
                last = events.next().await; // of the leg that nobody answered
            }
            assert_eq!(last, None, "{} gets no answer", self.who);
            let call = up
                .saw(|seen| seen.method == "tools/call" && seen.text.contains(&format!("\"{}\"", self.who)))
                .await;
            let id: Value = serde_json::from_str(&call.id.unwrap()).unwrap();
            up.saw(|seen| seen.method == "notifications/cancelled" && seen.params()["requestId"] == id).await;
            self.events = None;
            return;
        }
        self.gates[self.step].cancel();
        let told = events.next().await.unwrap();
        self.check(&told, up).await;
        if self.step == 3 {
            let events = self.events.as_mut().unwrap();
            assert_eq!(events.next().await, None, "nothing follows the answer");
            self.events = None;
        }
        self.step += 1;
    }

    /// Whether it is what comes now, and this client's.
    async fn check(&self, told: &str, up: &Fake) {
        let (who, step) = (&self.who, STEPS[self.step]);
        let parsed: Value = serde_json::from_str(told).unwrap();
        match (step, parsed["method"].as_str()) {
            ("leg", Some("roots/list")) => {
                assert_eq!(parsed["params"]["who"], **who, "{told}");
                let text = format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[],"who":"{who}"}}}}"#,
                    parsed["id"]
                );
                assert_eq!(self.client.post(&text).await.status, 202);
                let said =
                    up.saw(|seen| seen.method.is_empty() && seen.id == Some(format!("\"{who}\""))).await;
                assert!(said.text.contains(&format!(r#""who":"{who}""#)), "{}", said.text);
            }
            ("end", None) => {
                let text = &parsed["result"]["content"][0]["text"];
                assert_eq!((&parsed["id"], text), (&json!(1), &json!(who)), "{told}");
            }
            _ => {
                assert_eq!(parsed["params"]["progressToken"], "same", "{told}");
                assert_eq!(parsed["params"]["message"], format!("{who} {step}"), "{told}");
            }
        }
    }
}

async fn play(make: fn(Script) -> Fake, legs: bool, seed: u64) {
    let gates = Gates::default();
    let up = make(script(&gates, legs));
    let world = World::start(&file("", &entries(&[("up", up.entry())]))).await.ready().await;
    let able = r#"{"roots":{}}"#;
    let clients = [Client::able(&world, "/mcp/up", able).await, Client::able(&world, "/mcp/up", able).await];
    let mut dice = Dice(seed);
    let (mut cancelled, mut answered) = (0, 0);
    for round in 0..scaled(25, 500) {
        let mut players = [0, 1].map(|n| {
            let who = format!("{}{round}", ["a", "b"][n]);
            let own = std::array::from_fn(|_| CancellationToken::new());
            gates.lock().unwrap().insert(who.clone(), own.clone());
            // One in two rounds both cancel, else one or none.
            let cancels = usize::try_from(1 + dice.below(6)).unwrap();
            Player { client: &clients[n], who, gates: own, events: None, step: 0, cancels }
        });
        while players.iter().any(|player| !player.over()) {
            let [a, b] = &mut players;
            match dice.below(3) {
                0 if !a.over() => a.go_on(&up).await,
                1 if !b.over() => b.go_on(&up).await,
                2 if !a.over() && !b.over() => drop(tokio::join!(a.go_on(&up), b.go_on(&up))),
                _ => {}
            }
        }
        for player in &players {
            *(if player.cancels < STEPS.len() { &mut cancelled } else { &mut answered }) += 1;
        }
    }
    let told = up.seen_of("notifications/cancelled").len();
    assert_eq!(told, cancelled, "each cancellation reached the server once");
    eprintln!(
        "seed {seed}: {answered} calls answered and {cancelled} cancelled by two clients, each by itself"
    );
}

fn seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let given = std::env::var("TRUNKLINE_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or(u64::try_from(now.as_micros() & u128::from(u32::MAX)).unwrap());
    eprintln!("TRUNKLINE_SEED={seed}");
    seed
}

#[tokio::test]
async fn nothing_crosses_over_http_whatever_the_order() {
    play(Fake::http, true, seed()).await;
}

#[tokio::test]
async fn nothing_crosses_over_stdio_whatever_the_order() {
    play(Fake::stdio, false, seed()).await;
}
