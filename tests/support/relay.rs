//! A TCP relay between trunkline and a server: a network with the faults that a test gives it.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::fake::socket;

/// How the network is. It can change at any time, and holds for open connections as well.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    /// Every byte comes so much later, each way.
    pub(crate) latency: Duration,
    /// At most so many bytes per second and connection, each way.
    pub(crate) rate: Option<u32>,
    /// Nothing goes through, and nobody is told; what was sent meanwhile arrives afterwards.
    pub(crate) dark: bool,
    /// New connections are closed as soon as they are made.
    pub(crate) closed: bool,
    /// After so many bytes to the client a connection ends.
    pub(crate) cut: Option<(u64, Ending)>,
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// The server seems to have closed it.
    Close,
    /// The server seems to say nothing more, and to read on.
    HalfClose,
    /// It is reset.
    Reset,
}

/// A relay; it ends with its owner.
#[derive(Debug)]
pub(crate) struct Relay {
    address: SocketAddr,
    path: String,
    weather: watch::Sender<Weather>,
    accepted: Arc<AtomicUsize>,
    /// Cancelled to break what is open.
    storm: Arc<watch::Sender<CancellationToken>>,
    open: TaskTracker,
    end: CancellationToken,
    _ends: DropGuard,
}

struct Pipe {
    weather: watch::Receiver<Weather>,
    cut: bool,
}

impl Relay {
    /// A relay to the server of a [`Fake`](super::Fake)'s [entry](super::Fake::entry).
    pub(crate) fn to(entry: &str) -> Self {
        let url = entry.split('"').nth(3).unwrap();
        let (server, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Self::between(server.parse().unwrap(), format!("/{path}"))
    }

    fn between(server: SocketAddr, path: String) -> Self {
        let listener = socket(([127, 0, 0, 1], 0).into()).listen(1024).unwrap();
        let address = listener.local_addr().unwrap();
        let (end, accepted) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let (weather, seen) = watch::channel(Weather::default());
        let storm = Arc::new(watch::Sender::new(end.child_token()));
        let open = TaskTracker::new();
        let accepting = accept(listener, server, seen, accepted.clone(), storm.clone(), open.clone());
        let ended = end.clone();
        open.spawn(async move { ended.run_until_cancelled(accepting).await.unwrap_or_default() });
        Self { address, path, weather, accepted, storm, open, _ends: end.clone().drop_guard(), end }
    }

    /// Its entry in a configuration, with more keys.
    pub(crate) fn entry(&self, more: &str) -> String {
        format!(r#"{{"url": "http://{}{}"{more}}}"#, self.address, self.path)
    }

    /// Changes the weather.
    pub(crate) fn weather(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }

    /// Resets everything that is open.
    pub(crate) fn reset(&self) {
        self.storm.send_replace(self.end.child_token()).cancel();
    }

    /// How many connections were made so far.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Acquire)
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.open.len() - 1
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    weather: watch::Receiver<Weather>,
    accepted: Arc<AtomicUsize>,
    storm: Arc<watch::Sender<CancellationToken>>,
    open: TaskTracker,
) {
    while let Ok((mut client, _)) = listener.accept().await {
        accepted.fetch_add(1, Ordering::AcqRel);
        let (weather, struck) = (weather.clone(), storm.borrow().clone());
        open.spawn(async move {
            let mut dark = weather.clone();
            let lit = struck.run_until_cancelled(dark.wait_for(|weather| !weather.dark)).await;
            if lit.is_none_or(|lit| lit.is_err()) || weather.borrow().closed {
                return;
            }
            let Ok(mut server) = TcpStream::connect(server).await else { return };
            server.set_nodelay(true).unwrap();
            client.set_nodelay(true).unwrap();
            let passed = struck.run_until_cancelled(pass(&mut client, &mut server, weather)).await;
            if passed.is_none_or(|ending| ending == Some(Ending::Reset)) {
                client.set_zero_linger().unwrap();
                server.set_zero_linger().unwrap();
            }
        });
    }
}

/// Passes bytes on until both sides have ended, or the weather ends it.
async fn pass(
    client: &mut TcpStream,
    server: &mut TcpStream,
    weather: watch::Receiver<Weather>,
) -> Option<Ending> {
    let ((from_client, to_client), (from_server, to_server)) = (client.split(), server.split());
    let up = Pipe { weather: weather.clone(), cut: false };
    let down = Pipe { weather, cut: true };
    let (mut up, mut down) = (pin!(up.run(from_client, to_server)), pin!(down.run(from_server, to_client)));
    let ended = tokio::select! {
        up = &mut up => {
            up.ok()?; // a client that has broken off hears nothing more
            down.await
        }
        down = &mut down => {
            if let Ok(None | Some(Ending::HalfClose)) = down {
                drop(up.await);
            }
            down
        }
    };
    ended.ok().flatten().filter(|ending| *ending != Ending::HalfClose)
}

impl Pipe {
    /// Passes bytes on up to the end, which is passed on as well. The way the weather ended it, if it did.
    async fn run(
        mut self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<Option<Ending>> {
        let (put, mut take) = mpsc::channel::<(Instant, Bytes)>(64);
        let mut weather = self.weather.clone();
        let reading = async move {
            loop {
                let mut piece = BytesMut::with_capacity(4096);
                if from.read_buf(&mut piece).await? == 0 {
                    return Ok::<_, io::Error>(());
                }
                let due = Instant::now() + weather.borrow_and_update().latency;
                if put.send((due, piece.freeze())).await.is_err() {
                    return Ok(());
                }
            }
        };
        let writing = async {
            let mut sent = 0;
            while let Some((due, piece)) = take.recv().await {
                sleep_until(due).await;
                let now =
                    self.weather.wait_for(|weather| !weather.dark).await.map_err(io::Error::other)?.clone();
                if let Some(rate) = now.rate {
                    sleep(Duration::from_secs(1) * u32::try_from(piece.len()).unwrap() / rate).await;
                }
                let cut = now.cut.filter(|_| self.cut);
                let left = cut.map_or(u64::MAX, |(after, _)| after.saturating_sub(sent));
                let piece = &piece[..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX))];
                to.write_all(piece).await?;
                sent += piece.len() as u64;
                if let Some((after, ending)) = cut
                    && sent >= after
                {
                    if ending == Ending::HalfClose {
                        to.shutdown().await?;
                    }
                    return Ok(Some(ending));
                }
            }
            to.shutdown().await?;
            Ok(None)
        };
        let (mut reading, mut writing) = (pin!(reading), pin!(writing));
        tokio::select! {
            ended = &mut writing => ended,
            read = &mut reading => {
                read?;
                writing.await
            }
        }
    }
}
