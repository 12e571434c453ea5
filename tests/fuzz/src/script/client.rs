//! A client that follows its steps.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::http::{self, Response};
use super::plan::Step;

const NEXT_MESSAGE: &str =
    "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
const STREAM: &str = "GET /mcp HTTP/1.1\r\nAccept: text/event-stream\r\n";
const DELETE: &str = "DELETE /mcp HTTP/1.1\r\n";

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    address: String,
    session: String,
    next: u64,
    told: Told,
}

/// A call that was made.
#[derive(Debug)]
pub(super) struct Call {
    /// What it brings, and nobody else does.
    pub(super) said: String,
    pub(super) id: Value,
    pub(super) good: bool,
    /// What came back; `None` where nobody waited for it.
    pub(super) answers: Option<Vec<Value>>,
    /// That there is none is as good.
    pub(super) may_be_none: bool,
}

/// What a client was told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) number: usize,
    pub(super) calls: Vec<Call>,
    /// Everything that came, raw.
    pub(super) all: String,
}

impl Client {
    pub(super) fn new(number: usize, address: String) -> Self {
        let told = Told { number, ..Told::default() };
        Self { address, session: String::new(), next: 0, told }
    }

    /// Takes the steps, and gives what it was told.
    pub(super) async fn follow(mut self, steps: Vec<Step>) -> Result<Told, String> {
        self.open().await?;
        for step in steps {
            self.step(step).await?;
        }
        self.end().await?;
        Ok(self.told)
    }

