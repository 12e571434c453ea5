//! A fake MCP server.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::{Reply, SOON, Script, Step, bridge, faulty, http, sse, stdio};

/// A fake MCP server over HTTP, or behind a child process; it ends with its owner.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(super) shared: Arc<Shared>,
    address: SocketAddr,
    way: Way,
    door: Mutex<Door>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Http,
    Raw,
    Sse,
    Stdio,
}

/// What becomes of connections.
#[derive(Debug)]
enum Door {
    /// They are taken until the guard is dropped.
    Open(DropGuard, JoinHandle<()>),
    /// They are refused; the port stays ours.
    Refusing(TcpSocket),
    /// The system takes them, and we never do.
    Silent(TcpListener),
    Moving,
}

/// Something that a fake server saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// `POST`, `GET` and `DELETE` over HTTP; `START` and `LINE` of a child.
    pub(crate) kind: String,
    /// The message's method.
    pub(crate) method: String,
    /// The message's id, raw.
    pub(crate) id: Option<String>,
    /// The message, or of a `START` the child's process id.
    pub(crate) text: String,
    /// The HTTP headers.
    pub(crate) headers: HeaderMap,
    /// The path and query.
    pub(crate) path: String,
    /// When.
    pub(crate) at: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) script: Mutex<Script>,
    pub(super) sessions: Mutex<HashSet<String>>,
    /// The open streams of the older transport, by session.
    pub(super) streams: Mutex<HashMap<String, http::Writer>>,
    pub(super) seen: watch::Sender<Vec<Seen>>,
    /// What goes to whoever listens.
    pub(super) unasked: broadcast::Sender<String>,
    pub(super) tasks: TaskTracker,
    /// One for each open connection.
    connections: TaskTracker,
}

/// What servers of before 2026-07-28 say to methods that they do not know.
const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32601,"message":"Method not found"}}"#;

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: String,
}

impl Seen {
    pub(super) fn new(kind: &str, text: String, headers: HeaderMap) -> Self {
        let head = serde_json::from_str::<Head<'_>>(&text).ok();
        let (id, method) =
            head.map_or((None, String::new()), |head| (head.id.map(|id| id.get().to_owned()), head.method));
        Self { kind: kind.into(), method, id, text, headers, at: Some(Instant::now()), ..Self::default() }
    }

