//! A client of 2026-07-28: no session; every request says who asks, in its body and again in its headers.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::Method;
use hyper::body::Incoming;
use hyper::{HeaderMap, Response};
use serde_json::Value;
use trunkline::mcp::{encode_header, named_by};

use super::World;
use super::client::{Answer, Client, Events};

pub(crate) const MODERN: &str = "2026-07-28";

/// A client without a session.
#[derive(Debug)]
pub(crate) struct Modern {
    client: Client,
    /// What it says of itself, as raw members of `_meta`.
    envelope: String,
    last_id: AtomicU64,
}

impl Modern {
    /// A client that can do nothing for servers.
    pub(crate) fn new(world: &World, path: &str) -> Self {
        Self::able(world, path, "{}")
    }

    /// A client with these capabilities, raw.
    pub(crate) fn able(world: &World, path: &str, capabilities: &str) -> Self {
        Self::at(world.url(path), capabilities)
    }

    /// A client of that URL.
    pub(crate) fn at(url: String, capabilities: &str) -> Self {
        let envelope = format!(
            r#""io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientCapabilities":{capabilities},"io.modelcontextprotocol/clientInfo":{{"name":"e2e","version":"1"}}"#
        );
        Self { client: Client::new(url), envelope, last_id: AtomicU64::new(1) }
    }

    /// As this one, with more in `_meta`: raw members.
    pub(crate) fn saying(&self, members: &str) -> Self {
        Self {
            client: self.client.again(),
            envelope: format!("{},{members}", self.envelope),
            last_id: AtomicU64::new(1 << 20),
        }
    }

    /// As this one, with another header; an empty value leaves it out.
    pub(crate) fn with(&self, name: &'static str, value: &str) -> Self {
        Self {
            client: self.client.with(name, value),
            envelope: self.envelope.clone(),
            last_id: AtomicU64::new(2 << 20),
        }
    }

    /// A request under a new id; `params` is a raw object without `_meta`.
    pub(crate) fn request(&self, method: &str, params: &str) -> String {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let rest = params.strip_prefix('{').expect("an object").trim_start();
        let comma = if rest == "}" { "" } else { "," };
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{}}}{comma}{rest}}}"#,
            self.envelope
        )
    }

    /// A request to call a tool with raw arguments, under a new id.
    pub(crate) fn calling(&self, tool: &str, arguments: &str) -> String {
        self.request("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))
    }

    /// Sends a request with the headers that go with it and gives the response as soon as its headers are there.
    pub(crate) async fn send(&self, text: &str) -> Response<Incoming> {
        self.headed(text).send(Method::POST, text.to_owned()).await
    }

    /// As [`send`](Self::send), up to the end.
    pub(crate) async fn post(&self, text: &str) -> Answer {
        self.headed(text).whole(Method::POST, text.to_owned()).await
    }

    /// The answer to a request, which may come as events; those before it are lost.
    pub(crate) async fn json(&self, method: &str, params: &str) -> Value {
        let text = self.request(method, params);
        serde_json::from_str(&self.headed(&text).ask(&text).await).unwrap()
    }

    /// The answer to a call.
    pub(crate) async fn call(&self, tool: &str, arguments: &str) -> Value {
        self.json("tools/call", &format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#)).await
    }

    /// Sends and reads events as they come.
    pub(crate) async fn stream(&self, text: &str) -> Events {
        Events::of(self.send(text).await).await
    }

    /// Listens to what the raw `filter` says: the acknowledgement, and the stream after it.
    pub(crate) async fn listen(&self, filter: &str) -> (Value, Events) {
        let text = self.request("subscriptions/listen", &format!(r#"{{"notifications":{filter}}}"#));
        let mut events = self.stream(&text).await;
        let first = serde_json::from_str(&events.next().await.expect("an acknowledgement")).unwrap();
        (first, events)
    }

    /// A client of raw bytes with the headers that go with `text`; those that were set by hand stay.
    pub(crate) fn headed(&self, text: &str) -> Client {
        let mut client = self.client.again();
        for (name, value) in headers(text) {
            if let Some(name) = name
                && !client.headers.contains_key(&name)
            {
                client.headers.insert(name, value);
            }
        }
        client
    }
}

/// What the headers of a request say.
fn headers(text: &str) -> HeaderMap {
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", MODERN.parse().unwrap());
    let Some(method) = message["method"].as_str() else { return headers };
    headers.insert("mcp-method", method.parse().unwrap());
    let name = named_by(method).and_then(|key| message["params"][key].as_str());
    if let Some(name) = name {
        headers.insert("mcp-name", encode_header(name));
    }
    headers
}
