//! Row 123: the real program under mixed load for long, with one server that is always in some trouble and a file that
//! changes. Whatever is drawn, the invariants of the fault list hold, and nothing grows. `tests/soak/run` runs it.

#[cfg(test)]
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other tests need more of it")]
mod support;

#[cfg(test)]
mod clients;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod growth;

#[cfg(test)]
mod soak {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tokio::time::{Instant, sleep};
    use tokio_util::sync::CancellationToken;

    use super::clients::{self, Tally};
    use super::faults::{self, Dice};
    use super::growth::Growth;
    use super::support::{Fake, World, process, within};

    /// What the file has as a secret.
    const SECRET: &str = "secret-9xVbT4mQ";
    const CLIENTS: usize = 12;
    /// How long everything may take to be let go: unused connections to servers are closed after 60 to 90 s.
    const LET_GO: Duration = Duration::from_secs(100);

    fn seconds() -> u64 {
        std::env::var("TRUNKLINE_SOAK").map_or(30, |text| text.parse().expect("TRUNKLINE_SOAK is in seconds"))
    }

    fn seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        std::env::var("TRUNKLINE_SEED").map_or(now, |text| text.parse().expect("TRUNKLINE_SEED is a number"))
    }

    /// The file. Its `version` changes a text that all see and the settings of a server that nobody calls.
    fn file(good: &[Fake], odd: &Fake, version: usize) -> String {
        let secret =
            format!(r#", "headers": {{"X-Api-Key": "{SECRET}"}}, "timeout": "2s", "maxTotal": "5s""#);
        let mut servers: Vec<_> =
            [("http", &good[0], &*secret), ("sse", &good[1], &*secret), ("child", &good[2], "")]
                .map(|(name, fake, more)| (name, fake.entry_with(more)))
                .into();
        servers.push(("odd", odd.entry_with(&secret)));
        let reach =
            format!(r#"{{"url": "http://127.0.0.1:9/{version}", "description": "version {version}"}}"#);
        servers.push(("spare", reach));
        let servers = super::support::entries(&servers);
        super::support::file("reconnectInterval: 500ms", &servers)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "tests/soak/run"]
    async fn fault_123_nothing_grows_and_nobody_is_hurt() {
        let (seconds, seed) = (seconds(), seed());
        let mut dice = Dice(seed);
        println!("soak: {seconds} s, TRUNKLINE_SEED={seed}");
        let good = [Fake::http, Fake::sse, Fake::stdio].map(|make| make(clients::echo()));
        let odd = Fake::http(clients::echo());
        let mut world = World::start(&file(&good, &odd, 0)).await.ready().await;
        let files = |world: &World| process::fds(world.pid());
        let tally = Arc::new(Tally::default());

        // What stays from the first clients on: threads, connections to servers.
        let stop = CancellationToken::new();
        clients::run(&world, CLIENTS, &stop, &tally, async || sleep(Duration::from_secs(3)).await).await;
        let _warm_up = tally.take(50);
        let before = files(&world);

        // Ten seconds a fault and a minute a reload, or less where there is less time.
        let fault = Duration::from_secs_f64((f64::from(u32::try_from(seconds).unwrap()) / 30.0).min(10.0));
        let end = Instant::now() + Duration::from_secs(seconds);
        let mut growth = Growth::new(world.pid(), seconds);
        let mut troubles = 0;
        clients::run(&world, CLIENTS, &stop, &tally, async || {
            while Instant::now() < end {
                troubles += 1;
                // As long without a fault: only beside that can be told what a fault costs the others.
                sleep(fault / 2).await;
                tally.trouble(true);
                let name = faults::befall(&odd, &mut dice, fault / 2).await;
                tally.trouble(false);
                if troubles % 6 == 0 {
                    world.mount.save(&file(&good, &odd, troubles));
                }
                growth.look();
                println!("soak: {name}; {}", growth.now());
            }
        })
        .await;
        // Of few calls the slowest say more of the machine than of us.
        let figures = tally.take(if seconds >= 600 { 99 } else { 90 });
        println!("soak: {troubles} faults; {figures}");
        let [well, trouble] = figures.slow;
        assert!(trouble <= 2 * well + Duration::from_millis(20), "I4: {figures}");
        assert!(figures.good > 0 && figures.odd > 0, "{figures}");

        // I5: all of it goes with the clients.
        for series in ["trunkline_sessions", "trunkline_streams"] {
            within(LET_GO, series, async || (world.metric(series).await < 0.5).then_some(())).await;
        }
        for server in ["http", "sse", "child", "odd"] {
            let series = format!("trunkline_requests_in_flight{{server=\"{server}\"}}");
            within(LET_GO, &series, async || (world.metric(&series).await < 0.5).then_some(())).await;
        }
        within(LET_GO, "file descriptors are given back", async || {
            (files(&world) <= before + 4).then_some(())
        })
        .await;
        assert!(process::children(world.pid()).len() <= 1, "one server is a child");
        growth.check(figures.ended);

        // I3, I6 and I7.
        assert!(world.metric("trunkline_panics_total").await < 0.5, "something panicked");
        let (_, metrics) = world.admin("/metrics").await;
        let log = format!("{:?}", world.log());
        for text in [&metrics, &log, &world.status().await.to_string()] {
            assert!(!text.contains(SECRET), "a secret is shown");
        }
        assert!(!log.contains("panicked"), "{log}");
        let odd_calls = metrics.lines().filter(|line| {
            line.starts_with("trunkline_requests_total{")
                && line.contains("server=\"odd\"")
                && line.contains("tools/call")
        });
        println!("soak: {}", odd_calls.collect::<Vec<_>>().join("; "));
        world.signal(nix::sys::signal::Signal::SIGTERM);
        assert!(world.ended(Duration::from_secs(40)).await.success());
    }
}
