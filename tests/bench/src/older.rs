//! The older HTTP+SSE transport (2024-11-05) as a client: requests are posted, answers come on a stream of events.

use anyhow::{Context, ensure};
use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::client::Target;

/// No line of a stream is longer.
const LONGEST: u64 = 64 << 20;

/// The stream that answers come on. Servers write an event as one chunk, with its data on one line, so that the lines
/// with data can be read without looking at chunks.
#[derive(Debug)]
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens the stream; gives where requests go as well.
    pub async fn open(target: &Target) -> anyhow::Result<(Self, Target)> {
        let mut stream = target.tcp().await?;
        let (path, host) = (target.path(), target.host());
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: text/event-stream\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut events = Self(BufReader::new(stream));
        let status = events.line().await?;
        ensure!(
            status.starts_with(b"HTTP/1.1 200"),
            "no stream: {}",
            String::from_utf8_lossy(&status).trim()
        );
        let endpoint = events.next().await?;
        let endpoint = std::str::from_utf8(&endpoint).context("the endpoint is not text")?;
        Ok((events, target.at(endpoint)?))
    }

    /// The data of the next event.
    pub async fn next(&mut self) -> anyhow::Result<Bytes> {
        loop {
            if let Some(data) = self.line().await?.strip_prefix(b"data:") {
                return Ok(Bytes::copy_from_slice(data.trim_ascii()));
            }
        }
    }

    async fn line(&mut self) -> anyhow::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.0).take(LONGEST).read_until(b'\n', &mut line).await?;
        ensure!(line.ends_with(b"\n"), "the stream ended");
        Ok(line)
    }
}
