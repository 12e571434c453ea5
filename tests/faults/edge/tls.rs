//! TLS of the MCP endpoint.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;

use super::closed;
use crate::support::raw::{Raw, post};
use crate::support::{Client, Fake, Mount, Script, World, entries, file, hello, until};

/// An authority of the test's own.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate and its key, as PEM.
    fn issue(&self, expired: bool) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        if expired {
            params.not_before = rcgen::date_time_ymd(2001, 1, 1);
            params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Arc::new(roots)
    }

    /// A client that trusts it, with a certificate or without.
    fn client(&self, own: Option<&(String, String)>) -> Arc<ClientConfig> {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
        let builder = ClientConfig::builder().with_root_certificates(self.roots());
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        })
    }
}

fn save(folder: &Path, (certificate, key): &(String, String)) {
    // The key first: in between they do not fit, and must not be taken.
    for (name, text) in [("key.pem", key), ("cert.pem", certificate)] {
        let draft = folder.join(format!(".{name}"));
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, folder.join(name)).unwrap();
    }
}

async fn world(authority: &Authority, limits: &str, more: &str) -> (World, Fake) {
    let up = Fake::http(Script::default());
    let text = file(limits, &entries(&[("up", up.entry())]));
    let mount = Mount::new(&format!("tls: {{cert: cert.pem, key: key.pem{more}}}\n{text}"));
    save(mount.path(), &authority.issue(false));
    std::fs::write(mount.path().join("ca.pem"), authority.0.pem()).unwrap();
    (World::start_in(mount).await.ready().await, up)
}

/// Says hello and hears it; the certificate that the server showed.
async fn greets(world: &World, config: Arc<ClientConfig>) -> std::io::Result<Vec<u8>> {
    let mut raw = Raw::tls(world, config).await?;
    let shown = raw.io.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    raw.say(post(&Client::new(world.url("/mcp")), &hello("2025-11-25"))).await;
    let Some(said) = raw.answer().await else { return Err(std::io::ErrorKind::UnexpectedEof.into()) };
    assert_eq!(said.status, 200);
    Ok(shown)
}

#[tokio::test]
async fn fault_018_handshakes_that_are_none_are_closed() {
    let authority = Authority::new();
    let (world, _up) = world(&authority, "headerTimeout: 1s", ", clientCa: ca.pem").await;
    let (own, old) = (authority.issue(false), authority.issue(true));
    greets(&world, authority.client(Some(&own))).await.unwrap();
    // No handshake at all, and what is none.
    let mut raw = Raw::open(&world).await;
    assert!(raw.ends(Duration::from_secs(5)).await, "nothing said");
    for start in [
        &b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
        &[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0], // a hello of one byte
        &[&[0x16, 3, 1, 0xff, 0xff][..], &[0; 65_535]].concat(), // and one far too long
        &old_hello(1),
        &old_hello(2),
        &[0x80, 0x2e, 1, 3, 0], // of SSL 2
    ] {
        let mut raw = Raw::open(&world).await;
        raw.say(start).await;
        let mut first = [0; 1];
        let said = raw.io.read(&mut first).await.unwrap_or(0);
        assert!(said == 0 || first[0] == 0x15, "an alert, if anything: {first:?}");
        assert!(raw.ends(Duration::from_secs(5)).await);
    }
    // Certificates of nobody's, of somebody else's, and one that has expired.
    let foreign = Authority::new().issue(false);
    for own in [None, Some(&foreign), Some(&old)] {
        assert!(greets(&world, authority.client(own)).await.is_err());
    }
    let config = authority.client(Some(&own));
    for _ in 0..crate::support::scaled(200, 10_000) {
        greets(&world, config.clone()).await.unwrap(); // resumed
    }
    assert!(closed(&world, "handshake").await >= 9.0);
    assert_eq!(world.metric("trunkline_panics_total").await, 0.0);
    greets(&world, authority.client(Some(&own))).await.unwrap();
}

/// The hello of a client that speaks TLS 1.0 or 1.1 alone.
fn old_hello(minor: u8) -> Vec<u8> {
    let mut hello = vec![3, minor];
    hello.extend([7; 32]); // random
    hello.push(0); // no session
    hello.extend([0, 2, 0xc0, 0x14]); // one cipher suite
    hello.extend([1, 0]); // no compression
    let length = u8::try_from(hello.len()).unwrap();
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(hello);
    record
}

#[tokio::test]
async fn fault_019_a_new_certificate_is_shown_without_a_restart_and_garbage_is_not() {
    let authority = Authority::new();
    let (mut world, _up) = world(&authority, "", "").await;
    let first = greets(&world, authority.client(None)).await.unwrap();
    let mut standing = Raw::tls(&world, authority.client(None)).await.unwrap();
    save(world.mount.path(), &authority.issue(false));
    let second = until("the new one is shown", async || {
        let shown = greets(&world, authority.client(None)).await.unwrap();
        (shown != first).then_some(shown)
    })
    .await;
    // A key that does not fit, then garbage, then nothing.
    let other = authority.issue(false);
    for (n, bad) in [(other.0.clone(), authority.issue(false).1), ("garbage".into(), "-----BEGIN".into())]
        .iter()
        .enumerate()
    {
        save(world.mount.path(), bad);
        let failed = r#"trunkline_tls_reloads_total{result="failure"}"#;
        let enough = f64::from(u32::try_from(n + 1).unwrap());
        until("it is refused", async || (world.metric(failed).await >= enough).then_some(())).await;
        assert_eq!(greets(&world, authority.client(None)).await.unwrap(), second, "the last good one stays");
    }
    world.logged("the last certificate stays in use").await;
    save(world.mount.path(), &other);
    until("the next good one is shown", async || {
        (greets(&world, authority.client(None)).await.unwrap() != second).then_some(())
    })
    .await;
    standing.say(post(&Client::new(world.url("/mcp")), &hello("2025-11-25"))).await;
    assert_eq!(standing.answer().await.unwrap().status, 200, "a connection that stood from the start");
}

#[tokio::test]
async fn fault_019_a_certificate_that_is_garbage_from_the_start_is_told() {
    let mount = Mount::new(&format!("tls: {{cert: cert.pem, key: key.pem}}\n{}", file("", &entries(&[]))));
    save(mount.path(), &("garbage".into(), "garbage".into()));
    let output = crate::support::program().arg("--config").arg(mount.file()).output();
    let output = tokio::time::timeout(Duration::from_secs(10), output).await.unwrap().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("pem"), "{told}");
}
