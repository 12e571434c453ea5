//! A client that sends and sees raw bytes.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::time::timeout;

use super::{SOON, World};

/// A client, in a session or not.
#[derive(Debug)]
pub(crate) struct Client {
    http: Http<HttpConnector, Full<Bytes>>,
    pub(super) url: String,
    /// Sent with every request.
    pub(crate) headers: HeaderMap,
    last_id: AtomicU64,
}

/// A whole response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Incoming,
    buffer: Vec<u8>,
    /// The id of the last event.
    pub(crate) last_id: Option<String>,
}

/// One event, with data or without.
#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<String>,
    pub(crate) data: String,
}

impl Client {
    /// A client without a session.
    pub(crate) fn new(url: String) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        let http = Http::builder(TokioExecutor::new()).build_http();
        Self { http, url, headers, last_id: AtomicU64::new(0) }
    }

    /// A client in a session.
    pub(crate) async fn open(world: &World, path: &str) -> Self {
        Self::greet(world.url(path)).await
    }

    /// As [`open`](Self::open), with these capabilities, raw.
    pub(crate) async fn able(world: &World, path: &str, capabilities: &str) -> Self {
        Self::greet_with(world.url(path), capabilities).await
    }

    /// As [`open`](Self::open), of this revision.
    pub(crate) async fn of(world: &World, revision: &str) -> Self {
        let client = Self::new(world.url("/mcp"));
        let answer = client.post(&hello(revision)).await;
        let client = client.with("mcp-session-id", answer.headers["mcp-session-id"].to_str().unwrap());
        client.with("mcp-protocol-version", revision)
    }

    pub(crate) async fn greet(url: String) -> Self {
        Self::greet_with(url, "{}").await
    }

    async fn greet_with(url: String, capabilities: &str) -> Self {
        let mut client = Self::new(url);
        let hello =
            hello("2025-11-25").replace(r#""capabilities":{}"#, &format!(r#""capabilities":{capabilities}"#));
        let answer = client.post(&hello).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        client.headers.insert("mcp-session-id", answer.headers["mcp-session-id"].clone());
        client.headers.insert("mcp-protocol-version", HeaderValue::from_static("2025-11-25"));
        let done = client.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        assert_eq!(done.status, 202);
        client
    }

    /// As this one, with another header; an empty value leaves it out.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.again();
        match value {
            "" => drop(client.headers.remove(name)),
            value => drop(client.headers.insert(HeaderName::from_static(name), value.parse().unwrap())),
        }
        client
    }

    /// As this one.
    pub(crate) fn again(&self) -> Self {
        let (http, url, headers) = (self.http.clone(), self.url.clone(), self.headers.clone());
        Self { http, url, headers, last_id: AtomicU64::new(1 << 20) }
    }

    /// Sends a request and gives the response as soon as its headers are there.
    pub(crate) async fn send(&self, method: Method, body: impl Into<Bytes>) -> Response<Incoming> {
        self.try_send(method, body).await.unwrap()
    }

    pub(crate) async fn try_send(
        &self,
        method: Method,
        body: impl Into<Bytes>,
    ) -> Result<Response<Incoming>, hyper_util::client::legacy::Error> {
        let mut request = Request::new(Full::new(body.into()));
        (*request.method_mut(), *request.uri_mut()) = (method, self.url.parse().unwrap());
        *request.headers_mut() = self.headers.clone();
        timeout(3 * SOON, self.http.request(request)).await.expect("a response")
    }

    /// Sends a request and gives the whole response.
    pub(crate) async fn whole(&self, method: Method, body: impl Into<Bytes>) -> Answer {
        let response = self.send(method, body).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = timeout(3 * SOON, response.into_body().collect()).await.expect("an end").unwrap();
        Answer { status, headers, text: String::from_utf8(body.to_bytes().to_vec()).unwrap() }
    }

    pub(crate) async fn post(&self, text: &str) -> Answer {
        self.whole(Method::POST, text.to_owned()).await
    }

    /// Posts a request whose answer may come as events, and gives the answer alone.
    pub(crate) async fn ask(&self, text: &str) -> String {
        let answer = self.post(text).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        match answer.headers["content-type"].as_bytes() {
            b"application/json" => answer.text,
            _ => split(answer.text.as_bytes()).pop().expect("an answer"),
        }
    }

    /// Asks and gives the answer, parsed.
    pub(crate) async fn json(&self, method: &str, params: &str) -> Value {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        serde_json::from_str(&self.ask(&text).await).unwrap()
    }

    /// Calls a tool with raw arguments and gives the answer.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Value {
        serde_json::from_str(&self.ask(&self.request(tool, arguments)).await).unwrap()
    }

    /// The text of a request to call a tool, under a new id.
    pub(crate) fn request(&self, tool: &str, arguments: &str) -> String {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
        )
    }

    /// The names of the tools, in order.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let answer = self.ask(r#"{"jsonrpc":"2.0","id":"list","method":"tools/list"}"#).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends and reads events as they come.
    pub(crate) async fn stream(&self, text: &str) -> Events {
        Events::of(self.send(Method::POST, text.to_owned()).await).await
    }

    /// Opens the stream for what nobody asked for.
    pub(crate) async fn listen(&self) -> Events {
        Events::of(self.send(Method::GET, "").await).await
    }
}

impl Events {
    pub(crate) async fn of(response: Response<Incoming>) -> Self {
        let kind = response.headers().get("content-type").cloned();
        let is_stream = response.status() == 200 && kind.is_some_and(|kind| kind == "text/event-stream");
        if !is_stream {
            let status = response.status();
            let body = response.into_body().collect().await.unwrap().to_bytes();
            panic!("no stream but {status} {body:?}");
        }
        Self { body: response.into_body(), buffer: Vec::new(), last_id: None }
    }

    /// The next message; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            let event = self.event().await?;
            if !event.data.is_empty() {
                return Some(event.data);
            }
        }
    }

    /// The next event, be there a message in it or not; `None` at the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        timeout(3 * SOON, self.next_event()).await.expect("an event or the end")
    }

    async fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = Event::read(&self.block().await?);
            if event.id.is_none() && event.data.is_empty() {
                continue; // a comment
            }
            self.last_id = event.id.clone().or(self.last_id.take());
            return Some(event);
        }
    }

    /// The next piece up to an empty line, be it an event or a comment; `None` at the end of the stream.
    pub(crate) async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                return Some(String::from_utf8(self.buffer.drain(..end + 2).collect()).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.buffer.extend_from_slice(frame.data_ref().unwrap());
        }
    }
}

impl Event {
    fn read(text: &str) -> Self {
        let mut event = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
            match name {
                "id" => event.id = Some(value.to_owned()),
                "retry" => event.retry = Some(value.to_owned()),
                "data" => event.data = value.to_owned(),
                "event" => assert_eq!(value, "message"),
                _ => assert_eq!(name, "", "an unknown field"),
            }
        }
        event
    }
}

/// The data of the events in `text`.
fn split(text: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(text).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| !data.is_empty()).map(str::to_owned).collect()
}

/// A request to open a session.
pub(crate) fn hello(revision: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"e2e","version":"1"}}}}}}"#
    )
}
