//! Clients and servers that follow a script against a whole proxy, in one process on loopback. The script is drawn from
//! the input; what must hold does so whatever is drawn (the invariants of the fault list, part 2):
//!
//! | | |
//! |---|---|
//! | I1 | each request has one answer, under its own id, and its own client gets it |
//! | I2 | no byte of one client's reaches another |
//! | I3 | nothing panics |
//! | I4 | calls of a server that behaves are answered well, whatever the other does |
//! | I5 | tasks, sessions and calls in flight are gone soon after the clients |
//! | I6 | no secret is in an answer, a metric or the log |
//! | I7 | metrics count what happened |

mod client;
mod http;
#[path = "../../../support/inside.rs"]
#[expect(clippy::unwrap_used, reason = "written for tests, where it may")]
mod inside;
mod judge;
mod plan;
#[expect(clippy::indexing_slicing, reason = "a JSON value gives null for what it lacks")]
mod server;

use std::sync::LazyLock;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

pub use plan::Random;

use client::{Client, Told};
use inside::Inside;
use judge::Judge;
use plan::{Draw, Plan};
use server::Server;

/// What the configuration has as a secret.
const SECRET: &str = "secret-7hT2wLqPz9";
/// Within which time whatever a script holds has to be let go.
const SOON: Duration = Duration::from_secs(10);

/// Plays the script that `input` makes.
///
/// # Errors
/// What does not hold.
pub fn play(input: &[u8]) -> Result<(), String> {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
    });
    let plan = Plan::draw(&mut Draw::new(input));
    RUNTIME.block_on(async {
        tokio::time::timeout(6 * SOON, run(plan)).await.map_err(|_| "it hangs".to_owned())?
    })
}

async fn run(plan: Plan) -> Result<(), String> {
    let mut tasks = JoinSet::new();
    let (good, odd) = (Server::start(&mut tasks).await?, Server::start(&mut tasks).await?);
    let judge = Judge::new();
    let inside = tokio::task::block_in_place(|| Inside::start(&configuration(&good, &odd)));
    judge.before(&inside).await?;
    let mut clients = JoinSet::new();
    for (number, steps) in plan.clients.into_iter().enumerate() {
        let address = inside.url("").trim_start_matches("http://").to_owned();
        clients.spawn(async move { Client::new(number, address).follow(steps).await });
    }
    let mut all = Vec::new();
    while let Some(done) = clients.join_next().await {
        all.push(
            done.map_err(|why| format!("a client ended: {why}"))?
                .map_err(|why| format!("a client: {why}"))?,
        );
    }
    all.sort_by_key(|told: &Told| told.number);
    Judge::answers(&all)?;
    judge.counts(&all, &good, &odd, &inside).await?;
    judge.after(&inside).await?;
    drop(inside);
    tasks.shutdown().await;
    Ok(())
}

/// Short times for the odd one, so that what hangs is given up while one waits for it. The good one answers at once, but
/// on a machine that has no time for anybody.
fn configuration(good: &Server, odd: &Server) -> String {
    let entry = |server: &Server, timeout: &str, most: &str| {
        format!(
            r#"{{"url": "http://{}/mcp", "headers": {{"X-Api-Key": "{SECRET}"}}, "timeout": "{timeout}", "maxTotal": "{most}"}}"#,
            server.address
        )
    };
    format!(
        "listen: 127.0.0.1:0\nadmin: {{listen: 127.0.0.1:0}}\nlimits: {{reconnectInterval: 200ms, firstListWait: 300ms}}\nmcpServers:\n  good: {}\n  odd: {}\n",
        entry(good, "10s", "10s"),
        entry(odd, "300ms", "1s")
    )
}

/// A port of ours.
async fn listen() -> Result<TcpListener, String> {
    TcpListener::bind("127.0.0.1:0").await.map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    /// `TRUNKLINE_SEED` repeats one seed.
    #[test]
    fn whatever_is_drawn_the_invariants_hold() {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
        let given = std::env::var("TRUNKLINE_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
        let first = given.unwrap_or(u64::try_from(since & u128::from(u32::MAX)).unwrap());
        let count = if given.is_some() { 1 } else { 12 };
        for seed in first..first + count {
            let mut random = Random::new(seed);
            let input: Vec<u8> = (0..160).map(|_| random.byte()).collect();
            assert_eq!(play(&input), Ok(()), "again with TRUNKLINE_SEED={seed}");
        }
    }
}
