//! Servers whose certificates will not do.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::{Beside, is_stub, said};
use crate::support::{Fake, Script};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Puts TLS before the server of `entry`, with a certificate for `name`. Its own entry, where `authority` is trusted.
async fn secured(
    tasks: &mut JoinSet<()>,
    entry: &str,
    (by, trusted): (&Authority, &str),
    name: &str,
    expired: bool,
) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    if expired {
        params.not_after = date_time_ymd(2001, 1, 1);
        params.not_before = date_time_ymd(2000, 1, 1);
    }
    let certificate = params.signed_by(&key, by).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = entry.split('/').nth(2).unwrap().to_owned();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((connection, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            connections.spawn(async move {
                let Ok(mut secure) = acceptor.accept(connection).await else { return };
                let mut plain = TcpStream::connect(server).await.unwrap();
                let _either_may_break_off = copy_bidirectional(&mut secure, &mut plain).await;
            });
        }
    });
    format!(r#"{{"url": "https://{address}/mcp", "tls": {{"ca": "{trusted}"}}}}"#)
}

#[tokio::test]
async fn fault_071_a_certificate_that_will_not_do_is_told_and_its_tools_become_stubs() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (authority("ours"), authority("another"));
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, ours.pem()).unwrap();
    let trusted = path.to_str().unwrap();
    let (up, mut tasks) = (Fake::http(Script::default()), JoinSet::new());
    let entry = up.entry();
    let stalling = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stalls =
        format!(r#"{{"url": "https://{}/mcp", "connectTimeout": "500ms"}}"#, stalling.local_addr().unwrap());
    let servers = [
        ("good", secured(&mut tasks, &entry, (&ours, trusted), "127.0.0.1", false).await),
        ("expired", secured(&mut tasks, &entry, (&ours, trusted), "127.0.0.1", true).await),
        ("name", secured(&mut tasks, &entry, (&ours, trusted), "example.com", false).await),
        ("unknown", secured(&mut tasks, &entry, (&other, trusted), "127.0.0.1", false).await),
        ("stalls", stalls),
    ];
    let beside = Beside::start("firstListWait: 2s", &servers).await;
    assert_eq!(said(&beside.client.call("who_mcp_good", "{}").await), "here");
    for (name, why) in [
        ("expired", "xpired"),
        ("name", "not valid for name"),
        ("unknown", "UnknownIssuer"),
        ("stalls", "within"),
    ] {
        let status = beside.world.server(name).await;
        assert!(status["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{status}");
        assert_eq!(status["state"], "down", "{status}");
        assert!(
            beside
                .world
                .metric(&format!(r#"trunkline_upstream_state{{server="{name}",state="down"}}"#))
                .await
                > 0.5
        );
        let answer = beside.client.call(&format!("who_mcp_{name}"), "{}").await;
        assert!(is_stub(&answer) && said(&answer).contains(why), "{answer}");
    }
    beside.others_are_well().await;
}
