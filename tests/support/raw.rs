//! A client that says any bytes it likes: raw TCP, TLS, and frames of HTTP/2.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Client, SOON, World};

/// A connection on which anything can be said.
#[derive(Debug)]
pub(crate) struct Raw<T = TcpStream> {
    pub(crate) io: T,
    read: Vec<u8>,
}

/// A response, as far as it was read.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Raw {
    /// Connects.
    pub(crate) async fn open(world: &World) -> Self {
        Self::to(world.address()).await
    }

    pub(crate) async fn to(address: SocketAddr) -> Self {
        let io = timeout(SOON, TcpStream::connect(address)).await.unwrap().unwrap();
        io.set_nodelay(true).unwrap();
        Self { io, read: Vec::new() }
    }

    /// Connects with next to no room for what comes.
    pub(crate) async fn narrow(world: &World) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let io = socket.connect(world.address()).await.unwrap();
        Self { io, read: Vec::new() }
    }

    /// Resets the connection.
    pub(crate) fn reset(self) {
        self.io.set_zero_linger().unwrap();
    }
}

impl Raw<TlsStream<TcpStream>> {
    /// Connects with TLS.
    pub(crate) async fn tls(world: &World, config: Arc<ClientConfig>) -> std::io::Result<Self> {
        let io = TcpStream::connect(world.address()).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let io = timeout(SOON, TlsConnector::from(config).connect(name, io)).await.unwrap()?;
        Ok(Self { io, read: Vec::new() })
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Raw<T> {
    /// Says this; the other side may have closed already.
    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        timeout(3 * SOON, self.io.write_all(bytes.as_ref())).await.expect("it takes it").is_ok()
    }

    /// Says this byte by byte, with a rest after each, until the other side closes or says something; `false` where
    /// all was said before.
    pub(crate) async fn drip(&mut self, bytes: &[u8], rest: Duration) -> bool {
        for byte in bytes {
            if self.io.write_all(&[*byte]).await.is_err() {
                return true;
            }
            let mut more = [0; 4096];
            match timeout(rest, self.io.read(&mut more)).await {
                Ok(Ok(0) | Err(_)) => return true,
                Ok(Ok(count)) => {
                    self.read.extend_from_slice(&more[..count]);
                    return true;
                }
                Err(_) => {}
            }
        }
        false
    }

    /// The next response, with a body of the announced length; `None` where the connection ends before.
    pub(crate) async fn answer(&mut self) -> Option<Said> {
        let end = self.until(|read| read.windows(4).position(|four| four == b"\r\n\r\n")).await?;
        let head = String::from_utf8(self.read.drain(..end + 4).collect()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let lower = head.to_ascii_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let length = length.unwrap_or(0);
        self.until(|read| (read.len() >= length).then_some(0)).await?;
        let body = String::from_utf8(self.read.drain(..length).collect()).unwrap();
        Some(Said { status, head, body })
    }

    /// Reads until `look` finds something; `None` at the end.
    async fn until(&mut self, look: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        loop {
            if let Some(found) = look(&self.read) {
                return Some(found);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    async fn more(&mut self) -> bool {
        let mut more = [0; 16 << 10];
        match timeout(3 * SOON, self.io.read(&mut more)).await.expect("it says something, or ends") {
            Ok(count) => {
                self.read.extend_from_slice(&more[..count]);
                count > 0
            }
            Err(_) => false, // reset
        }
    }

    /// Whether the connection is closed within `limit`; what comes before is thrown away.
    pub(crate) async fn ends(&mut self, limit: Duration) -> bool {
        let ending = async {
            self.read.clear();
            while self.more().await {
                self.read.clear();
            }
        };
        timeout(limit, ending).await.is_ok()
    }
}

/// The head of a POST with the headers of `client`, and with these lines more.
pub(crate) fn head(client: &Client, more: &str) -> String {
    let mut head = String::from("POST /mcp HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in &client.headers {
        head += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    head + more + "\r\n"
}

/// A whole POST.
pub(crate) fn post(client: &Client, body: &str) -> String {
    head(client, &format!("content-length: {}\r\n", body.len())) + body
}

/// Kinds of frames (RFC 9113, 6).
pub(crate) mod frame {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RESET: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;

    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
}

/// A frame that came.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// HTTP/2, frame by frame.
#[derive(Debug)]
pub(crate) struct Two(pub(crate) Raw);

impl Two {
    /// Connects and says these settings.
    pub(crate) async fn open(world: &World, settings: &[(u16, u32)]) -> Self {
        let mut raw = Raw::open(world).await;
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend_from_slice(&name.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        raw.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let mut two = Self(raw);
        two.say(&encoded(frame::SETTINGS, 0, 0, &payload)).await;
        two
    }

    /// Says frames; `false` where the connection is closed.
    pub(crate) async fn say(&mut self, frames: &[u8]) -> bool {
        self.0.say(frames).await
    }

    /// The next frame; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let length =
            |read: &[u8]| usize::from(read[0]) << 16 | usize::from(read[1]) << 8 | usize::from(read[2]);
        self.0.until(|read| (read.len() >= 9 && read.len() >= 9 + length(read)).then_some(0)).await?;
        let whole: Vec<u8> = self.0.read.drain(..9 + length(&self.0.read)).collect();
        let stream = u32::from_be_bytes(whole[5..9].try_into().unwrap());
        Some(Frame { kind: whole[3], flags: whole[4], stream, payload: whole[9..].to_vec() })
    }

    /// The next frame of this kind; `None` at the end.
    pub(crate) async fn next_of(&mut self, kind: u8) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            if frame.kind == kind {
                return Some(frame);
            }
        }
    }

    /// The reason with which the connection is given up, if it is with one.
    pub(crate) async fn gave_up(&mut self) -> Option<u32> {
        let frame = self.next_of(frame::GOAWAY).await?;
        Some(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()))
    }
}

/// A frame as bytes.
pub(crate) fn encoded(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// The headers of a POST, or of another method, uncompressed (RFC 7541, 6.2.2).
pub(crate) fn fields(method: &str, client: &Client) -> Vec<u8> {
    let mut block = Vec::new();
    let pseudo = [(":method", method), (":scheme", "http"), (":path", "/mcp"), (":authority", "localhost")];
    for (name, value) in pseudo {
        field(&mut block, name, value);
    }
    for (name, value) in &client.headers {
        field(&mut block, name.as_str(), value.to_str().unwrap());
    }
    block
}

/// Adds one header.
pub(crate) fn field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.push(0);
    for text in [name, value] {
        length(block, text.len());
        block.extend_from_slice(text.as_bytes());
    }
}

/// A number with seven bits in its first byte (RFC 7541, 5.1).
fn length(block: &mut Vec<u8>, mut number: usize) {
    let byte = |number: usize| u8::try_from(number & 0xff).unwrap();
    if number < 127 {
        return block.push(byte(number));
    }
    block.push(127);
    number -= 127;
    while number >= 128 {
        block.push(byte(number & 0x7f | 0x80));
        number >>= 7;
    }
    block.push(byte(number));
}

/// The frames of a whole POST.
pub(crate) fn posted(stream: u32, client: &Client, body: &str) -> Vec<u8> {
    let mut frames = encoded(frame::HEADERS, frame::END_HEADERS, stream, &fields("POST", client));
    frames.extend(encoded(frame::DATA, frame::END_STREAM, stream, body.as_bytes()));
    frames
}
