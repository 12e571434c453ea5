//! TLS of the MCP endpoint.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::config::EdgeTls;
use crate::metrics::Metrics;

/// Our certificate, as its files last were good, and whose clients' certificates we take.
#[derive(Debug)]
pub struct Tls {
    files: EdgeTls,
    current: ArcSwap<ServerConfig>,
    /// What tells the files' contents from others.
    seen: Mutex<u64>,
    metrics: Arc<Metrics>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn load(files: &EdgeTls, metrics: Arc<Metrics>) -> Result<Arc<Self>, String> {
        let seen = Mutex::new(print(files));
        let current = ArcSwap::from_pointee(build(files)?);
        Ok(Arc::new(Self { files: files.clone(), current, seen, metrics }))
    }

    /// Reads the files again if they have changed. What cannot be used, as a certificate whose key has not come yet,
    /// leaves the last good ones in place. Connections that stand are not touched.
    pub fn reload(&self) {
        let now = print(&self.files);
        if std::mem::replace(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner), now) == now {
            return;
        }
        match build(&self.files) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                self.metrics.certificates(true);
                tracing::info!("another certificate of the endpoint: new connections get it");
            }
            Err(why) => {
                self.metrics.certificates(false);
                tracing::error!("`tls`: {why}; the last certificate stays in use");
            }
        }
    }

    /// Shakes hands with a client.
    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        TlsAcceptor::from(self.current.load_full()).accept(socket).await
    }
}

/// What tells the files' contents from others; a file that cannot be read is another content.
fn print(files: &EdgeTls) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()].into_iter().flatten() {
        std::fs::read(file).ok().hash(&mut hasher);
    }
    hasher.finish()
}

fn build(files: &EdgeTls) -> Result<ServerConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| unreadable(file, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unreadable(file, error))?)
        }
    };
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable(&files.key, error))?;
    let config = builder.with_single_cert(certificates(&files.cert)?, key);
    let mut config = config.map_err(|error| unreadable(&files.cert, error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found = found.map_err(|error| unreadable(file, error))?;
    if found.is_empty() { Err(unreadable(file, "holds no certificate")) } else { Ok(found) }
}

fn unreadable(file: &Path, why: impl std::fmt::Display) -> String {
    format!("{}: {why}", file.display())
}
