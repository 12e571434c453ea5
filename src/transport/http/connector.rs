//! How a connection to a server is made.

use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
#[cfg(not(test))]
use hyper_util::client::legacy::connect::dns::GaiResolver as Resolver;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_service::Service;

#[cfg(test)]
use super::dns_tests::Resolver;
use crate::transport::Failure;
use crate::transport::text::reason;

const TCP_CONNECT: Duration = Duration::from_secs(3);
/// Looking the name up, TCP and TLS together.
const CONNECT: Duration = Duration::from_secs(8);
/// After what silence a peer is asked whether it is alive.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How often it is asked again, and how often in vain before it counts as dead. The system's own figures make more than
/// ten minutes, for which a stream would look alive.
const ASK_AGAIN: (Duration, u32) = (Duration::from_secs(10), 3);

/// What a connection's bytes go through.
pub(super) type Io = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Makes connections to one server.
#[derive(Debug)]
pub(super) struct Connector {
    server: Uri,
    connector: HttpsConnector<HttpConnector<Resolver>>,
}

impl Connector {
    /// For the server of `uri`, whatever its path.
    pub(super) fn new(uri: &Uri, tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::new());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(TCP_CONNECT));
        tcp.set_keepalive(Some(KEEP_ALIVE));
        tcp.set_keepalive_interval(Some(ASK_AGAIN.0));
        tcp.set_keepalive_retries(Some(ASK_AGAIN.1));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(tcp);
        Self { server: uri.clone(), connector }
    }

    /// Has a deadline: neither hyper-util nor hyper-rustls ends a TLS handshake that stalls.
    pub(super) async fn connect(&self) -> Result<Io, Failure> {
        let connecting = self.connector.clone().call(self.server.clone());
        match tokio::time::timeout(CONNECT, connecting).await {
            Ok(connected) => connected.map_err(|error| Failure::Unreachable(reason(&*error))),
            Err(_) => Err(Failure::Unreachable(format!("no connection within {CONNECT:?}"))),
        }
    }
}
