//! What befalls the odd server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::clients::echo;
use crate::support::{Fake, Reply, Script, Seen, Step, answer, progress, text, tool};

/// Numbers that look random (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}

type Calling = fn(&Seen) -> Reply;

/// Ways to answer calls, by their names.
const CALLS: [(&str, Calling); 11] = [
    ("never answers", |_| Reply::Stall),
    ("503 and come back later", |_| Reply::Status(503, vec![("retry-after", "1".into())])),
    ("429", |_| Reply::Status(429, vec![("retry-after", "1".into())])),
    ("404, as if it knew no session", |_| Reply::Status(404, vec![])),
    ("401", |_| Reply::Status(401, vec![])),
    ("cut in a stream", |_| Reply::Steps(vec![progress(), Step::Cut])),
    ("no JSON", |_| Reply::Text("<html>log in</html>".into())),
    ("another's id", |_| Reply::Text(r#"{"jsonrpc":"2.0","id":"no","result":{"content":[]}}"#.into())),
    ("twice", |_| Reply::Steps(vec![answer("first"), answer("second")])),
    ("too deep", |_| Reply::Result(format!("{}{}", "[".repeat(5000), "]".repeat(5000)))),
    ("notes without end", |_| {
        let note =
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#;
        let mut steps = vec![Step::Send(note.into()); 2000];
        steps.push(answer("at last"));
        Reply::Steps(steps)
    }),
];

/// One fault for `time`; then all is well again. Gives its name.
pub(crate) async fn befall(odd: &Fake, dice: &mut Dice, time: Duration) -> &'static str {
    let kind = usize::try_from(dice.below(CALLS.len() as u64 + 6)).unwrap();
    let name = match kind.checked_sub(CALLS.len()) {
        None => {
            let (name, call) = CALLS[kind];
            odd.change(|script| script.call = Arc::new(call));
            sleep(time).await;
            name
        }
        Some(0) => {
            odd.leave().await;
            sleep(time).await;
            odd.back();
            "refuses connections"
        }
        Some(1) => {
            odd.leave().await;
            odd.fall_silent();
            sleep(time).await;
            odd.back();
            "takes connections and says nothing"
        }
        Some(2) => {
            for _ in 0..4 {
                odd.leave().await;
                sleep(time / 8).await;
                odd.back();
                sleep(time / 8).await;
            }
            "comes and goes"
        }
        Some(3) => {
            odd.forget();
            sleep(time).await;
            "forgets every session"
        }
        Some(4) => {
            let gate = CancellationToken::new();
            let opens = gate.clone();
            odd.change(|script| script.greets_after = Some(opens));
            odd.leave().await;
            odd.back();
            sleep(time).await;
            gate.cancel();
            "greets late"
        }
        Some(_) => {
            odd.change(|script| script.tools = (0..500).map(|n| tool(&format!("t{n}"))).collect());
            odd.leave().await;
            odd.back();
            sleep(time).await;
            "has other tools"
        }
    };
    odd.change(|script| *script = echo());
    name
}

/// What a well-behaved server says to `said`.
pub(crate) fn well(said: &str) -> Reply {
    Reply::Result(text(said))
}

/// A script that answers so.
pub(crate) fn answering(call: Calling) -> Script {
    Script { sessions: false, ..Script::answering(call) }
}