    /// The answer of a well-behaved server.
    pub(super) fn reply(&self, script: &Script) -> Reply {
        if let Some(reply) = script.overrule.as_ref().and_then(|overrule| overrule(self)) {
            return reply;
        }
        match self.method.as_str() {
            "initialize" | "subscriptions/listen" if script.discovery.is_some() => {
                Reply::Text(UNKNOWN.into())
            }
            "initialize" => match &script.greets_after {
                Some(gate) => Reply::Steps(vec![
                    Step::Wait(gate.clone()),
                    Step::Send(format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{}}}"#, script.hello())),
                ]),
                None => Reply::Result(script.hello()),
            },
            "tools/list" => match &script.listing {
                Some(listing) => listing(self),
                None => Reply::Result(script.listed(self.params()["cursor"].as_str().map(str::to_owned))),
            },
            "tools/call" => (script.call)(self),
            "ping" => Reply::Result("{}".into()),
            "server/discover" if script.discovering.is_some() => {
                script.discovering.as_ref().map_or(Reply::Stall, |answer| answer(self))
            }
            "server/discover" => match &script.discovery {
                Some(capabilities) => Reply::Result(format!(
                    r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"ttlMs":0,"cacheScope":"private"}}"#
                )),
                None => Reply::Text(UNKNOWN.into()),
            },
            "prompts/list" => Reply::Result(format!(r#"{{"prompts":[{}]}}"#, script.prompts.join(","))),
            "resources/list" => Reply::Result(format!(r#"{{"resources":[{}]}}"#, script.resources.join(","))),
            "resources/templates/list" => {
                Reply::Result(format!(r#"{{"resourceTemplates":[{}]}}"#, script.templates.join(",")))
            }
            _ => (script.other)(self),
        }
    }

    /// The params, parsed.
    pub(crate) fn params(&self) -> serde_json::Value {
        serde_json::from_str::<serde_json::Value>(&self.text).unwrap()["params"].clone()
    }

    /// This result under the request's id.
    pub(crate) fn answer(&self, result: &str) -> String {
        self.fill(&format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{result}}}"#))
    }

    /// This text with the request's id for `$ID`.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("$ID", self.id.as_deref().unwrap_or("null"))
    }

    /// A header, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Fake {
    /// A server at a URL.
    pub(crate) fn http(script: Script) -> Self {
        Self::start(script, Way::Http)
    }

    /// A server at a URL whose bytes the script writes, where it gives [`Reply::Raw`].
    pub(crate) fn faulty(script: Script) -> Self {
        Self::start(script, Way::Raw)
    }

    /// A server at a URL that speaks the older HTTP+SSE alone.
    pub(crate) fn sse(script: Script) -> Self {
        Self::start(script, Way::Sse)
    }

    /// A server behind a child, which trunkline starts.
    pub(crate) fn stdio(script: Script) -> Self {
        Self::start(script, Way::Stdio)
    }

    fn start(script: Script, way: Way) -> Self {
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            sessions: Mutex::default(),
            streams: Mutex::default(),
            seen: watch::Sender::default(),
            unasked: broadcast::Sender::new(64),
            tasks: TaskTracker::new(),
            connections: TaskTracker::new(),
        });
        let socket = socket(([127, 0, 0, 1], 0).into());
        let address = socket.local_addr().unwrap();
        let door = Mutex::new(Door::Refusing(socket));
        let fake = Self { shared, address, way, door };
        fake.back();
        fake
    }

    /// Takes connections again, and those that wait.
    pub(crate) fn back(&self) {
        let mut door = self.door.lock().unwrap();
        let listener = match std::mem::replace(&mut *door, Door::Moving) {
            Door::Refusing(socket) => socket.listen(1024).unwrap(),
            Door::Silent(listener) => listener,
            Door::Open(..) | Door::Moving => panic!("it is not away"),
        };
        let closing = CancellationToken::new();
        let serving =
            self.shared.tasks.spawn(accept(self.shared.clone(), self.way, listener, closing.clone()));
        *door = Door::Open(closing.drop_guard(), serving);
    }

    /// Breaks every connection and refuses new ones.
    pub(crate) async fn leave(&self) {
        let door = std::mem::replace(&mut *self.door.lock().unwrap(), Door::Moving);
        if let Door::Open(closing, serving) = door {
            drop(closing);
            serving.await.unwrap();
        }
        *self.door.lock().unwrap() = Door::Refusing(socket(self.address));
    }

    /// After [`leave`](Self::leave): connections are made, and nothing is ever said on them.
    pub(crate) fn fall_silent(&self) {
        let mut door = self.door.lock().unwrap();
        if let Door::Refusing(socket) = std::mem::replace(&mut *door, Door::Moving) {
            *door = Door::Silent(socket.listen(1024).unwrap());
        }
    }

    /// Its entry in a configuration.
    pub(crate) fn entry(&self) -> String {
        self.entry_with("")
    }

    /// As [`entry`](Self::entry), with more keys.
    pub(crate) fn entry_with(&self, more: &str) -> String {
        match self.way {
            Way::Http | Way::Raw => format!(r#"{{"url": "http://{}/mcp"{more}}}"#, self.address),
            Way::Sse => format!(r#"{{"url": "http://{}/sse"{more}}}"#, self.address),
            Way::Stdio => bridge::entry(self.address, more),
        }
    }

    /// Changes what it says from now on.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.shared.script.lock().unwrap());
    }

    /// Forgets every session.
    pub(crate) fn forget(&self) {
        self.shared.sessions.lock().unwrap().clear();
    }

    /// How many sessions it knows.
    pub(crate) fn sessions(&self) -> usize {
        self.shared.sessions.lock().unwrap().len()
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.len()
    }

    /// Says something that nobody asked for.
    pub(crate) fn say(&self, message: &str) {
        drop(self.shared.unasked.send(message.to_owned()));
    }

    /// Everything it saw.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.borrow().clone()
    }

    /// The messages with this method that it saw.
    pub(crate) fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.method == method).collect()
    }

    /// Waits until it saw something like this, and gives the newest.
    pub(crate) async fn saw(&self, what: impl Fn(&Seen) -> bool) -> Seen {
        let mut all = self.shared.seen.subscribe();
        let found = timeout(SOON, all.wait_for(|all| all.iter().any(&what))).await;
        let found = found.unwrap_or_else(|_| panic!("it only saw {:?}", self.methods())).unwrap();
        found.iter().rfind(|seen| what(seen)).unwrap().clone()
    }

    /// The process id of its newest child.
    pub(crate) async fn pid(&self) -> u32 {
        self.saw(|seen| seen.kind == "START").await.text.parse().unwrap()
    }

    fn methods(&self) -> Vec<String> {
        self.seen().iter().map(|seen| format!("{} {}", seen.kind, seen.method)).collect()
    }
}

impl Shared {
    pub(super) fn script(&self) -> Script {
        self.script.lock().unwrap().clone()
    }

    /// Waits for the answer to a request of the server's own, and gives its text.
    pub(super) async fn answered(&self, id: &str) -> String {
        let is_it = |seen: &Seen| seen.method.is_empty() && seen.id.as_deref() == Some(id);
        let mut all = self.seen.subscribe();
        let found = all.wait_for(|all| all.iter().any(is_it)).await.unwrap();
        found.iter().rfind(|seen| is_it(seen)).unwrap().text.clone()
    }

    pub(super) fn note(&self, seen: Seen) {
        self.seen.send_modify(|all| all.push(seen));
    }
}

async fn accept(shared: Arc<Shared>, way: Way, listener: TcpListener, closing: CancellationToken) {
    let tasks = shared.connections.clone();
    let accepting = async {
        while let Ok((connection, _)) = listener.accept().await {
            let (shared, closing) = (shared.clone(), closing.clone());
            tasks.spawn(async move {
                match way {
                    Way::Http => closing.run_until_cancelled(http::serve(shared, connection)).await,
                    Way::Raw => {
                        closing.run_until_cancelled(Box::pin(faulty::serve(shared, connection))).await
                    }
                    Way::Sse => closing.run_until_cancelled(sse::serve(shared, connection)).await,
                    Way::Stdio => closing.run_until_cancelled(stdio::serve(shared, connection)).await,
                }
            });
        }
    };
    closing.run_until_cancelled(accepting).await;
    shared.connections.close();
    shared.connections.wait().await;
    shared.connections.reopen();
}

/// A port of ours, where nothing listens yet.
pub(crate) fn socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}
