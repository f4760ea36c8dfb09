//! Object stores: S3 and compatible ones, Google Cloud Storage, Azure.
//!
//! Small files are uploaded in one request, large ones in parts. Either way an object appears only when
//! it is complete.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig, WriteMultipart,
    parse_url_opts,
};
use reqwest::Url;

use super::http::{not_utf8, without_secrets};
use super::{PushError, TargetError};
use crate::files::SourceFile;
use crate::project::ProjectFile;

/// The size of a part, and of the largest file that is uploaded in one request. Stores refuse smaller
/// parts.
const PART_SIZE: usize = 5 << 20;

/// How many parts are uploaded at a time.
const CONCURRENT_PARTS: usize = 2;

/// An object store.
#[derive(Debug)]
pub struct StoreTarget {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    name: String,
}

impl StoreTarget {
    /// The store at an address like `s3://bucket/prefix`. The options have the names of the vendors'
    /// environment variables.
    pub fn new(address: &str, options: &[(String, String)]) -> Result<Self, TargetError> {
        let url = Url::parse(address).map_err(|_| TargetError::Address(address.to_owned()))?;
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let error = |source: Error| TargetError::Store {
            address: without_secrets(&url),
            source: source.into(),
        };
        let (store, prefix) = if matches!(url.scheme(), "s3" | "s3a") {
            let prefix = Path::from_url_path(url.path()).map_err(|it| error(it.into()))?;
            // The delivery worker retries, and logs it.
            let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
            let mut builder = AmazonS3Builder::new().with_url(address).with_retry(retry);
            for (name, value) in options {
                if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            let store = builder.build().map_err(error)?;
            (Box::new(store) as Box<dyn ObjectStore>, prefix)
        } else {
            let options = options.iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
            parse_url_opts(&url, options).map_err(error)?
        };
        Ok(Self { store, prefix, name: without_secrets(&url) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) async fn write(
        &self,
        file: &ProjectFile,
        mut source: SourceFile,
    ) -> Result<(), PushError> {
        let location = self.location(file)?;
        if source.version().length <= PART_SIZE as u64 {
            let mut chunks = Vec::new();
            while let Some(chunk) = source.chunk().await? {
                chunks.push(chunk);
            }
            let payload: PutPayload = chunks.into_iter().collect();
            self.store.put(&location, payload).await.map_err(push_error)?;
            return Ok(());
        }
        let upload = self.store.put_multipart(&location).await.map_err(push_error)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_SIZE);
        while let Some(chunk) = source.chunk().await? {
            upload.wait_for_capacity(CONCURRENT_PARTS).await.map_err(push_error)?;
            upload.put(chunk);
        }
        upload.finish().await.map_err(push_error)?;
        Ok(())
    }

    pub(super) async fn delete(&self, file: &ProjectFile) -> Result<(), PushError> {
        match self.store.delete(&self.location(file)?).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(push_error(error)),
        }
    }

    /// The location of a file. `Path::from` would change some names, so the path is parsed instead.
    fn location(&self, file: &ProjectFile) -> Result<Path, PushError> {
        let mut parts: Vec<&str> = self.prefix.as_ref().split('/').collect();
        for part in file.relative.components() {
            parts.push(part.as_os_str().to_str().ok_or_else(not_utf8)?);
        }
        Path::parse(parts.join("/")).map_err(|error| PushError::Permanent(error.to_string()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn push_error(error: Error) -> PushError {
    let mut text = error.to_string();
    if text.len() > 300 {
        text.truncate(text.floor_char_boundary(300));
        text.push('…');
    }
    match error {
        Error::NotFound { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::UnknownConfigurationKey { .. } => PushError::Permanent(text),
        _ => PushError::Temporary(text),
    }
}
