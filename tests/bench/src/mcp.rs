//! The shapes of MCP messages that the fast upstream reads and writes. Ids and texts stay the JSON bytes they
//! came as; nothing is decoded to be encoded again.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write;

use bytes::Bytes;
use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A message from a client: a request, or a notification when it has no id.
#[derive(Debug, Deserialize)]
pub struct Request<'a> {
    /// Kept as sent: `"1"` and `1` are different ids.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// Escapes are legal in JSON, hence not `&str`.
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    /// Absent in most methods.
    #[serde(borrow, default)]
    pub params: Params<'a>,
}

/// The parameters of the methods this server knows, all optional here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Params<'a> {
    /// `initialize`: the revision asked for.
    #[serde(borrow)]
    pub protocol_version: Option<Cow<'a, str>>,
    /// `tools/call`: the tool.
    #[serde(borrow)]
    pub name: Option<Cow<'a, str>>,
    /// `tools/call`: its arguments.
    #[serde(borrow)]
    pub arguments: Arguments<'a>,
    /// `tools/call`: where the progress token is.
    #[serde(borrow, rename = "_meta")]
    pub meta: Meta<'a>,
}

/// The arguments of all tools in one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Arguments<'a> {
    /// `echo`: what comes back, as the JSON it was sent as.
    #[serde(borrow)]
    pub message: Option<&'a RawValue>,
    /// `blob`: length of the text in bytes.
    pub bytes: usize,
    /// `progress`: how many notifications come before the answer.
    pub steps: u32,
    /// `sleep`: before the answer; `progress`: between two notifications. Milliseconds.
    pub ms: u64,
}

/// `params._meta` of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta<'a> {
    /// Absent: the client wants no progress.
    #[serde(borrow)]
    pub progress_token: Option<&'a RawValue>,
}

/// How a server writes its results.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Manner {
    /// Write the id of an answer behind its result: a proxy must cope with either.
    #[arg(long)]
    pub id_last: bool,
    /// Speak 2026-07-28 only, instead of the revisions with a handshake.
    #[arg(long)]
    pub modern: bool,
}

impl Manner {
    /// A result as pieces: `members` must be those of a JSON object, on one line.
    pub fn result(self, id: &RawValue, members: impl IntoIterator<Item = Bytes>) -> VecDeque<Bytes> {
        let kind = if self.modern { r#""resultType":"complete","# } else { "" };
        let (head, tail) = if self.id_last {
            (format!(r#"{{"jsonrpc":"2.0","result":{{{kind}"#), format!(r#"}},"id":{id}}}"#))
        } else {
            (format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"#), "}}".to_owned())
        };
        let mut pieces = VecDeque::from([head.into()]);
        pieces.extend(members);
        pieces.push_back(tail.into());
        pieces
    }

    /// The answer of `echo`, in one piece: it is the path that is measured.
    pub fn echo(self, id: &RawValue, message: &RawValue) -> VecDeque<Bytes> {
        let text = format!(r#""content":[{{"type":"text","text":{message}}}]"#);
        VecDeque::from([self.result(id, [text.into()]).into_iter().flatten().collect::<Vec<u8>>().into()])
    }
}

/// An error answer; without an id when the request's could not be read.
pub fn error(id: Option<&RawValue>, code: i32, message: &str) -> VecDeque<Bytes> {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    let text = format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":"{message}"}}}}"#);
    VecDeque::from([text.into()])
}

/// One progress notification as an event.
pub fn progress(token: &RawValue, step: u32, steps: u32) -> Bytes {
    let params = format!(r#"{{"progressToken":{token},"progress":{step},"total":{steps}}}"#);
    let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
    event([text.into()]).into_iter().flatten().collect::<Vec<u8>>().into()
}

/// Wraps a message on one line into an event of `text/event-stream`.
pub fn event(message: impl IntoIterator<Item = Bytes>) -> VecDeque<Bytes> {
    let mut pieces = VecDeque::from([Bytes::from_static(b"event: message\ndata: ")]);
    pieces.extend(message);
    pieces.push_back(Bytes::from_static(b"\n\n"));
    pieces
}

/// The four tools that do something, in list order; further ones only fill the list.
pub const TOOLS: [(&str, &str); 4] = [
    ("echo", r#"{"message":{"type":"string"}}"#),
    ("blob", r#"{"bytes":{"type":"integer"}}"#),
    ("sleep", r#"{"ms":{"type":"integer"}}"#),
    ("progress", r#"{"steps":{"type":"integer"},"ms":{"type":"integer"}}"#),
];

/// The members of a result of `tools/list` with `count` tools: the four above, then `tool_005` and so on.
pub fn tool_list(count: usize, manner: Manner) -> Bytes {
    let fillers = (TOOLS.len() + 1..).map(|n| (format!("tool_{n:03}"), r#"{"query":{"type":"string"}}"#));
    let named = TOOLS.iter().map(|&(name, properties)| (name.to_owned(), properties));
    let mut text = String::from(if manner.modern { r#""ttlMs":600000,"cacheScope":"public","# } else { "" });
    text.push_str(r#""tools":["#);
    for (n, (name, properties)) in named.chain(fillers).take(count).enumerate() {
        let comma = if n == 0 { "" } else { "," };
        let about = "A tool of the benchmark's upstream; its description is about as long as a usual one.";
        let schema = format!(r#"{{"type":"object","properties":{properties}}}"#);
        // Writing to a String cannot fail.
        write!(text, r#"{comma}{{"name":"{name}","description":"{about}","inputSchema":{schema}}}"#).ok();
    }
    text.push(']');
    text.into()
}
