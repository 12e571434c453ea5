//! A small MCP client for our own subcommands, over plain HTTP to an endpoint like ours.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use indexmap::IndexMap;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::time::timeout;

pub use super::client_error::ClientError;
use crate::wire::{Kind, Message, SseDecoder, members, notification, quoted, request};

/// The variable with the key that we show, where callers need one.
pub(super) const KEY: &str = "TRUNKLINE_KEY";
/// The revision that we ask for.
const REVISION: &str = "2025-11-25";
/// How long an answer may take that needs no server's work.
const PATIENCE: Duration = Duration::from_secs(15);
/// Largest answer, in bytes: the largest message that a server may send, with room for what stands around it.
const ANSWER: usize = 32 << 20;
const DEPTH: usize = 256;
/// Most pages of a list.
const PAGES: usize = 100;
/// How much of an unexpected body an error shows, in characters.
const SHOWN: usize = 300;

/// A tool as listed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Listed {
    /// Its name: what [`Client::call`] takes.
    pub name: String,
    /// What it does, if told.
    #[serde(default)]
    pub description: String,
    /// Which arguments it takes.
    #[serde(default, rename = "inputSchema", deserialize_with = "leniently")]
    pub input: Input,
}

/// What of a tool's input schema people want to see. One that says it in another way shows nothing.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Input {
    properties: IndexMap<String, IgnoredAny>,
    required: Vec<String>,
}

impl fmt::Display for Input {
    /// `path, depth?`: in the server's order, with a mark on those that may be left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in self.properties.keys().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let mark = if self.required.contains(name) { "" } else { "?" };
            write!(f, "{comma}{name}{mark}")?;
        }
        Ok(())
    }
}

