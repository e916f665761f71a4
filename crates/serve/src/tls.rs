//! Settings of TLS, for the server and its client.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest as _, Sha256};

use crate::error::ServeError;
use crate::identity::hex;
use crate::settings::TlsFiles;

/// Settings of the server.
///
/// - `client_ca`: authority of the certificates that clients must have.
pub(crate) fn server(files: &TlsFiles, client_ca: Option<&Path>) -> Result<Arc<ServerConfig>, ServeError> {
    let chain = certificates(&files.cert)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| wrong(&files.key, &e))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(|e| unfit(&e))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|e| wrong(path, &e))?)
        }
    };
    let mut config = builder.with_single_cert(chain, key).map_err(|e| unfit(&e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Settings of a client.
///
/// - `ca`: authority of the server's certificate; `None` for those of this machine.
pub(crate) fn client(ca: Option<&Path>) -> Result<Arc<ClientConfig>, ServeError> {
    let roots = if let Some(path) = ca {
        roots(path)?
    } else {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|e| unfit(&e))?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// Name of a client certificate: the beginning of its SHA-256.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    hex(&Sha256::digest(certificate)[..8])
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let read = CertificateDer::pem_file_iter(path).map_err(|e| wrong(path, &e))?;
    let all: Vec<_> = read.collect::<Result<_, _>>().map_err(|e| wrong(path, &e))?;
    if all.is_empty() { Err(wrong(path, &"it has no certificate")) } else { Ok(all) }
}

fn roots(path: &Path) -> Result<RootCertStore, ServeError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|e| wrong(path, &e))?;
    }
    Ok(roots)
}

fn wrong(path: &Path, why: &dyn std::fmt::Display) -> ServeError {
    ServeError::Credential { path: path.to_owned(), why: why.to_string() }
}

fn unfit(why: &dyn std::fmt::Display) -> ServeError {
    ServeError::Tls { why: why.to_string() }
}