    async fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Good => self.call("good", 0).await,
            Step::Odd(way) => self.call("odd", way).await,
            Step::Cancelled(way, after) => self.cancelled(way, after).await,
            Step::HangsUp(way, after) => self.hangs_up(way, after).await,
            Step::Twice(way) => self.twice(way).await,
            Step::List => {
                let told = self
                    .post(json!({"jsonrpc": "2.0", "id": "list", "method": "tools/list"}).to_string())
                    .await?;
                self.expect(told.body.contains("echo_mcp_good"), "a list without the good server's tool")
            }
            Step::Unknown => {
                let params = json!({"name": "nobody", "arguments": {}});
                let call = json!({"jsonrpc": "2.0", "id": "none", "method": "tools/call", "params": params});
                let told = self.post(call.to_string()).await?;
                self.expect(told.body.contains("-32602"), "an unknown tool is not told so")
            }
            Step::Garbage(kind) => self.garbage(kind).await,
            Step::Forged => self.forged().await,
            Step::Listens => {
                let head = self.head(STREAM);
                let stream = http::send(&self.address, &head, b"").await?;
                sleep(Duration::from_millis(5)).await;
                drop(stream);
                Ok(())
            }
            Step::Anew => {
                self.end().await?;
                self.open().await
            }
        }
    }

    fn expect(&self, holds: bool, what: &str) -> Result<(), String> {
        if holds { Ok(()) } else { Err(format!("{what}: {}", self.told.all)) }
    }

    async fn open(&mut self) -> Result<(), String> {
        self.session.clear();
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params});
        let told = self.post(hello.to_string()).await?;
        self.session = told.session.ok_or("no session")?;
        let done = self.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.into()).await?;
        self.expect(done.status == 202, "a notification is not accepted")
    }

    async fn end(&mut self) -> Result<(), String> {
        let told = http::ask(&self.address, &self.head(DELETE), b"").await?;
        self.expect(told.status == 204, "a session does not end")
    }

    fn head(&self, start: &str) -> String {
        if self.session.is_empty() {
            start.into()
        } else {
            format!("{start}Mcp-Session-Id: {}\r\n", self.session)
        }
    }

    async fn post(&mut self, body: String) -> Result<Response, String> {
        let told = http::ask(&self.address, &self.head(NEXT_MESSAGE), body.as_bytes()).await?;
        self.told.all.push_str(&told.body);
        Ok(told)
    }

    /// A call under a new id, and what it says.
    fn message(&mut self, server: &str, way: u8) -> (Call, String) {
        let said = format!("client-{}-call-{}.", self.told.number, self.next);
        // Small ids, so that all clients use the same.
        let id = json!(self.next);
        self.next += 1;
        let meta = json!({"progressToken": id});
        let params = json!({"name": format!("echo_mcp_{server}"), "arguments": {"said": said, "way": way}, "_meta": meta});
        let text = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string();
        (Call { said, id, good: server == "good", answers: None, may_be_none: false }, text)
    }

    async fn call(&mut self, server: &str, way: u8) -> Result<(), String> {
        let (call, text) = self.message(server, way);
        let told = self.post(text).await?;
        self.told.calls.push(Call { answers: Some(answers(&told, &call.id)), ..call });
        Ok(())
    }

    async fn cancelled(&mut self, way: u8, after: u64) -> Result<(), String> {
        let (call, text) = self.message("odd", way);
        let (address, head) = (self.address.clone(), self.head(NEXT_MESSAGE));
        let params = json!({"requestId": call.id});
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string();
        let (told, done) = tokio::join!(http::ask(&address, &head, text.as_bytes()), async {
            sleep(Duration::from_millis(after)).await;
            http::ask(&address, &head, cancel.as_bytes()).await
        });
        let (told, done) = (told?, done?);
        self.told.all.push_str(&told.body);
        self.expect(done.status == 202, "a cancellation is not accepted")?;
        self.told.calls.push(Call { answers: Some(answers(&told, &call.id)), may_be_none: true, ..call });
        Ok(())
    }

    async fn hangs_up(&mut self, way: u8, after: u64) -> Result<(), String> {
        let (call, text) = self.message("odd", way);
        let stream = http::send(&self.address, &self.head(NEXT_MESSAGE), text.as_bytes()).await?;
        sleep(Duration::from_millis(after)).await;
        drop(stream);
        self.told.calls.push(call);
        Ok(())
    }

    async fn twice(&mut self, way: u8) -> Result<(), String> {
        let (call, text) = self.message("odd", way);
        let (address, head) = (self.address.clone(), self.head(NEXT_MESSAGE));
        let (one, other) = tokio::join!(
            http::ask(&address, &head, text.as_bytes()),
            http::ask(&address, &head, text.as_bytes())
        );
        // Both are answered: the second one with an error where it came while the first was in flight.
        for told in [one?, other?] {
            self.told.all.push_str(&told.body);
            let answers = Some(answers(&told, &call.id));
            let (said, id) = (call.said.clone(), call.id.clone());
            self.told.calls.push(Call { said, id, good: false, answers, may_be_none: false });
        }
        Ok(())
    }

    async fn garbage(&mut self, kind: u8) -> Result<(), String> {
        let bodies: [&[u8]; 8] = [
            b"",
            b"{",
            b"\xff\xfe",
            b"[]",
            b"{}",
            br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
            br#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"x"}"#,
        ];
        let body = bodies.get(usize::from(kind)).copied().unwrap_or_default();
        let told = http::ask(&self.address, &self.head(NEXT_MESSAGE), body).await?;
        self.told.all.push_str(&told.body);
        self.expect(told.status == 400, "garbage is not refused")
    }

    async fn forged(&mut self) -> Result<(), String> {
        for id in 0..4 {
            let number = self.told.number;
            let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [], "said": format!("client-{number}-forged.")}});
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id + 100}});
            for text in [result, cancel] {
                let told = self.post(text.to_string()).await?;
                self.expect(told.status == 202, "what nobody waits for is not accepted")?;
            }
        }
        Ok(())
    }
}

/// What in a response answers this id.
fn answers(told: &Response, id: &Value) -> Vec<Value> {
    told.messages()
        .into_iter()
        .filter(|message| message.get("method").is_none() && message["id"] == *id)
        .collect()
}
