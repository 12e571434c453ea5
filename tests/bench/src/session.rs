//! One MCP client over one connection: the handshake, the headers that follow from it, and the end.

use anyhow::{Context, ensure};
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode};

use crate::MODERN;
use crate::answer;
use crate::client::{Client, Target};
use crate::older::Events;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// An MCP client on a connection of its own.
#[derive(Debug)]
pub struct Session {
    client: Client,
    /// Where answers come, in the older transport.
    events: Option<Events>,
    headers: HeaderMap,
    next_id: u64,
    /// What `params` begin with: in the modern era every request says who asks.
    envelope: String,
}

impl Session {
    /// Connects; no session yet.
    pub async fn connect(target: Target) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let client = Client::connect(target).await?;
        // All ids are seven digits wide, as `answer::Known` wants it.
        Ok(Self { client, events: None, headers, next_id: 1_000_000, envelope: String::new() })
    }

    /// Connects by the older transport, HTTP+SSE.
    pub async fn connect_older(target: &Target) -> anyhow::Result<Self> {
        let (events, target) = Events::open(target).await?;
        Ok(Self { events: Some(events), ..Self::connect(target).await? })
    }

    /// Speaks 2026-07-28 from now on, which has no sessions: there is nothing to open.
    pub fn modern(&mut self) {
        const PREFIX: &str = "io.modelcontextprotocol/";
        self.headers.insert(REVISION, HeaderValue::from_static(MODERN));
        let info = r#"{"name":"bench-load","version":"1"}"#;
        self.envelope = format!(
            r#""_meta":{{"{PREFIX}protocolVersion":"{MODERN}","{PREFIX}clientInfo":{info},"{PREFIX}clientCapabilities":{{}}}}"#
        );
    }

    /// The headers with which a modern request repeats what is in its body.
    fn name(&mut self, method: &str, name: Option<&str>) -> anyhow::Result<()> {
        if self.envelope.is_empty() {
            return Ok(());
        }
        self.headers.insert(METHOD, HeaderValue::from_str(method)?);
        match name {
            Some(name) => drop(self.headers.insert(NAME, HeaderValue::from_str(name)?)),
            None => drop(self.headers.remove(NAME)),
        }
        Ok(())
    }

    /// `initialize` and `notifications/initialized`. Says whether the server minted a session.
    pub async fn open(&mut self) -> anyhow::Result<bool> {
        let info = r#""capabilities":{},"clientInfo":{"name":"bench-load","version":"1"}"#;
        let params = format!(r#""protocolVersion":"{}",{info}"#, crate::NEWEST);
        let (head, body, id) = self.request("initialize", &params).await?;
        let outcome = answer::read(&head, &body, id)?;
        let revision = outcome.protocol_version.context("initialize gave no protocolVersion")?;
        self.headers.insert(REVISION, HeaderValue::from_str(&revision)?);
        let minted = head.headers.get(SESSION).cloned();
        if let Some(id) = &minted {
            self.headers.insert(SESSION, id.clone());
        }
        let (head, _) = self.client.send(Method::POST, &self.headers, INITIALIZED.into()).await?;
        ensure!(head.status == StatusCode::ACCEPTED, "notifications/initialized: status {}", head.status);
        Ok(minted.is_some())
    }

    /// The headers that its requests have.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Goes on in the session of another client, as its `number`th part: no two use one id for a long time.
    pub fn join(&mut self, other: &HeaderMap, number: u64) {
        self.headers = other.clone();
        self.next_id = 1_000_000 + number % 256 * 35_000;
    }

    /// Lets go of the session and does not tell the server; the connection stays.
    pub fn forget(&mut self) {
        self.headers.remove(SESSION);
        self.headers.remove(REVISION);
    }

    /// Sends a request; the answer, its body, and the id it must have. `params` are the members of a JSON object.
    pub async fn request(&mut self, method: &str, params: &str) -> anyhow::Result<(Parts, Bytes, u64)> {
        self.name(method, None)?;
        self.send(method, params).await
    }

    /// Calls a tool; gives what `request` gives. `arguments` is JSON.
    pub async fn call(&mut self, tool: &str, arguments: &str) -> anyhow::Result<(Parts, Bytes, u64)> {
        self.name("tools/call", Some(tool))?;
        self.send("tools/call", &format!(r#""name":"{tool}","arguments":{arguments}"#)).await
    }

    async fn send(&mut self, method: &str, params: &str) -> anyhow::Result<(Parts, Bytes, u64)> {
        let id = self.next_id;
        self.next_id = if id == 9_999_999 { 1_000_000 } else { id + 1 };
        let envelope = &self.envelope;
        let comma = if envelope.is_empty() || params.is_empty() { "" } else { "," };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}{comma}{envelope}}}}}"#
        );
        let (head, body) = self.client.send(Method::POST, &self.headers, body.into()).await?;
        Ok(match &mut self.events {
            Some(events) if head.status.is_success() => (head, events.next().await?, id),
            _ => (head, body, id),
        })
    }

    /// Ends the session, if there is one, by DELETE; the connection stays.
    pub async fn close(&mut self) -> anyhow::Result<()> {
        if self.headers.contains_key(SESSION) {
            let (head, _) = self.client.send(Method::DELETE, &self.headers, Bytes::new()).await?;
            ensure!(head.status.is_success(), "DELETE: status {}", head.status);
        }
        self.forget();
        Ok(())
    }
}
