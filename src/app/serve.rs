//! Runs until told to end.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::banner;
use super::kept_key;
use super::load::{LoadError, Origin};
use super::reload::Reload;
use crate::clock::Clock;
use crate::config::{Parsed, Problem, Severity};
use crate::fleet::Fleet;
use crate::front::{Admin, Endpoint, Server, Tls, Workers};
use crate::metrics::Metrics;
use crate::relay::Relay;
use crate::session::{Keyring, Sessions};

/// Why serving could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The configuration is of no use.
    #[error(transparent)]
    Config(#[from] LoadError),
    /// An address cannot be had.
    #[error("cannot listen on {0}: {1}; is another trunkline running? change `{2}` in the configuration")]
    Bind(SocketAddr, std::io::Error, &'static str),
    /// The endpoint's certificate is of no use.
    #[error("no TLS for `listen`: {0}")]
    Certificate(String),
    /// The machine refuses us something else.
    #[error(transparent)]
    Machine(#[from] std::io::Error),
}

/// Everything that runs.
struct Running {
    endpoint: Arc<Server>,
    operators: Arc<Server>,
    admin: Arc<Admin>,
    relay: Arc<Relay>,
    fleet: Arc<Fleet>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// Last, so that nothing on them is cut before it was drained.
    _workers: Workers,
}

/// Serves what `origin` says until SIGTERM or SIGINT, then drains. `log_lost` is where the log counts its losses.
///
/// # Errors
/// Where it could not start.
pub async fn serve(origin: Origin, greet: bool, log_lost: Arc<AtomicU64>) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let hangup = signal(SignalKind::hangup())?; // from here on it ends nobody
    let parsed = origin.load()?;
    tell(&parsed.notes);
    let running = start(&origin, parsed, hangup, greet, log_lost).await?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("ending: calls in flight may finish; a second signal ends at once");
    tokio::select! {
        () = running.drain() => tracing::info!("ended"),
        _ = terminate.recv() => tracing::warn!("ended at once"),
        _ = interrupt.recv() => tracing::warn!("ended at once"),
    }
    Ok(())
}

/// Logs what a configuration that can be used gave reason to say.
pub(super) fn tell(notes: &[Problem]) {
    for note in notes {
        if note.severity == Severity::Note {
            tracing::info!("{note}");
        } else {
            tracing::warn!("{note}");
        }
    }
}

async fn start(
    origin: &Origin,
    parsed: Parsed,
    hangup: Signal,
    greet: bool,
    log_lost: Arc<AtomicU64>,
) -> Result<Running, ServeError> {
    let config = Arc::new(parsed.config.clone());
    let (listener, bound) = bind(config.listen, "listen").await?;
    let (admin_listener, admin_bound) = bind(config.admin, "admin.listen").await?;
    let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
    metrics.log(log_lost);
    let tls = config.tls.as_ref().map(|files| Tls::load(files, metrics.clone()));
    let tls = tls.transpose().map_err(ServeError::Certificate)?;
    let keys = Arc::new(Keyring::new(&kept_key::keys(&config)));
    let sessions = Sessions::new(&config.limits, keys.clone(), metrics.clone());
    let fleet = Fleet::spawn(config.clone(), metrics.clone()).await;
    let clock = Arc::new(Clock::default());
    let relay = Relay::new(fleet.clone(), clock.clone(), keys.clone(), metrics.clone());
    let workers = Workers::start()?;
    let endpoint = Arc::new(Server::new(
        workers.runtimes(),
        &config.limits,
        metrics.clone(),
        fleet.memory().clone(),
        tls.clone(),
    ));
    let operators =
        Arc::new(Server::new(Vec::new(), &config.limits, metrics.clone(), fleet.memory().clone(), None));
    let admin = Arc::new(Admin {
        bound: admin_bound,
        fleet: fleet.clone(),
        metrics: metrics.clone(),
        memory: fleet.memory().clone(),
        draining: AtomicBool::new(false),
        last_reload: std::sync::Mutex::default(),
    });
    let clients = Arc::new(Endpoint {
        bound,
        relay: relay.clone(),
        clock: clock.clone(),
        sessions: sessions.clone(),
        fleet: fleet.clone(),
        metrics: metrics.clone(),
        closing: endpoint.closing.clone(),
    });
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let ended = endpoint.ended.clone();
    tasks.spawn(endpoint.clone().run(listener, clients));
    tasks.spawn(operators.clone().run(admin_listener, admin.clone()));
    tasks.spawn(clock.run(ended.clone()));
    tasks.spawn({
        let (sessions, stop) = (sessions.clone(), stop.clone());
        async move { sessions.run(stop).await }
    });
    tasks.spawn({
        let mut reload = Reload::new(
            origin.clone(),
            config.clone(),
            fleet.clone(),
            keys,
            sessions.clone(),
            admin.clone(),
            metrics.clone(),
        );
        reload.tls = tls;
        let stop = stop.clone();
        async move {
            let reloading = Box::pin(reload.run(&parsed, hangup));
            stop.run_until_cancelled(reloading).await.unwrap_or_default();
        }
    });
    metrics.reloaded(true);
    tracing::info!(%bound, admin = %admin_bound, servers = config.servers.len(), "listening");
    if greet {
        banner::print(bound, admin_bound, origin.file(), &config);
    }
    Ok(Running { endpoint, operators, admin, relay, fleet, tasks, stop, _workers: workers })
}

async fn bind(address: SocketAddr, key: &'static str) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listener = TcpListener::bind(address).await.map_err(|error| ServeError::Bind(address, error, key))?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

impl Running {
    /// Fails readiness, takes no more, lets what runs finish, ends the servers.
    async fn drain(self) {
        let limits = self.fleet.limits().clone();
        self.admin.draining.store(true, Ordering::Release);
        self.stop.cancel();
        tokio::time::sleep(limits.drain_delay).await;
        self.endpoint.closing.cancel();
        let mut finished = pin!(async {
            self.endpoint.drained().await;
            self.relay.drained().await;
        });
        let telling = (limits.drain_timeout / 4).min(TELLING);
        let waiting = limits.drain_timeout.saturating_sub(telling);
        if timeout(waiting, &mut finished).await.is_err() {
            tracing::warn!("calls are still in flight after {waiting:?}: they are answered with an error");
            self.relay.end();
            if timeout(telling, finished).await.is_err() {
                tracing::warn!("connections are still open after {:?}: they are cut", limits.drain_timeout);
            }
        }
        self.endpoint.ended.cancel();
        self.fleet.close().await;
        self.operators.closing.cancel();
        self.operators.ended.cancel();
        self.tasks.close();
        drop(timeout(LAST, self.tasks.wait()).await);
    }
}

/// The part of the drain time, a quarter at most, that is for telling clients that their calls are not waited for any
/// longer.
const TELLING: Duration = Duration::from_secs(1);
/// For what should have ended long before.
const LAST: Duration = Duration::from_secs(1);
