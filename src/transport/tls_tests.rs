//! Links to servers with certificates.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::testing::{all, call, http, link, result};
use super::{Failure, tls};
use crate::config::{Reach, Tls};
use crate::wire::Message;

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for `name`, and its key, as PEM.
    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        (CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap(), key)
    }

    fn write(&self, folder: &Path) -> PathBuf {
        write(folder, "ca.pem", &self.0.pem())
    }
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

/// A server with a certificate for `name`; wants one of its clients where `clients` says by whom.
fn acceptor(authority: &Authority, name: &str, clients: Option<&Authority>, alpn: &[u8]) -> TlsAcceptor {
    let (certificate, key) = authority.issue(name);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.0.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    let mut config = builder.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![alpn.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// What a call gets from a server behind `acceptor` that answers every request, and the HTTP version it came in.
async fn told(acceptor: &TlsAcceptor, tls: Tls) -> (Result<Message, Failure>, Option<Version>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let Reach::Http(mut config) = http(&format!("https://{}/mcp", listener.local_addr().unwrap())) else {
        panic!()
    };
    config.tls = tls;
    let link = match link(Reach::Http(config)).await {
        Ok(link) => link,
        Err(failure) => return (Err(failure), None),
    };
    let version = Arc::new(std::sync::Mutex::new(None));
    let serving = async {
        let Ok(stream) = acceptor.accept(listener.accept().await.unwrap().0).await else {
            return std::future::pending::<()>().await;
        };
        let seen = Arc::clone(&version);
        let answer = service_fn(move |request: Request<_>| {
            *seen.lock().unwrap() = Some(request.version());
            let json = Response::builder().header("content-type", "application/json");
            std::future::ready(Ok::<_, Infallible>(json.body(Full::<Bytes>::from(result(1))).unwrap()))
        });
        let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        drop(server.serve_connection(TokioIo::new(stream), answer).await);
        std::future::pending::<()>().await;
    };
    let asking = async { all(link.request(1, call(1)).await.unwrap()).await.1 };
    let told = tokio::select! { told = asking => told, () = serving => unreachable!() };
    let version = *version.lock().unwrap();
    (told, version)
}

fn why(told: (Result<Message, Failure>, Option<Version>)) -> String {
    told.0.unwrap_err().to_string()
}

#[tokio::test]
async fn fault_071_only_a_trusted_certificate_for_the_name_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = Tls { ca: Some(authority.write(folder.path())), ..Tls::default() };
    let here = acceptor(&authority, "127.0.0.1", None, b"http/1.1");
    let (answer, version) = told(&here, ca.clone()).await;
    assert_eq!((answer.unwrap().number(), version), (Some(1), Some(Version::HTTP_11)));
    let unknown = why(told(&here, Tls::default()).await);
    assert!(unknown.starts_with("cannot be reached: ") && unknown.contains("UnknownIssuer"), "{unknown}");
    let elsewhere = acceptor(&authority, "example.com", None, b"http/1.1");
    let wrong = why(told(&elsewhere, ca).await);
    assert!(wrong.contains("not valid for name"), "{wrong}");
    let any = Tls { insecure: true, ..Tls::default() };
    assert!(told(&elsewhere, any).await.0.is_ok());
}

#[tokio::test]
async fn http2_where_the_server_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let ca = Tls { ca: Some(authority.write(folder.path())), ..Tls::default() };
    let (answer, version) = told(&acceptor(&authority, "127.0.0.1", None, b"h2"), ca).await;
    assert_eq!((answer.unwrap().number(), version), (Some(1), Some(Version::HTTP_2)));
}

#[tokio::test]
async fn calls_share_one_http2_connection_and_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let acceptor = acceptor(&authority, "127.0.0.1", None, b"h2");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let Reach::Http(mut config) = http(&format!("https://{}/mcp", listener.local_addr().unwrap())) else {
        panic!()
    };
    config.tls = Tls { ca: Some(authority.write(folder.path())), ..Tls::default() };
    let link = link(Reach::Http(config)).await.unwrap();
    let stalled = Arc::new(tokio::sync::Notify::new());
    let stall = Arc::clone(&stalled);
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let stall = Arc::clone(&stall);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let Some(id) = (1..=3).find(|id| body == call(*id)) else {
                stall.notify_one();
                return std::future::pending().await;
            };
            let json = Response::builder().header("content-type", "application/json");
            Ok::<_, Infallible>(json.body(Full::<Bytes>::from(result(id))).unwrap())
        }
    });
    let serving = async {
        let stream = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(server.serve_connection(TokioIo::new(stream), answer).await);
        tokio::select! {
            biased;
            _ = listener.accept() => panic!("another connection"),
            () = tokio::task::yield_now() => {}
        }
    };
    let asking = async {
        let ask = async |id| all(link.request(id, call(id)).await.unwrap()).await.1;
        assert_eq!(ask(1).await.unwrap().number(), Some(1));
        let (two, three) = tokio::join!(ask(2), ask(3));
        assert_eq!((two.unwrap().number(), three.unwrap().number()), (Some(2), Some(3)));
        let closing = async {
            stalled.notified().await;
            link.close().await;
        };
        let (told, ()) = tokio::join!(ask(4), closing);
        assert_eq!(told.unwrap_err(), Failure::Cut("we closed the connection".into()));
    };
    tokio::join!(serving, asking);
}

#[tokio::test]
async fn our_own_certificate_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let server = acceptor(&authority, "127.0.0.1", Some(&authority), b"http/1.1");
    let none = Tls { ca: Some(authority.write(folder.path())), ..Tls::default() };
    let (certificate, key) = authority.issue("us");
    let ours = Tls {
        cert: Some(write(folder.path(), "cert.pem", &certificate.pem())),
        key: Some(write(folder.path(), "key.pem", &key.serialize_pem())),
        ..none.clone()
    };
    assert!(told(&server, ours.clone()).await.0.is_ok());
    assert!(why(told(&server, none).await).contains("CertificateRequired"));
    let broken = Tls { key: Some(write(folder.path(), "broken.pem", "nothing")), ..ours };
    let broken = why(told(&server, broken).await);
    assert!(broken.contains("broken.pem"), "{broken}");
}

#[tokio::test]
async fn missing_and_empty_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for file in [folder.path().join("missing.pem"), write(folder.path(), "empty.pem", "")] {
        let tls = Tls { ca: Some(file.clone()), ..Tls::default() };
        let failure = tls::Trust::default().client(&tls).await.unwrap_err().to_string();
        assert!(failure.contains(&*file.to_string_lossy()), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn fault_071_a_handshake_that_stalls_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("https://{}/mcp", listener.local_addr().unwrap());
    let link = link(http(&uri)).await.unwrap();
    let failure = all(link.request(1, call(1)).await.unwrap()).await.1.unwrap_err();
    assert_eq!(failure, Failure::Unreachable("no connection within 8s".into()));
}
