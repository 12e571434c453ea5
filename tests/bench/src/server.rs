//! The fast MCP server itself, whatever carries its messages.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::mcp::{self, Manner, Params, Request};
use crate::{MODERN, NEWEST, REVISIONS};

/// A request above this is refused; a blob above it as well.
pub const MOST_BYTES: usize = 32 << 20;

/// No JSON tree; lists are rendered once, and one filler is shared by all blobs.
#[derive(Debug)]
pub struct Server {
    manner: Manner,
    list: Bytes,
    filler: Bytes,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Reply {
    /// The answer, as pieces of one line.
    Now(VecDeque<Bytes>),
    /// The answer comes later.
    After(Duration, VecDeque<Bytes>),
    /// Events, so far apart; the last is the answer.
    Events(VecDeque<Bytes>, Duration),
}

impl Server {
    /// A server with `tools` tools.
    pub fn new(tools: usize, manner: Manner) -> Self {
        Self { manner, list: mcp::tool_list(tools, manner), filler: vec![b'x'; MOST_BYTES].into() }
    }

    /// Whether it speaks 2026-07-28, and nothing else.
    pub fn is_modern(&self) -> bool {
        self.manner.modern
    }

    /// Answers a request; a notification is not answered.
    pub fn answer(&self, request: &Request<'_>) -> Option<Reply> {
        let id = request.id?;
        let now = |members: Bytes| Reply::Now(self.manner.result(id, [members]));
        Some(match (&*request.method, self.manner.modern) {
            ("tools/call", _) => self.call(id, &request.params),
            ("tools/list", _) => now(self.list.clone()),
            ("ping", false) => now(Bytes::new()),
            ("initialize", false) => now(initialized(&request.params).into()),
            ("server/discover", true) => now(discovered().into()),
            _ => Reply::Now(mcp::error(Some(id), -32601, "no such method")),
        })
    }

    fn call(&self, id: &RawValue, params: &Params<'_>) -> Reply {
        let arguments = &params.arguments;
        match (params.name.as_deref(), arguments.message) {
            (Some("echo"), Some(message)) if message.get().starts_with('"') => {
                Reply::Now(self.manner.echo(id, message))
            }
            (Some("blob"), _) if arguments.bytes <= MOST_BYTES => {
                let text = self.filler.slice(..arguments.bytes);
                let head = Bytes::from_static(br#""content":[{"type":"text","text":""#);
                Reply::Now(self.manner.result(id, [head, text, Bytes::from_static(br#""}]"#)]))
            }
            (Some("sleep"), _) => {
                Reply::After(Duration::from_millis(arguments.ms), self.manner.result(id, [done()]))
            }
            (Some("progress"), _) => self.progress(id, params),
            _ => Reply::Now(mcp::error(Some(id), -32602, "no such tool, or not its arguments")),
        }
    }

    /// `steps` notifications, `ms` apart, then the answer; without a token only the answer.
    fn progress(&self, id: &RawValue, params: &Params<'_>) -> Reply {
        let mut stream = VecDeque::new();
        if let Some(token) = params.meta.progress_token {
            let steps = params.arguments.steps.min(10_000);
            stream.extend((1..=steps).map(|step| mcp::progress(token, step, steps)));
        }
        let answer = mcp::event(self.manner.result(id, [done()]));
        stream.push_back(answer.into_iter().flatten().collect::<Vec<u8>>().into());
        Reply::Events(stream, Duration::from_millis(params.arguments.ms.max(1)))
    }
}

fn done() -> Bytes {
    Bytes::from_static(br#""content":[{"type":"text","text":"done"}]"#)
}

fn initialized(params: &Params<'_>) -> String {
    let asked = params.protocol_version.as_deref().unwrap_or(NEWEST);
    let revision = if REVISIONS.contains(&asked) { asked } else { NEWEST };
    let server = r#""capabilities":{"tools":{}},"serverInfo":{"name":"bench-upstream","version":"1"}"#;
    format!(r#""protocolVersion":"{revision}",{server}"#)
}

fn discovered() -> String {
    let holds = r#""ttlMs":600000,"cacheScope":"public""#;
    let server = r#""io.modelcontextprotocol/serverInfo":{"name":"bench-upstream","version":"1"}"#;
    format!(
        r#""supportedVersions":["{MODERN}"],"capabilities":{{"tools":{{}}}},{holds},"_meta":{{{server}}}"#
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answer(manner: Manner, request: &str) -> Value {
        let request = serde_json::from_str(request).unwrap();
        let Some(Reply::Now(pieces)) = Server::new(5, manner).answer(&request) else { panic!("no answer") };
        serde_json::from_slice(&pieces.into_iter().flatten().collect::<Vec<u8>>()).unwrap()
    }

    #[test]
    fn every_manner_is_json_with_the_same_result() {
        let request = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"blob","arguments":{"bytes":3}}}"#;
        for (id_last, modern) in [(false, false), (false, true), (true, false), (true, true)] {
            let answer = answer(Manner { id_last, modern }, request);
            assert_eq!(answer["id"], 7);
            assert_eq!(answer["result"]["content"], json!([{"type": "text", "text": "xxx"}]));
            assert_eq!(answer["result"].get("resultType").is_some(), modern);
        }
    }

    #[test]
    fn an_era_knows_its_own_beginning_only() {
        let hello = |modern, method| {
            answer(Manner { modern, id_last: false }, &format!(r#"{{"id":1,"method":"{method}"}}"#))
        };
        assert_eq!(hello(false, "initialize")["result"]["protocolVersion"], NEWEST);
        assert_eq!(hello(true, "server/discover")["result"]["supportedVersions"], json!([MODERN]));
        assert_eq!(hello(true, "initialize")["error"]["code"], -32601);
        assert_eq!(hello(false, "server/discover")["error"]["code"], -32601);
        assert_eq!(hello(true, "tools/list")["result"]["tools"].as_array().map(Vec::len), Some(5));
    }
}
