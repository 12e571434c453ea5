//! A server of raw bytes, and links to it.

use std::path::PathBuf;

use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};

use super::{Dialer, Failure, Link, Reply, Sizes};
use crate::config::{Http, HttpTransport, Reach, Server, Stdio, Tls};
use crate::wire::{Kind, Message};

pub(super) const SIZES: Sizes = Sizes { message: 64 << 10, depth: 16 };

/// A server that reads and writes what a test says.
pub(super) struct Peer {
    listener: TcpListener,
    pub(super) uri: String,
}

/// One connection to a [`Peer`].
pub(super) struct Connection(BufStream<TcpStream>);

/// What a peer was asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) line: String,
    headers: String,
    pub(super) body: String,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Peer {
    pub(super) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/mcp", listener.local_addr().unwrap());
        Self { listener, uri }
    }

    pub(super) async fn accept(&self) -> Connection {
        Connection(BufStream::new(self.listener.accept().await.unwrap().0))
    }

    /// Whether nobody has come.
    pub(super) async fn is_untouched(&self) -> bool {
        tokio::select! {
            biased;
            _ = self.listener.accept() => false,
            () = tokio::task::yield_now() => true,
        }
    }

    pub(super) async fn link(&self) -> Link {
        link(http(&self.uri)).await.unwrap()
    }
}

impl Connection {
    pub(super) async fn asked(&mut self) -> Asked {
        self.maybe_asked().await.expect("a request")
    }

    /// The next request, or `None` where the connection ends instead.
    pub(super) async fn maybe_asked(&mut self) -> Option<Asked> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        let (line, headers) = head.split_once("\r\n").unwrap();
        let mut asked = Asked { line: line.into(), headers: headers.into(), body: String::new() };
        let length = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.ok()?;
        asked.body = String::from_utf8(body).unwrap();
        Some(asked)
    }

    /// Writes, as far as the other side takes it.
    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let written = async {
            self.0.write_all(bytes.as_ref()).await?;
            self.0.flush().await
        };
        drop(written.await);
    }

    /// Reads the next request and answers with the bytes.
    pub(super) async fn answer(&mut self, bytes: impl AsRef<[u8]>) -> Asked {
        let asked = self.asked().await;
        self.write(bytes).await;
        asked
    }

    /// Resets the connection instead of ending it.
    pub(super) fn reset(self) {
        self.0.get_ref().set_zero_linger().unwrap();
    }
}

/// A whole response.
pub(super) fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

pub(super) fn json(body: &str) -> String {
    response("200 OK", "content-type: application/json\r\n", body)
}

/// The start of a response that is a stream.
pub(super) const EVENTS: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(super) fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub(super) fn result(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
}

pub(super) fn call(id: u64) -> bytes::Bytes {
    crate::wire::request(id, "tools/call", "{}")
}

/// The methods of the asides, and the answer.
pub(super) async fn all(mut reply: Reply) -> (Vec<String>, Result<Message, Failure>) {
    let mut asides = Vec::new();
    loop {
        match reply.next().await {
            Ok(message) if matches!(message.kind(), Kind::Request | Kind::Notification) => {
                asides.push(message.method().to_owned());
            }
            last => return (asides, last),
        }
    }
}

pub(super) async fn link(reach: Reach) -> Result<Link, Failure> {
    Dialer::new(SIZES).dial(&server(reach)).await
}

/// A server that is known to speak streamable HTTP.
pub(super) fn http(uri: &str) -> Reach {
    speaking(uri, HttpTransport::Streamable)
}

pub(super) fn speaking(uri: &str, transport: HttpTransport) -> Reach {
    Reach::Http(Http {
        url: uri.parse::<Uri>().unwrap(),
        headers: vec![(HeaderName::from_static("x-api-key"), HeaderValue::from_static("canary-in-a-header"))],
        transport,
        tls: Tls::default(),
    })
}

/// A child that runs a shell script.
pub(super) fn sh(script: &str) -> Reach {
    Reach::Stdio(Stdio {
        command: PathBuf::from("sh"),
        args: vec!["-c".into(), script.into()],
        env: vec![("CANARY".into(), "canary-in-a-variable".into())],
        cwd: None,
    })
}

pub(super) fn server(reach: Reach) -> Server {
    Server::new("peer", reach)
}
