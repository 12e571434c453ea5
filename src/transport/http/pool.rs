//! The connections of one link, all to the same server.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::client::legacy::connect::Connection;
use hyper_util::rt::TokioTimer;
use tokio::sync::{Notify, SetOnce, oneshot};
use tokio::time::Instant;

use super::CLOSED;
use super::connector::{Connector, KEEP_ALIVE};
use super::http1::Http1;
use super::idle::Idle;
use super::lease::Lease;
use super::tasks::Tasks;
use crate::memory::Memory;
use crate::transport::Failure;
use crate::transport::text::reason;

/// How often unused connections are looked for.
pub(super) const TICK: Duration = Duration::from_secs(30);
/// Connections that were put back this many ticks ago are closed: after 60 to 90 seconds. Most servers close them
/// earlier.
pub(super) const IDLE_TICKS: u32 = 3;

/// The connections of one link: over HTTP/1.1 one for each call at a time, over HTTP/2 one for all of them. As many are
/// kept as calls were in flight at once, until they were unused for a while.
#[derive(Debug)]
pub(super) struct Pool {
    /// Where what is read counts.
    pub(super) memory: Arc<Memory>,
    connector: Connector,
    tasks: Tasks,
    idle: Idle,
    /// The HTTP/2 connection that calls share, and when one last took it.
    shared: Mutex<Option<(Lease, u32)>>,
    /// Ticks so far.
    now: AtomicU32,
    /// A task ticks. None does while nothing is unused.
    ticking: AtomicBool,
    /// How many calls wait for a connection, and what wakes them when one is put back.
    waiting: AtomicUsize,
    freed: Notify,
    /// Calls are over. Those in flight end, and with them their connections.
    pub(super) cut: SetOnce<()>,
}

impl Pool {
    pub(super) fn new(connector: Connector, tasks: Tasks, memory: Arc<Memory>) -> Self {
        Self {
            memory,
            connector,
            tasks,
            idle: Idle::new(),
            shared: Mutex::default(),
            now: AtomicU32::new(0),
            ticking: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            freed: Notify::new(),
            cut: SetOnce::new(),
        }
    }

    /// An open connection, if there is one to be had at once.
    pub(super) fn take(&self) -> Option<Lease> {
        self.idle.take().or_else(|| {
            let mut shared = self.shared();
            let (lease, used) = shared.as_mut().filter(|(lease, _)| lease.is_free())?;
            *used = self.now();
            lease.share()
        })
    }

    /// An unused connection that is nobody else's.
    pub(super) fn take_own(&self) -> Option<Lease> {
        self.idle.take_any()
    }

    /// A new connection, or one that is free before that. The new one is kept then: where calls wait for each other,
    /// there are too few.
    pub(super) async fn connect(self: Arc<Self>) -> Result<Lease, Failure> {
        let _waiting = Waiting::new(&self.waiting);
        let mut made = self.make();
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable(); // before the look, so that nothing is missed
            if let Some(lease) = self.take() {
                return Ok(lease);
            }
            tokio::select! {
                biased;
                made = &mut made => return made.unwrap_or_else(|_| Err(Failure::Cut(CLOSED.into()))),
                () = freed => {}
            }
        }
    }

    /// Drops what is left of the connections once their tasks have ended.
    pub(super) fn clear(&self) {
        *self.shared() = None;
        self.idle.trim(|_| true);
    }

    /// Gives back a connection whose response was read to its end. One that still writes the request is not kept: its
    /// server has answered what it does not read.
    pub(super) fn put(self: &Arc<Self>, lease: Lease) {
        if !lease.is_http2() && lease.is_free() && !self.is_cut() {
            self.keep(lease);
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.initialized()
    }

    fn keep(self: &Arc<Self>, mut lease: Lease) {
        lease.fresh = false;
        self.idle.put(lease, self.now());
        // Whoever looked for connections before this one was put has counted itself before that: the shard's lock
        // orders them. So it is with the task that ticks.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.freed.notify_one();
        }
        self.tick();
    }

    /// Makes a connection, in a task that drives it from then on where it is of HTTP/2.
    fn make(self: &Arc<Self>) -> oneshot::Receiver<Result<Lease, Failure>> {
        let (tell, told) = oneshot::channel();
        let (pool, home) = (Arc::clone(self), self.idle.home());
        self.tasks.start(async move {
            let io = match pool.connector.connect().await {
                Ok(io) => io,
                Err(failure) => return drop(tell.send(Err(failure))),
            };
            let give = move |pool: Arc<Self>, lease| {
                if let Err(Ok(lease)) = tell.send(lease) {
                    pool.put(lease); // its call took another, or is gone
                }
            };
            let failed = |error| Err(Failure::Unreachable(reason(&error)));
            // Nothing here holds the pool while the connection lives.
            let driven = if io.connected().is_negotiated_h2() {
                let mut builder = http2::Builder::new(pool.tasks.clone());
                builder.timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE);
                match builder.handshake(io).await {
                    Ok((sender, connection)) => {
                        let lease = Lease::http2(sender, home);
                        pool.offer(&lease);
                        give(pool, Ok(lease));
                        connection.await
                    }
                    Err(error) => return give(pool, failed(error)),
                }
            } else {
                return give(pool, Ok(Lease::http1(Http1::new(io), home)));
            };
            if let Err(error) = driven {
                tracing::trace!(why = reason(&error), "a connection broke");
            }
        });
        told
    }

    /// Lets calls share a connection, unless they share another.
    fn offer(self: &Arc<Self>, lease: &Lease) {
        let mut shared = self.shared();
        if shared.as_ref().is_none_or(|(lease, _)| !lease.is_free()) {
            *shared = lease.share().map(|lease| (lease, self.now()));
        }
        drop(shared);
        self.freed.notify_waiters();
        self.tick();
    }

    /// Closes what is unused for long, in a task that is there as long as something is unused.
    fn tick(self: &Arc<Self>) {
        if self.ticking.load(Ordering::Relaxed) || self.ticking.swap(true, Ordering::Relaxed) {
            return;
        }
        let pool = Arc::clone(self);
        self.tasks.start(async move {
            loop {
                tokio::time::sleep(until_tick()).await;
                pool.now.fetch_add(1, Ordering::Relaxed);
                if !pool.trim() {
                    pool.ticking.store(false, Ordering::Relaxed);
                    if !pool.trim() || pool.ticking.swap(true, Ordering::Relaxed) {
                        return;
                    }
                }
            }
        });
    }

    /// Whether something unused is left.
    fn trim(&self) -> bool {
        let now = self.now();
        let long = |since: u32| now.wrapping_sub(since) >= IDLE_TICKS;
        let mut shared = self.shared();
        if shared.as_ref().is_some_and(|(lease, used)| long(*used) || !lease.is_free()) {
            *shared = None;
        }
        self.idle.trim(long) | shared.is_some()
    }

    #[cfg(test)]
    pub(super) fn home(&self) -> usize {
        self.idle.home()
    }

    #[cfg(test)]
    pub(super) fn unused(&self) -> usize {
        self.idle.count()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    fn shared(&self) -> MutexGuard<'_, Option<(Lease, u32)>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Until all pools tick the next time: together, so that a quiet process is woken once for all of them.
fn until_tick() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let passed = FIRST.get_or_init(Instant::now).elapsed().as_millis() % TICK.as_millis();
    TICK.saturating_sub(Duration::from_millis(u64::try_from(passed).unwrap_or(0)))
}

/// Counts a call that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
