//! One keep-alive HTTP/1.1 connection, with nothing around it: no pool, no task, no timer.

use std::pin::Pin;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::http::{HeaderMap, response};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Where requests go. Loopback is meant, so plain `http` only.
#[derive(Debug, Clone)]
pub struct Target {
    host: String,
    port: u16,
    path: Uri,
    host_header: HeaderValue,
}

impl TryFrom<&Uri> for Target {
    type Error = anyhow::Error;

    fn try_from(url: &Uri) -> anyhow::Result<Self> {
        let authority = url.authority().context("the URL has no host")?;
        if url.scheme_str() != Some("http") {
            bail!("only http:// URLs");
        }
        Ok(Self {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            path: url.path_and_query().map_or("/", PathAndQuery::as_str).parse()?,
            host_header: authority.as_str().parse()?,
        })
    }
}

impl Target {
    /// A connection there, with nothing said on it.
    pub async fn tcp(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// The same server at another path, which may be told as a whole URL.
    pub fn at(&self, url: &str) -> anyhow::Result<Self> {
        let url: Uri = url.parse().context("not a URL")?;
        let path = url.path_and_query().map_or("/", PathAndQuery::as_str).parse()?;
        Ok(Self { path, ..self.clone() })
    }

    /// The path and what follows it.
    pub fn path(&self) -> &str {
        self.path.path_and_query().map_or("/", PathAndQuery::as_str)
    }

    /// What goes into `Host`.
    pub fn host(&self) -> &str {
        self.host_header.to_str().unwrap_or_default()
    }
}

/// A connection and its driver in one, so that a call costs no hand-over between tasks.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    target: Target,
}

impl Client {
    /// Opens the connection.
    pub async fn connect(target: Target) -> anyhow::Result<Self> {
        let stream = target.tcp().await?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self { sender, driver: Box::pin(driver), target })
    }

    /// Sends one request and reads its answer to the end.
    ///
    /// # Errors
    /// When the connection broke or was closed; it is of no use then.
    pub async fn send(
        &mut self,
        method: Method,
        headers: &HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<(response::Parts, Bytes)> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = self.target.path.clone();
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(HOST, self.target.host_header.clone());
        let exchange = async {
            self.sender.ready().await?;
            let (head, body) = self.sender.send_request(request).await?.into_parts();
            Ok::<_, hyper::Error>((head, body.collect().await?.to_bytes()))
        };
        tokio::select! {
            biased; // the driver writes what the exchange has just handed it
            answer = exchange => Ok(answer?),
            end = &mut self.driver => match end {
                Ok(()) => bail!("the connection was closed"),
                Err(error) => Err(error).context("the connection broke"),
            },
        }
    }
}
