//! One connection of a client's, which the test can cut.

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, Response, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Client, SOON};

/// A connection; it is cut when it is dropped.
#[derive(Debug)]
pub(crate) struct Line {
    sender: Sender,
    driver: JoinSet<()>,
}

#[derive(Debug)]
enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Line {
    /// Connects to where `client` goes, over HTTP/1.1 or HTTP/2.
    pub(crate) async fn open(client: &Client, two: bool) -> Self {
        let url: Uri = client.url.parse().unwrap();
        let stream = TcpStream::connect(url.authority().unwrap().as_str()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_zero_linger().unwrap(); // closing it resets the connection, whatever is under way
        let io = TokioIo::new(stream);
        let mut driver = JoinSet::new();
        let sender = if two {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            driver.spawn(async { drop(connection.await) });
            Sender::Two(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.unwrap();
            driver.spawn(async { drop(connection.await) });
            Sender::One(sender)
        };
        Self { sender, driver }
    }

    /// Sends a request with the headers of `client` and gives the response as soon as its headers are there.
    pub(crate) async fn send(&mut self, client: &Client, method: Method, body: String) -> Response<Incoming> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.headers_mut() = client.headers.clone();
        let url: Uri = client.url.parse().unwrap();
        let response = match &mut self.sender {
            Sender::One(sender) => {
                request.headers_mut().insert("host", url.authority().unwrap().as_str().parse().unwrap());
                *request.uri_mut() = url.path().parse().unwrap();
                timeout(3 * SOON, sender.send_request(request)).await
            }
            Sender::Two(sender) => {
                *request.uri_mut() = url;
                timeout(3 * SOON, sender.send_request(request)).await
            }
        };
        response.expect("a response").unwrap()
    }

    /// Resets the connection.
    pub(crate) async fn cut(mut self) {
        self.driver.shutdown().await;
    }
}
