//! What a fake server says.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Act, Seen};

/// How a server answers one method.
pub(crate) type Answering = Arc<dyn Fn(&Seen) -> Reply + Send + Sync>;

/// Answers some requests.
pub(crate) type Overruling = Arc<dyn Fn(&Seen) -> Option<Reply> + Send + Sync>;

/// What a fake server says. Tests change it while it runs.
#[derive(Clone)]
pub(crate) struct Script {
    /// Its tools, raw.
    pub(crate) tools: Vec<String>,
    /// The result of `tools/list` for a cursor, in place of `tools`.
    pub(crate) list: Option<Arc<dyn Fn(Option<String>) -> String + Send + Sync>>,
    /// The answer to `tools/list`, in place of both.
    pub(crate) listing: Option<Answering>,
    /// Its prompts, resources and resource templates, raw.
    pub(crate) prompts: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) templates: Vec<String>,
    /// What it has, raw; `tools` where nothing is said.
    pub(crate) capabilities: Option<String>,
    /// It speaks 2026-07-28 alone, and has this, raw.
    pub(crate) discovery: Option<String>,
    /// What it answers to `server/discover`, in place of what follows from that.
    pub(crate) discovering: Option<Answering>,
    /// What it wants models to know.
    pub(crate) instructions: Option<String>,
    /// It answers `initialize` only once this is cancelled.
    pub(crate) greets_after: Option<CancellationToken>,
    /// The answer to any request that is neither a list nor `initialize`, `ping` or `tools/call`.
    pub(crate) other: Arc<dyn Fn(&Seen) -> Reply + Send + Sync>,
    /// The answer to `tools/call`.
    pub(crate) call: Answering,
    /// Over HTTP: gives out session ids and wants them back.
    pub(crate) sessions: bool,
    /// Tells when its tools change; over HTTP it offers a stream for that.
    pub(crate) tells: bool,
    /// Over HTTP: the answer to whoever asks for that stream, in place of it.
    pub(crate) stream: Option<Answering>,
    /// What a request gets, in place of all else, where it gives something.
    pub(crate) overrule: Option<Overruling>,
    /// What every message gets, in place of all else.
    pub(crate) refusal: Option<Reply>,
}

/// What a fake server answers to one request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// This result.
    Result(String),
    /// This text; `$ID` stands for the request's id.
    Text(String),
    /// Over HTTP a stream of events, to a child's reader lines.
    Steps(Vec<Step>),
    /// Over HTTP another status, with headers.
    Status(u16, Vec<(&'static str, String)>),
    /// Nothing, ever.
    Stall,
    /// Of a [faulty](super::Fake::faulty) server: this is done on the connection.
    Raw(Vec<Act>),
}

/// One step of a longer answer.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Sends a text; `$ID` stands for the request's id, `$SAID` for the last answer of the client.
    Send(String),
    /// Sends a request, in the same way, and waits for the answer to this id, raw.
    Ask(String, String),
    /// Waits until the test lets it go on.
    Wait(CancellationToken),
    /// Waits for so long.
    Rest(Duration),
    /// Breaks the connection, or ends the child.
    Cut,
}

impl Default for Script {
    /// One tool, `who`, which answers `here`.
    fn default() -> Self {
        Self {
            tools: vec![tool("who")],
            prompts: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            capabilities: None,
            instructions: None,
            discovery: None,
            discovering: None,
            greets_after: None,
            other: Arc::new(|seen| panic!("unexpected {}", seen.method)),
            list: None,
            listing: None,
            call: Arc::new(|_| Reply::Result(text("here"))),
            sessions: false,
            tells: false,
            stream: None,
            overrule: None,
            refusal: None,
        }
    }
}

impl Script {
    /// A script with this answer to `tools/call`.
    pub(crate) fn answering(call: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self { call: Arc::new(call), ..Self::default() }
    }

    pub(super) fn hello(&self) -> String {
        let told = format!(r#"{{"tools":{{"listChanged":{}}}}}"#, self.tells);
        let capabilities = self.capabilities.as_ref().unwrap_or(&told);
        let instructions =
            self.instructions.as_ref().map(|text| format!(r#","instructions":"{text}""#)).unwrap_or_default();
        format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"fake","version":"1"}}{instructions}}}"#
        )
    }

    pub(super) fn listed(&self, cursor: Option<String>) -> String {
        match &self.list {
            Some(list) => list(cursor),
            None => format!(r#"{{"tools":[{}]}}"#, self.tools.join(",")),
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// A tool's result of one text.
pub(crate) fn text(said: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":"{said}"}}]}}"#)
}

/// A tool as listed.
pub(crate) fn tool(name: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#)
}

/// Progress of the call, as one more step.
pub(crate) fn progress() -> Step {
    Step::Send(PROGRESS.into())
}

pub(crate) const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":$ID,"total":2.50}}"#;

/// The answer to the call, as its last step.
pub(crate) fn answer(said: &str) -> Step {
    Step::Send(format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{}}}"#, text(said)))
}

/// The code of a JSON-RPC error in `answer`.
pub(crate) fn error(answer: &str) -> Option<i64> {
    let answer: serde_json::Value = serde_json::from_str(answer).unwrap();
    answer["error"]["code"].as_i64()
}
