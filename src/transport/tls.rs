//! Whom we trust, and who we are, towards servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::sync::OnceCell;

use super::Failure;
use crate::config::Tls;

/// The machine's certificate authorities, loaded at the first use.
#[derive(Debug, Default)]
pub(super) struct Trust {
    roots: OnceCell<Arc<RootCertStore>>,
    /// What servers without certificates of their own share, with its sessions to resume.
    usual: OnceCell<ClientConfig>,
}

impl Trust {
    /// What a server with these settings is called with. Reads the files each time: a new link uses new certificates.
    pub(super) async fn client(&self, tls: &Tls) -> Result<ClientConfig, Failure> {
        if *tls == Tls::default() {
            let usual = async || build(self.roots().await?, tls.clone()).await;
            return self.usual.get_or_try_init(usual).await.cloned();
        }
        build(self.roots().await?, tls.clone()).await
    }

    async fn roots(&self) -> Result<Arc<RootCertStore>, Failure> {
        self.roots.get_or_try_init(|| blocking(|| Ok(Arc::new(machine_roots())))).await.cloned()
    }
}

/// For servers reached without TLS: trusts nobody and reads nothing.
pub(super) fn none() -> Result<ClientConfig, Failure> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions();
    Ok(builder.map_err(failed)?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Where the machine has no store (a bare container), Mozilla's list.
fn machine_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

async fn build(roots: Arc<RootCertStore>, tls: Tls) -> Result<ClientConfig, Failure> {
    blocking(move || {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let builder = if tls.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider())))
        } else if let Some(file) = &tls.ca {
            let mut roots = RootCertStore::clone(&roots);
            for certificate in certificates(file)? {
                roots.add(certificate).map_err(|error| unreadable(file, error))?;
            }
            builder.with_root_certificates(roots)
        } else {
            builder.with_root_certificates(roots)
        };
        match (&tls.cert, &tls.key) {
            (Some(cert), Some(key)) => {
                let chain = certificates(cert)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
                builder.with_client_auth_cert(chain, key).map_err(failed)
            }
            _ => Ok(builder.with_no_client_auth()),
        }
    })
    .await
}

fn certificates(file: &PathBuf) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(file, error));
    found.and_then(
        |found| if found.is_empty() { Err(unreadable(file, "holds no certificate")) } else { Ok(found) },
    )
}

/// Files are read and keys checked off the runtime's threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(failed(error)))
}

fn unreadable(file: &Path, why: impl std::fmt::Display) -> Failure {
    failed(format_args!("{}: {why}", file.display()))
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::Unreachable(format!("TLS settings: {why}"))
}

/// Takes any certificate, but still wants its key to have signed the handshake.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