/// A schema that we cannot read is its client's business.
fn leniently<'de, D: Deserializer<'de>>(schema: D) -> Result<Input, D::Error> {
    let raw = Box::<RawValue>::deserialize(schema)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Progress {
    /// How much is done, in units of the server's own.
    pub progress: f64,
    /// How much there is to do, if known.
    pub total: Option<f64>,
    /// In words, if told.
    pub message: Option<String>,
}

/// A session with an MCP endpoint.
#[derive(Debug)]
pub struct Client {
    http: Http<HttpConnector, Full<Bytes>>,
    uri: Uri,
    session: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    last_id: u64,
}

impl Client {
    /// Opens a session.
    ///
    /// # Errors
    /// Where nobody is there, or nobody who speaks MCP.
    pub async fn connect(url: &str) -> Result<Self, ClientError> {
        let uri = parse(url)?;
        let mut client = Self { http: http(), uri, session: None, revision: None, last_id: 0 };
        let params = format!(
            r#"{{"protocolVersion":"{REVISION}","capabilities":{{}},"clientInfo":{{"name":"trunkline-cli","version":"{}"}}}}"#,
            env!("CARGO_PKG_VERSION")
        );
        let result = client.soon(client.ask("initialize", &params, |_| {})).await?;
        let agreed: Agreed = client.read("initialize", &result.text)?;
        client.session = result.session;
        client.revision = HeaderValue::from_str(&agreed.protocol_version).ok();
        let initialized = "notifications/initialized";
        client.soon(client.post(initialized, notification(initialized, "{}"))).await?;
        Ok(client)
    }

    /// All tools, over all pages.
    ///
    /// # Errors
    /// Where a page cannot be had.
    pub async fn tools(&mut self) -> Result<Vec<Listed>, ClientError> {
        let (mut tools, mut params) = (Vec::new(), "{}".to_owned());
        for _ in 0..PAGES {
            self.last_id += 1;
            let answer = self.soon(self.ask("tools/list", &params, |_| {})).await?;
            let page: Page = self.read("tools/list", &answer.text)?;
            tools.extend(page.tools);
            match page.next_cursor {
                Some(cursor) => params = format!(r#"{{"cursor":{}}}"#, quoted(&cursor)),
                None => break,
            }
        }
        Ok(tools)
    }

    /// Calls the tool `name` with `arguments`, a raw JSON object, however long it takes, and gives its result as raw
    /// JSON. `told` hears how far the call is.
    ///
    /// # Errors
    /// Where there is no result. One that says `isError` is a result.
    pub async fn call(
        &mut self,
        name: &str,
        arguments: &str,
        mut told: impl FnMut(Progress),
    ) -> Result<String, ClientError> {
        let [] = members(arguments, []).map_err(ClientError::Arguments)?;
        self.last_id += 1;
        let (name, token) = (quoted(name), self.last_id);
        let params =
            format!(r#"{{"name":{name},"arguments":{arguments},"_meta":{{"progressToken":{token}}}}}"#);
        let answer = self.ask("tools/call", &params, |aside| {
            if aside.method() == "notifications/progress"
                && let Some(progress) = aside.params().and_then(|raw| serde_json::from_str(raw).ok())
            {
                told(progress);
            }
        });
        Ok(answer.await?.text)
    }

    /// Ends the session. An endpoint that cannot, or is gone, is as good.
    pub async fn close(self) {
        if self.session.is_none() {
            return;
        }
        if let Ok(request) = self.request(Method::DELETE, Bytes::new()) {
            // There is nobody to tell.
            let _ended = timeout(PATIENCE, self.http.request(request)).await;
        }
    }

    /// Asks and waits for the answer's result; what comes before goes to `aside`.
    async fn ask(
        &self,
        method: &str,
        params: &str,
        mut aside: impl FnMut(&Message),
    ) -> Result<Answer, ClientError> {
        let garbled = |why: &dyn ToString| self.garbled(method, why);
        let response = self.post(method, request(self.last_id, method, params)).await?;
        let session = response.headers().get("mcp-session-id").cloned();
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
        let streamed = kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
        let mut body = response.into_body();
        let answer = if streamed {
            let mut events = SseDecoder::new(ANSWER);
            loop {
                while let Some(event) = events.next_event().map_err(|why| garbled(&why))? {
                    let message = Message::parse(event.data, DEPTH).map_err(|why| garbled(&why))?;
                    if let Some(text) = self.settle(method, &message)? {
                        return Ok(Answer { text, session });
                    }
                    aside(&message);
                }
                match body.frame().await {
                    Some(frame) => {
                        let frame = frame.map_err(|why| garbled(&why))?;
                        events.push(frame.data_ref().map_or(&[], |data| data));
                    }
                    None => return Err(garbled(&"the stream ended before the answer")),
                }
            }
        } else {
            let text = Limited::new(body, ANSWER).collect().await.map_err(|why| garbled(&why))?.to_bytes();
            let message = Message::parse(text, DEPTH).map_err(|why| garbled(&why))?;
            self.settle(method, &message)?
        };
        let text = answer.ok_or_else(|| garbled(&"this answers something else"))?;
        Ok(Answer { text, session })
    }

    /// The result, if `message` is our answer.
    fn settle(&self, method: &str, message: &Message) -> Result<Option<String>, ClientError> {
        // An error may come without an id, where the request's could not be read.
        let ours = message.number() == Some(self.last_id);
        match message.kind() {
            Kind::Result if ours => Ok(message.body().map(str::to_owned)),
            Kind::Error if ours || message.id().is_none() => {
                let error: RpcError = self.read(method, message.body().unwrap_or_default())?;
                let (url, method) = (self.url(), method.to_owned());
                Err(ClientError::Refused { url, method, code: error.code, message: error.message })
            }
            Kind::Request | Kind::Notification | Kind::Result | Kind::Error => Ok(None),
        }
    }

    /// Posts a message; the response has a status of success, or a body that tells more than its status.
    async fn post(&self, method: &str, message: Bytes) -> Result<Response<Incoming>, ClientError> {
        let response = send(&self.http, self.request(Method::POST, message)?).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let (url, status) = (self.url(), response.status());
        if status == StatusCode::UNAUTHORIZED {
            return Err(ClientError::Key { url });
        }
        let text = Limited::new(response.into_body(), ANSWER).collect().await;
        let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        if let Ok(message) = Message::parse(text.clone(), DEPTH) {
            self.settle(method, &message)?;
        }
        let body = String::from_utf8_lossy(&text).chars().take(SHOWN).collect();
        Err(ClientError::Status { url, status, body })
    }

    fn request(&self, method: Method, body: Bytes) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(&self.uri)
            .header(ACCEPT, "application/json, text/event-stream")
            .header(CONTENT_TYPE, "application/json");
        if let Ok(key) = std::env::var(KEY) {
            request = request.header("x-api-key", key);
        }
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        if let Some(revision) = &self.revision {
            request = request.header("mcp-protocol-version", revision);
        }
        request.body(Full::new(body)).map_err(|_| ClientError::Url(self.url()))
    }

    fn read<'a, T: Deserialize<'a>>(&self, method: &str, raw: &'a str) -> Result<T, ClientError> {
        serde_json::from_str(raw).map_err(|why| self.garbled(method, &why))
    }

    fn garbled(&self, method: &str, why: &dyn ToString) -> ClientError {
        ClientError::Garbled { url: self.url(), method: method.to_owned(), why: why.to_string() }
    }

    /// `work`, which no server's tool can delay, under a deadline.
    async fn soon<T>(&self, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        soon(&self.uri, work).await
    }

    fn url(&self) -> String {
        self.uri.to_string()
    }
}

/// The status and body of `url`, within a few seconds: for probes.
///
/// # Errors
/// Where nobody answers there in time.
pub async fn get(url: &str) -> Result<(StatusCode, String), ClientError> {
    let uri = parse(url)?;
    let request = Request::get(&uri).body(Full::default()).map_err(|_| ClientError::Url(url.to_owned()))?;
    let work = async {
        let response = send(&http(), request).await?;
        let status = response.status();
        let unreachable =
            |why: &dyn ToString| ClientError::Unreachable { url: url.to_owned(), why: why.to_string() };
        let body =
            Limited::new(response.into_body(), ANSWER).collect().await.map_err(|why| unreachable(&why))?;
        Ok((status, String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    };
    soon(&uri, work).await
}

fn http() -> Http<HttpConnector, Full<Bytes>> {
    Http::builder(TokioExecutor::new()).build_http()
}

fn parse(url: &str) -> Result<Uri, ClientError> {
    let uri: Option<Uri> = url.parse().ok();
    uri.filter(|uri| uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty()))
        .ok_or_else(|| ClientError::Url(url.to_owned()))
}

async fn send(
    http: &Http<HttpConnector, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, ClientError> {
    let url = request.uri().to_string();
    http.request(request).await.map_err(|error| {
        // The innermost cause is the one that people know: "Connection refused".
        let mut why: &dyn std::error::Error = &error;
        while let Some(inner) = why.source() {
            why = inner;
        }
        ClientError::Unreachable { url, why: why.to_string() }
    })
}

async fn soon<T>(uri: &Uri, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
    let late = |_| ClientError::Timeout { url: uri.to_string(), seconds: PATIENCE.as_secs() };
    timeout(PATIENCE, work).await.map_err(late)?
}

struct Answer {
    /// The raw result.
    text: String,
    session: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Agreed {
    #[serde(rename = "protocolVersion")]
    protocol_version: String,
}

#[derive(Deserialize)]
struct Page {
    tools: Vec<Listed>,
    #[serde(rename = "nextCursor")]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct RpcError {
    code: i64,
    message: String,
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    /// An endpoint that gives these answers, one a connection, and then the requests it got.
    struct Peer {
        url: String,
        task: JoinSet<Vec<String>>,
    }

    impl Peer {
        async fn new(answers: Vec<String>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/mcp", listener.local_addr().unwrap());
            let mut task = JoinSet::new();
            task.spawn(async move {
                let mut got = Vec::new();
                for answer in answers {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    let mut request = String::new();
                    while !whole(&request) {
                        let mut part = [0; 4096];
                        let n = stream.read(&mut part).await.unwrap();
                        assert!(n > 0, "cut: {request}");
                        request.push_str(std::str::from_utf8(&part[..n]).unwrap());
                    }
                    got.push(request);
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    stream.shutdown().await.unwrap();
                }
                got
            });
            Self { url, task }
        }

        async fn got(mut self) -> Vec<String> {
            self.task.join_next().await.unwrap().unwrap()
        }
    }

    fn whole(request: &str) -> bool {
        let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        body.len() >= length.map_or(0, |length| length.parse().unwrap())
    }

    fn answer(status: &str, kind: &str, body: &str) -> String {
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nmcp-session-id: s-1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    }

    fn json(body: &str) -> String {
        answer("200 OK", "application/json", body)
    }

    fn welcome() -> Vec<String> {
        vec![
            json(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}"#),
            answer("202 Accepted", "text/plain", ""),
        ]
    }

    #[tokio::test]
    async fn lists_all_pages_and_calls_with_progress() {
        let mut answers = welcome();
        answers.extend([
            json(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","description":"A"}],"nextCursor":"\"2"}}"#),
            json(r#"{"result":{"tools":[{"name":"b","inputSchema":{"properties":{"x":{},"n":true},"required":["x"]}},{"name":"c","inputSchema":{"properties":7}}]},"jsonrpc":"2.0","id":2}"#),
            answer(
                "200 OK",
                "text/event-stream; charset=utf-8",
                concat!(
                    ": hello\n\nid: 1\ndata:\n\n",
                    "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",",
                    "\"params\":{\"progressToken\":3,\"progress\":1,\"total\":4}}\n\n",
                    "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}\n\n",
                    "data: {\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"n\":1.10}}\n\n",
                ),
            ),
            answer("204 No Content", "text/plain", ""),
        ]);
        let peer = Peer::new(answers).await;
        let mut client = Client::connect(&peer.url).await.unwrap();
        let tools = client.tools().await.unwrap();
        assert_eq!(
            tools
                .iter()
                .map(|tool| (&*tool.name, &*tool.description, tool.input.to_string()))
                .collect::<Vec<_>>(),
            [("a", "A", String::new()), ("b", "", "x, n?".to_owned()), ("c", "", String::new())]
        );
        let mut told = Vec::new();
        let result = client.call("a", r#"{"x":1e999}"#, |progress| told.push(progress)).await.unwrap();
        assert_eq!(result, r#"{"n":1.10}"#, "raw, as it came");
        assert_eq!(told, [Progress { progress: 1.0, total: Some(4.0), message: None }]);
        client.close().await;

        let got = peer.got().await;
        let [first, initialized, _, second_page, call, end] = got.try_into().unwrap();
        assert!(first.contains(r#""protocolVersion":"2025-11-25""#) && !first.contains("mcp-session-id"));
        assert!(initialized.contains("notifications/initialized"));
        assert!(second_page.contains(r#"{"cursor":"\"2"}"#), "{second_page}");
        assert!(call.contains(r#""params":{"name":"a","arguments":{"x":1e999},"#), "{call}");
        assert!(end.starts_with("DELETE /mcp "));
        for later in [&initialized, &call, &end] {
            assert!(
                later.contains("mcp-session-id: s-1\r\n")
                    && later.contains("mcp-protocol-version: 2025-06-18\r\n")
            );
        }
    }

    /// What `connect` says to someone whose endpoint answers so.
    async fn told(first: String) -> String {
        let peer = Peer::new(vec![first]).await;
        let error = Client::connect(&peer.url).await.unwrap_err().to_string();
        assert!(error.contains(&peer.url), "{error}");
        error
    }

    #[tokio::test]
    async fn errors_say_where_and_what_to_do() {
        let html = told(answer("404 Not Found", "text/html", "<h1>Nothing here</h1>")).await;
        assert!(
            html.contains("404 Not Found: <h1>Nothing here</h1>") && html.contains("MCP endpoint"),
            "{html}"
        );
        let refused = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no \"session\""}}"#;
        let refused = told(answer("400 Bad Request", "application/json", refused)).await;
        assert!(refused.contains(r#"no "session" (code -32600)"#), "{refused}");
        for garbage in [
            json("hello"),
            json(r#"{"jsonrpc":"2.0","id":"0","result":{"protocolVersion":"2025-11-25"}}"#),
            json(r#"{"jsonrpc":"2.0","id":0,"result":{}}"#),
            answer("200 OK", "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n"),
            answer("200 OK", "text/event-stream", "data: {\n\n"),
        ] {
            let error = told(garbage).await;
            assert!(error.contains("no valid answer to `initialize`"), "{error}");
        }
        assert!(told("nonsense\r\n\r\n".into()).await.contains("is trunkline running?"));

        let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
        let nobody = Client::connect(&format!("http://127.0.0.1:{port}/mcp")).await.unwrap_err().to_string();
        assert!(
            nobody.contains("Connection refused") && nobody.contains("is trunkline running?"),
            "{nobody}"
        );
        for bad in ["", "x", "/mcp", "https://127.0.0.1/mcp", "http://", "http:///mcp", "localhost:8931"] {
            assert!(matches!(Client::connect(bad).await, Err(ClientError::Url(_))), "{bad}");
        }
    }

    #[tokio::test]
    async fn only_an_object_is_sent_as_arguments() {
        let peer = Peer::new(welcome()).await;
        let mut client = Client::connect(&peer.url).await.unwrap();
        for bad in ["", "1", "[]", r#"{"a":1"#, r#"{},"name":"other""#, "{} {}"] {
            let error = client.call("a", bad, |_| {}).await.unwrap_err();
            assert!(
                matches!(error, ClientError::Arguments(_)) && error.to_string().contains('\''),
                "{bad}: {error}"
            );
        }
        assert_eq!(peer.got().await.len(), 2);
    }

    #[tokio::test]
    async fn probes_get_status_and_body() {
        let peer = Peer::new(vec![answer("503 Service Unavailable", "text/plain", "draining")]).await;
        let (status, body) = get(&peer.url).await.unwrap();
        assert_eq!((status, &*body), (StatusCode::SERVICE_UNAVAILABLE, "draining"));
        assert!(peer.got().await.iter().all(|request| request.starts_with("GET /mcp ")));
    }

    #[tokio::test(start_paused = true)]
    async fn who_never_answers_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/livez", listener.local_addr().unwrap());
        assert!(matches!(get(&url).await, Err(ClientError::Timeout { .. })));
        assert!(matches!(Client::connect(&url).await, Err(ClientError::Timeout { .. })));
    }
}
