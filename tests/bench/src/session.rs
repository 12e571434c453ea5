//! One MCP client over one connection: the handshake, the headers that follow from it, and the end.

use anyhow::{Context, ensure};
use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode};

use crate::answer::{self, Outcome};
use crate::client::{Client, Target};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const REVISION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// An MCP client on a connection of its own.
#[derive(Debug)]
pub struct Session {
    client: Client,
    headers: HeaderMap,
    next_id: u64,
}

impl Session {
    /// Connects; no session yet.
    pub async fn connect(target: Target) -> anyhow::Result<Self> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        // All ids are seven digits wide, as `answer::List` wants it.
        Ok(Self { client: Client::connect(target).await?, headers, next_id: 1_000_000 })
    }

    /// `initialize` and `notifications/initialized`. Says whether the server minted a session.
    pub async fn open(&mut self) -> anyhow::Result<bool> {
        let info = r#""capabilities":{},"clientInfo":{"name":"bench-load","version":"1"}"#;
        let params = format!(r#"{{"protocolVersion":"{}",{info}}}"#, crate::NEWEST);
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

    /// Sends a request; the answer, its body, and the id it must have. `params` is JSON.
    pub async fn request(&mut self, method: &str, params: &str) -> anyhow::Result<(Parts, Bytes, u64)> {
        let id = self.next_id;
        self.next_id = if id == 9_999_999 { 1_000_000 } else { id + 1 };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let (head, body) = self.client.send(Method::POST, &self.headers, body.into()).await?;
        Ok((head, body, id))
    }

    /// Calls a tool and hands its result to `check`. `arguments` is JSON.
    pub async fn call(
        &mut self,
        tool: &str,
        arguments: &str,
        check: impl FnOnce(&Outcome<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
        let (head, body, id) = self.request("tools/call", &params).await?;
        check(&answer::read(&head, &body, id)?)
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
