//! TLS with a certificate somebody has.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};

/// A certificate and its key, read and found to fit.
#[derive(Clone)]
pub struct Certificate(pub(crate) TlsAcceptor);

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is not there or holds something else.
    #[error("could not read `{path}`")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: pem::Error,
    },
    /// Certificate and key cannot be used.
    #[error("the certificate and its key cannot be used")]
    Unusable(#[from] tokio_rustls::rustls::Error),
}

impl Certificate {
    /// Reads a chain of certificates and a key, both as PEM.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::Unreadable { path, source }
        };
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(unreadable(chain))?;
        let key = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
        let config =
            ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}
