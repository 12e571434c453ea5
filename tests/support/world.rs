//! The real program with a configuration of its own, ended with the test.

use std::net::SocketAddr;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Client, Mount, SOON, process, until};

/// A running trunkline.
#[derive(Debug)]
pub(crate) struct World {
    child: Child,
    pub(crate) mount: Mount,
    log: watch::Receiver<Vec<Value>>,
    bound: SocketAddr,
    admin: SocketAddr,
    _tasks: JoinSet<()>,
}

impl World {
    /// Starts it with a configuration that says `text`.
    pub(crate) async fn start(text: &str) -> Self {
        Self::start_in(Mount::new(text)).await
    }

    /// Starts it with the configuration in `mount`, and waits until it listens.
    pub(crate) async fn start_in(mount: Mount) -> Self {
        Self::start_as(mount, program()).await
    }

    /// As [`start_in`](Self::start_in), by a `command` that becomes the program: it is given our arguments.
    pub(crate) async fn start_as(mount: Mount, mut command: Command) -> Self {
        let mut child = command
            .args(["--log-format", "json", "--config"])
            .arg(mount.file())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (lines, mut log) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(read(child.stderr.take().unwrap(), lines));
        let listening = |line: &Value| line["message"] == "listening";
        let found = timeout(SOON, log.wait_for(|lines: &Vec<Value>| lines.iter().any(listening))).await;
        let line =
            found.expect("it listens").expect("it runs").iter().find(|line| listening(line)).unwrap().clone();
        let address = |key: &str| line[key].as_str().unwrap().parse().unwrap();
        Self { child, mount, bound: address("bound"), admin: address("admin"), log, _tasks: tasks }
    }

    /// Waits until every server was tried.
    pub(crate) async fn ready(self) -> Self {
        until("every server was tried", async || (self.admin("/startz").await.0 == 200).then_some(())).await;
        self
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.bound)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.bound
    }

    /// Where operators ask.
    pub(crate) fn operators(&self) -> SocketAddr {
        self.admin
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// The log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        self.log.borrow().clone()
    }

    /// Waits until the log says this.
    pub(crate) async fn logged(&mut self, what: &str) {
        let said = |line: &Value| line["message"].as_str().is_some_and(|message| message.contains(what));
        let found = timeout(SOON, self.log.wait_for(|lines| lines.iter().any(said))).await;
        drop(found.unwrap_or_else(|_| panic!("the log does not say {what:?}")));
    }

    /// What the operator's port says.
    pub(crate) async fn admin(&self, path: &str) -> (u16, String) {
        let answer = Client::new(format!("http://{}{path}", self.admin)).whole(hyper::Method::GET, "").await;
        (answer.status, answer.text)
    }

    /// The value of a series, 0 where it was never counted.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        let (_, text) = self.admin("/metrics").await;
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().unwrap())
    }

    pub(crate) async fn status(&self) -> Value {
        serde_json::from_str(&self.admin("/status").await.1).unwrap()
    }

    /// How a server is.
    pub(crate) async fn server(&self, name: &str) -> Value {
        let status = self.status().await;
        let servers = status["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).cloned().unwrap_or_default()
    }

    /// Waits until a server is in this state.
    pub(crate) async fn is(&self, name: &str, state: &str) {
        until(&format!("{name} is {state}"), async || {
            (self.server(name).await["state"] == state).then_some(())
        })
        .await;
    }

    pub(crate) fn signal(&self, signal: Signal) {
        process::signal(self.pid(), signal);
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self, limit: Duration) -> ExitStatus {
        timeout(limit, self.child.wait()).await.expect("it ends").unwrap()
    }
}

/// The real program: cargo's, or another build of it.
pub(crate) fn program() -> Command {
    let other = std::env::var_os("TRUNKLINE_PROGRAM");
    Command::new(other.unwrap_or_else(|| env!("CARGO_BIN_EXE_trunkline").into()))
}

async fn read(from: impl AsyncRead + Unpin, to: watch::Sender<Vec<Value>>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
        to.send_modify(|lines| lines.push(line));
    }
}
