//! As little of HTTP/1.1 as a script needs: each request has a connection of its own.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest message of a script.
const LONGEST: usize = 1 << 20;
/// How long an answer may take: more than anything in a script does.
const LATEST: Duration = Duration::from_secs(15);

/// A whole response.
#[derive(Debug, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) events: bool,
    pub(super) body: String,
}

impl Response {
    /// The messages in it.
    pub(super) fn messages(&self) -> Vec<serde_json::Value> {
        let parse = |text: &str| serde_json::from_str(text).ok();
        if self.events {
            let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
            return data.filter_map(parse).collect();
        }
        parse(&self.body).into_iter().collect()
    }
}

/// Sends a request and reads to the end.
pub(super) async fn ask(address: &str, head: &str, body: &[u8]) -> Result<Response, String> {
    let mut stream = send(address, head, body).await?;
    let mut text = Vec::new();
    let read = timeout(LATEST, stream.read_to_end(&mut text)).await;
    read.map_err(|_| format!("no end of an answer; so far {:?}", String::from_utf8_lossy(&text)))?
        .map_err(|why| why.to_string())?;
    response(&text)
}

/// Sends a request and gives the connection, on which the answer comes.
pub(super) async fn send(address: &str, head: &str, body: &[u8]) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(address).await.map_err(|why| format!("cannot connect: {why}"))?;
    let head =
        format!("{head}Host: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
    let text = [head.as_bytes(), body].concat();
    stream.write_all(&text).await.map_err(|why| why.to_string())?;
    Ok(stream)
}

fn response(text: &[u8]) -> Result<Response, String> {
    let text = String::from_utf8_lossy(text);
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(|| format!("no head: {text:?}"))?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let mut response = Response { status: status.ok_or("no status")?, ..Response::default() };
    let mut chunked = false;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => response.session = Some(value.into()),
            "content-type" => response.events = value == "text/event-stream",
            "transfer-encoding" => chunked = value == "chunked",
            _ => {}
        }
    }
    response.body = if chunked { whole(body)? } else { body.to_owned() };
    Ok(response)
}

/// A chunked body in one piece.
fn whole(mut rest: &str) -> Result<String, String> {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").ok_or("a body is cut")?;
        let size = usize::from_str_radix(size, 16).map_err(|_| "a chunk without a size")?;
        if size == 0 {
            return Ok(body);
        }
        let (chunk, after) = after.split_at_checked(size).ok_or("a chunk is cut")?;
        body.push_str(chunk);
        rest = after.strip_prefix("\r\n").ok_or("a chunk without an end")?;
    }
}

/// Reads one request: its first line and its body; `None` at the end.
pub(super) async fn request(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut text = Vec::new();
    loop {
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            let (head, body) = text.split_at_checked(end + 4)?;
            let head = String::from_utf8_lossy(head).into_owned();
            let length = head.lines().filter_map(|line| line.split_once(": ")).find_map(|(name, value)| {
                name.eq_ignore_ascii_case("content-length").then(|| value.parse::<usize>().ok())?
            });
            let length = length.unwrap_or_default();
            if body.len() >= length {
                let body = body.get(..length).unwrap_or_default();
                let line = head.lines().next().unwrap_or_default().to_owned();
                return Some((line, String::from_utf8_lossy(body).into_owned()));
            }
        }
        if text.len() > LONGEST || stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
}
