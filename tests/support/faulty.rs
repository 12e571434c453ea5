//! A fake server's HTTP side byte by byte: for whatever a proper HTTP server cannot be made to say.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::fake::Shared;
use super::http::mint;
use super::{Reply, Script, Seen, Step};

/// One thing that is done on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Writes these bytes.
    Bytes(Bytes),
    /// Writes these bytes, so many at a time and with so long a rest in between.
    Drip(Bytes, usize, Duration),
    /// Writes these bytes so often, or for as long as somebody reads.
    Flood(Bytes, usize),
    /// Waits until the test lets it go on.
    Wait(CancellationToken),
    /// Waits for so long.
    Rest(Duration),
    /// Says nothing more, and reads on.
    Silence,
    /// Waits for the next request, and closes the connection without a word.
    HangUp,
    /// Ends what we say, and reads on.
    HalfClose,
    /// Closes the connection.
    Close,
    /// Resets the connection.
    Reset,
}

/// So often that nobody will see the end of it.
pub(crate) const ENDLESS: usize = usize::MAX;

impl Act {
    pub(crate) fn bytes(bytes: impl Into<Bytes>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// A whole response with one JSON text.
    pub(crate) fn json(text: &str) -> Self {
        Self::whole(200, "application/json", text)
    }

    /// A whole response.
    pub(crate) fn whole(status: u16, kind: &str, text: &str) -> Self {
        let length = text.len();
        Self::bytes(format!(
            "HTTP/1.1 {status} .\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{text}"
        ))
    }

    /// The head of a response whose body ends with the connection.
    pub(crate) fn head(kind: &str) -> Self {
        Self::bytes(format!("HTTP/1.1 200 .\r\ncontent-type: {kind}\r\n\r\n"))
    }

    /// The head of a stream of events.
    pub(crate) fn events() -> Self {
        Self::head("text/event-stream")
    }

    /// An event.
    pub(crate) fn event(text: &str) -> Self {
        Self::bytes(format!("event: message\ndata: {text}\n\n"))
    }

    /// Whether the connection can be gone on with.
    async fn run(self, to: &mut TcpStream) -> bool {
        match self {
            Self::Bytes(bytes) => to.write_all(&bytes).await.is_ok(),
            Self::Drip(bytes, piece, rest) => {
                for piece in bytes.chunks(piece) {
                    if to.write_all(piece).await.is_err() {
                        return false;
                    }
                    tokio::time::sleep(rest).await;
                }
                true
            }
            Self::Flood(bytes, times) => {
                for _ in 0..times {
                    if to.write_all(&bytes).await.is_err() {
                        return false;
                    }
                }
                true
            }
            Self::Wait(gate) => gate.run_until_cancelled(gone(to)).await.is_none(),
            Self::Rest(time) => {
                tokio::time::sleep(time).await;
                true
            }
            Self::Silence => {
                gone(to).await;
                false
            }
            Self::HangUp => {
                let _unread = to.read(&mut [0; 64]).await;
                false
            }
            Self::HalfClose => to.shutdown().await.is_ok(),
            Self::Close => false,
            Self::Reset => {
                to.set_zero_linger().unwrap();
                false
            }
        }
    }
}

/// Waits until the other side has closed the connection.
async fn gone(from: &mut TcpStream) {
    let mut unread = vec![0; 4096];
    while let Ok(1..) = from.read(&mut unread).await {}
}

/// Serves one connection until it, or the script, ends.
pub(super) async fn serve(shared: Arc<Shared>, mut connection: TcpStream) {
    connection.set_nodelay(true).unwrap();
    let mut came = Vec::new();
    while let Some(seen) = read(&mut connection, &mut came).await {
        shared.note(seen.clone());
        for act in answer(&shared, &seen) {
            if !act.run(&mut connection).await {
                return;
            }
        }
    }
}

/// The next request; `None` where there is none.
async fn read(from: &mut TcpStream, came: &mut Vec<u8>) -> Option<Seen> {
    loop {
        if let Some((seen, length)) = parse(came) {
            came.drain(..length);
            return Some(seen);
        }
        if from.read_buf(came).await.ok()? == 0 {
            return None;
        }
    }
}

/// The request that `came` begins with, and its length, if it is whole.
fn parse(came: &[u8]) -> Option<(Seen, usize)> {
    let mut places = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Request::new(&mut places);
    let httparse::Status::Complete(at) = head.parse(came).unwrap() else { return None };
    let mut headers = HeaderMap::new();
    for header in &*head.headers {
        let name: HeaderName = header.name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(header.value).unwrap());
    }
    let length = headers.get("content-length").map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let body = came.get(at..at + length)?;
    let text = String::from_utf8(body.to_vec()).unwrap();
    Some((Seen::new(head.method.unwrap(), text, headers), at + length))
}

fn answer(shared: &Shared, seen: &Seen) -> Vec<Act> {
    let script = shared.script();
    if let Some(refusal) = script.refusal {
        return acts(seen, refusal);
    }
    let session = seen.header("mcp-session-id");
    if script.sessions && seen.method != "initialize" && !shared.sessions.lock().unwrap().contains(session) {
        return status(if session.is_empty() { 400 } else { 404 }, &[]);
    }
    match seen.kind.as_str() {
        "GET" => script.stream.as_ref().map_or_else(|| status(405, &[]), |stream| acts(seen, stream(seen))),
        "DELETE" if script.sessions => status(204, &[]),
        "POST" if seen.id.is_none() || seen.method.is_empty() => status(202, &[]),
        "POST" if script.sessions && seen.method == "initialize" => greet(shared, seen, &script),
        "POST" => acts(seen, seen.reply(&script)),
        _ => status(405, &[]),
    }
}

fn greet(shared: &Shared, seen: &Seen, script: &Script) -> Vec<Act> {
    let Reply::Result(result) = seen.reply(script) else { panic!("a session begins with a result") };
    let (id, text) = (mint(), seen.answer(&result));
    shared.sessions.lock().unwrap().insert(id.clone());
    vec![Act::bytes(format!(
        "HTTP/1.1 200 .\r\ncontent-type: application/json\r\nmcp-session-id: {id}\r\ncontent-length: {}\r\n\r\n{text}",
        text.len()
    ))]
}

fn status(code: u16, headers: &[(&str, String)]) -> Vec<Act> {
    let headers = headers.iter().fold(String::new(), |mut text, (name, value)| {
        write!(text, "{name}: {value}\r\n").unwrap();
        text
    });
    let length = if code == 204 { "" } else { "content-length: 0\r\n" };
    vec![Act::bytes(format!("HTTP/1.1 {code} .\r\n{headers}{length}\r\n"))]
}

fn acts(seen: &Seen, reply: Reply) -> Vec<Act> {
    match reply {
        Reply::Result(result) => vec![Act::json(&seen.answer(&result))],
        Reply::Text(text) => vec![Act::json(&seen.fill(&text))],
        Reply::Status(code, headers) => status(code, &headers),
        Reply::Stall => vec![Act::Silence],
        Reply::Raw(acts) => acts,
        Reply::Steps(steps) => {
            let each = steps.into_iter().map(|step| match step {
                Step::Send(text) => Act::event(&seen.fill(&text)),
                Step::Wait(gate) => Act::Wait(gate),
                Step::Rest(time) => Act::Rest(time),
                Step::Cut => Act::Reset,
                Step::Ask(..) => panic!("only a proper server asks"),
            });
            std::iter::once(Act::events()).chain(each).chain([Act::Close]).collect()
        }
    }
}
