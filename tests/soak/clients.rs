//! Clients of both eras that call, list, listen, come and go, and look at each answer.

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::faults::{answering, well};
use crate::support::{Client, Modern, Script, World};

/// Between two things that a client does.
const REST: Duration = Duration::from_millis(20);

/// Answers with what was said.
pub(crate) fn echo() -> Script {
    answering(|seen| well(seen.params()["arguments"]["said"].as_str().unwrap_or_default()))
}

/// What all clients saw.
#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// While all is well, and while it is not.
    times: [Vec<Duration>; 2],
    trouble: bool,
    odd: usize,
    failed: usize,
    ended: usize,
}

/// Figures of some time.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) good: usize,
    pub(crate) odd: usize,
    failed: usize,
    /// Sessions that were given back.
    pub(crate) ended: usize,
    /// What the slowest of so many in a hundred took, while all was well and while it was not.
    pub(crate) slow: [Duration; 2],
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [well, trouble] = self.slow;
        let Self { good, odd, failed, ended, .. } = self;
        write!(
            f,
            "{ended} sessions, {good} good calls, slow ones {well:?}, beside a fault {trouble:?}; {failed} of {odd} odd ones failed"
        )
    }
}

impl Tally {
    /// What was seen so far; slow are the slowest but for `percent`.
    pub(crate) fn take(&self, percent: usize) -> Figures {
        let mut seen = std::mem::take(&mut *self.0.lock().unwrap());
        let good = seen.times.iter().map(Vec::len).sum();
        let slow = seen.times.each_mut().map(|times| {
            times.sort_unstable();
            times.get(times.len() * percent / 100).copied().unwrap_or_default()
        });
        Figures { good, odd: seen.odd, failed: seen.failed, ended: seen.ended, slow }
    }

    /// From now on something is wrong, or all is well.
    pub(crate) fn trouble(&self, trouble: bool) {
        self.0.lock().unwrap().trouble = trouble;
    }

    fn good(&self, took: Duration) {
        let mut seen = self.0.lock().unwrap();
        let phase = usize::from(seen.trouble);
        seen.times[phase].push(took);
    }

    fn odd(&self, failed: bool) {
        let mut seen = self.0.lock().unwrap();
        seen.odd += 1;
        seen.failed += usize::from(failed);
    }
}

/// Has `count` clients about while `meanwhile` goes on.
pub(crate) async fn run(
    world: &World,
    count: usize,
    stop: &CancellationToken,
    tally: &Arc<Tally>,
    meanwhile: impl AsyncFnOnce(),
) {
    let stop = stop.child_token();
    let mut clients = JoinSet::new();
    for number in 0..count {
        let (url, stop, tally) = (world.url("/mcp"), stop.clone(), tally.clone());
        clients.spawn(async move {
            let mut turn = 0;
            while !stop.is_cancelled() {
                turn += 1;
                if number % 4 == 3 {
                    modern(&url, number, turn, &tally).await;
                } else {
                    legacy(&url, number, turn, &tally).await;
                }
            }
        });
    }
    let failed = async {
        while let Some(done) = clients.join_next().await {
            done.unwrap(); // a client that found something wrong ends all
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = failed => {}
        () = meanwhile() => stop.cancel(),
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
}

/// Which server, and what is said.
fn call(number: usize, turn: usize, n: usize) -> (&'static str, String) {
    (["http", "odd", "sse", "child"][(number + n) % 4], format!("client-{number}-{turn}-{n}."))
}

/// A session's whole life.
async fn legacy(url: &str, number: usize, turn: usize, tally: &Tally) {
    let client = Client::greet(url.to_owned()).await;
    let stream = if turn.is_multiple_of(2) { Some(client.listen().await) } else { None };
    for n in 0..20 {
        let (server, said) = call(number, turn, n);
        let request = client.request(&format!("who_mcp_{server}"), &format!(r#"{{"said":"{said}"}}"#));
        let id: Value = serde_json::from_str::<Value>(&request).unwrap()["id"].clone();
        let started = Instant::now();
        let answer = client.ask(&request).await;
        judge(&answer, &id, server, &said, started.elapsed(), tally);
        if n % 10 == 0 {
            let tools = client.tools().await;
            assert!(
                ["who_mcp_http", "who_mcp_sse", "who_mcp_child"]
                    .iter()
                    .all(|good| tools.iter().any(|t| t == good))
            );
        }
        sleep(REST).await;
    }
    drop(stream);
    // Some never say goodbye; their sessions are ended for them, so that what is left can be counted.
    let ended = client.whole(hyper::Method::DELETE, "").await;
    assert_eq!(ended.status, 204);
    tally.0.lock().unwrap().ended += 1;
}

async fn modern(url: &str, number: usize, turn: usize, tally: &Tally) {
    let client = Modern::at(url.to_owned(), "{}");
    let listening =
        if turn.is_multiple_of(2) { Some(client.listen(r#"{"toolsListChanged":true}"#).await) } else { None };
    for n in 0..20 {
        let (server, said) = call(number, turn, n);
        let request = client.calling(&format!("who_mcp_{server}"), &format!(r#"{{"said":"{said}"}}"#));
        let id: Value = serde_json::from_str::<Value>(&request).unwrap()["id"].clone();
        let started = Instant::now();
        let answer = client.headed(&request).post(&request).await;
        let text = match answer.text.rsplit_once("data: ") {
            Some((_, last)) => last.trim().to_owned(),
            None => answer.text,
        };
        judge(&text, &id, server, &said, started.elapsed(), tally);
        sleep(REST).await;
    }
    drop(listening);
}

/// I1, I2 and I4 of one answer.
fn judge(answer: &str, id: &Value, server: &str, said: &str, took: Duration, tally: &Tally) {
    let parsed: Value = serde_json::from_str(answer).unwrap_or_else(|why| panic!("{why}: {answer}"));
    assert_eq!(parsed["id"], *id, "I1: {said} was answered {answer}");
    let text = parsed["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let failed = parsed["error"].is_object() || parsed["result"]["isError"] == true;
    if server == "odd" {
        let mine = said.rsplit_once('-').map(|(mine, _)| mine).unwrap_or_default();
        assert!(!answer.contains("client-") || answer.contains(mine), "I2: {said} was answered {answer}");
        tally.odd(failed);
        return;
    }
    assert!(!failed, "I4: {said} of {server} was answered {answer}");
    assert_eq!(text, said, "I1");
    tally.good(took);
}
