//! A proxy inside the test, in a runtime of its own, whose tasks can be counted. Wired as the program wires it.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use trunkline::clock::Clock;
use trunkline::config::{self, Machine, Source};
use trunkline::fleet::Fleet;
use trunkline::front::{Endpoint, Server};
use trunkline::metrics::Metrics;
use trunkline::relay::Relay;
use trunkline::session::{Keyring, Sessions};

/// A proxy inside the test.
#[derive(Debug)]
pub(crate) struct Inside {
    runtime: Option<Runtime>,
    url: String,
    metrics: Arc<Metrics>,
    _tasks: TaskTracker,
}

impl Inside {
    /// Starts one with a configuration that says `text`.
    pub(crate) fn start(text: &str) -> Self {
        let source = Source { name: "test", directory: Path::new("."), world: &Machine };
        let config = Arc::new(config::parse(text, &source).unwrap().config);
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let tasks = TaskTracker::new();
        let started = tasks.clone();
        let metrics = Metrics::new("test");
        let counted = metrics.clone();
        let wired = runtime.spawn(async move {
            let listener = tokio::net::TcpListener::bind(config.listen).await.unwrap();
            let bound = listener.local_addr().unwrap();
            let metrics = counted;
            let fleet = Fleet::spawn(config.clone(), metrics.clone()).await;
            fleet.first_round().await;
            let server = Arc::new(Server::new(
                Vec::new(),
                &config.limits,
                metrics.clone(),
                fleet.memory().clone(),
                None,
            ));
            let keys = Arc::new(Keyring::random());
            let clock = Arc::new(Clock::default());
            started.spawn(clock.clone().run(CancellationToken::new()));
            let endpoint = Arc::new(Endpoint {
                bound,
                clock: clock.clone(),
                relay: Relay::new(fleet.clone(), clock.clone(), keys.clone(), metrics.clone()),
                sessions: Sessions::new(&config.limits, keys.clone(), metrics.clone()),
                fleet,
                metrics,
                closing: server.closing.clone(),
            });
            started.spawn(server.run(listener, endpoint));
            bound
        });
        let bound =
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(wired)).unwrap();
        Self { runtime: Some(runtime), url: format!("http://{bound}"), metrics, _tasks: tasks }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The metrics, as they are scraped.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.render()
    }

    /// The tasks that are alive.
    pub(crate) fn tasks(&self) -> usize {
        self.runtime.as_ref().expect("it runs").metrics().num_alive_tasks()
    }
}

impl Drop for Inside {
    /// A runtime cannot be waited for inside another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
