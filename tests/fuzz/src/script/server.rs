//! A server that answers each call as its arguments say.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::http::request;
use super::listen;

/// Longer than any call may take.
const NEVER: Duration = Duration::from_secs(3);

/// A server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    /// How many calls it saw.
    pub(super) calls: Arc<AtomicUsize>,
}

impl Server {
    /// Starts one, which ends with `tasks`.
    pub(super) async fn start(tasks: &mut JoinSet<()>) -> Result<Self, String> {
        let listener = listen().await?;
        let address = listener.local_addr().map_err(|why| why.to_string())?;
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = calls.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, seen.clone()));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, calls })
    }
}

async fn serve(mut stream: TcpStream, calls: Arc<AtomicUsize>) {
    if let Some((line, body)) = request(&mut stream).await {
        // Whoever asked may have gone: that is its own affair.
        drop(answer(&mut stream, &line, &body, &calls).await);
    }
}

async fn answer(stream: &mut TcpStream, line: &str, body: &str, calls: &AtomicUsize) -> std::io::Result<()> {
    if !line.starts_with("POST") {
        return whole(stream, "405 Method Not Allowed", "text/plain", "").await;
    }
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let id = &message["id"];
    if id.is_null() || message["method"].is_null() {
        return whole(stream, "202 Accepted", "text/plain", "").await;
    }
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => {
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}})
        }
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "ping" => json!({}),
        "tools/call" => {
            calls.fetch_add(1, Ordering::Relaxed);
            let arguments = &message["params"]["arguments"];
            let said = arguments["said"].as_str().unwrap_or_default();
            return call(stream, arguments["way"].as_u64().unwrap_or_default(), id, said).await;
        }
        _ => {
            let error =
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}});
            return json(stream, &error).await;
        }
    };
    json(stream, &json!({"jsonrpc": "2.0", "id": id, "result": result})).await
}

fn result(id: &Value, said: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": said}]}})
}

fn progress(token: &Value, said: &str) -> String {
    let params = json!({"progressToken": token, "progress": 1, "message": said});
    event(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
}

fn event(message: &Value) -> String {
    format!("event: message\ndata: {message}\n\n")
}

/// Answers in the way that was drawn.
async fn call(stream: &mut TcpStream, way: u64, id: &Value, said: &str) -> std::io::Result<()> {
    let good = result(id, said);
    let next = json!(id.as_u64().unwrap_or_default() + 1);
    match way {
        1 => events(stream, &[event(&good)]).await,
        2 => events(stream, &[progress(id, said), progress(id, said), event(&good)]).await,
        3 => {
            json(stream, &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": said}}))
                .await
        }
        4 => {
            sleep(NEVER).await;
            Ok(())
        }
        // Cut: after nothing, in the middle of JSON, in the middle of a stream.
        5 => Ok(()),
        6 => raw(stream, "200 OK", "application/json", 1000, &good.to_string()).await,
        7 => raw(stream, "200 OK", "text/event-stream", 1000, &progress(id, said)).await,
        // Of others, twice, and to nobody.
        8 => events(stream, &[event(&result(&next, said)), event(&good)]).await,
        9 => events(stream, &[event(&good), event(&good)]).await,
        10 => events(stream, &[event(&result(&json!("never"), said)), event(&result(&next, said))]).await,
        11 => events(stream, &[progress(&next, said), event(&good)]).await,
        // No message at all.
        12 => whole(stream, "200 OK", "text/html", "<html>log in</html>").await,
        13 => whole(stream, "200 OK", "application/json", "").await,
        14 => whole(stream, "503 Service Unavailable", "text/plain", "busy").await,
        15 => whole(stream, "200 OK", "application/json", &"[".repeat(4000)).await,
        // A bit at a time, with comments and other ends of lines.
        16 => {
            let text = format!(": c\r\n\r\nid: 7\r\ndata: {good}\r\n\r\n");
            let pieces: Vec<_> =
                text.as_bytes().chunks(3).map(|piece| String::from_utf8_lossy(piece).into()).collect();
            events(stream, &pieces).await
        }
        17 => {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "emergency", "data": said}});
            let mut all = vec![event(&note); 50];
            all.push(event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})));
            all.push(event(&good));
            events(stream, &all).await
        }
        // Asks what its client cannot answer, and goes on.
        18 => {
            let leg = json!({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"said": said}});
            events(stream, &[event(&leg), event(&good)]).await
        }
        19 => {
            sleep(Duration::from_millis(40)).await;
            json(stream, &good).await
        }
        _ => json(stream, &good).await,
    }
}

async fn json(stream: &mut TcpStream, message: &Value) -> std::io::Result<()> {
    whole(stream, "200 OK", "application/json", &message.to_string()).await
}

async fn whole(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    raw(stream, status, kind, body.len(), body).await
}

/// Says that the body is `length` long, whatever it is.
async fn raw(
    stream: &mut TcpStream,
    status: &str,
    kind: &str,
    length: usize,
    body: &str,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await
}

async fn events(stream: &mut TcpStream, all: &[String]) -> std::io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    for piece in all {
        stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await?;
    }
    stream.write_all(b"0\r\n\r\n").await
}
