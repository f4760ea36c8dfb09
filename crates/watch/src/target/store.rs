//! Object stores: S3 and what speaks like it, Google's, Azure's.
//!
//! Small files go in one request, large ones in parts; either way nobody sees half an object.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig, WriteMultipart,
    parse_url_opts,
};
use reqwest::Url;

use super::http::{not_text, shown};
use super::{BadTarget, PushError};
use crate::project::ProjectFile;
use crate::source_file::SourceFile;

/// The longest file that goes in one request, and the size of a part of a longer one. Stores refuse
/// parts smaller than this.
const PART: usize = 5 << 20;

/// Parts on their way at a time.
const PARTS: usize = 2;

/// The store.
#[derive(Debug)]
pub struct StoreTarget {
    store: Box<dyn ObjectStore>,
    prefix: Path,
    name: String,
}

impl StoreTarget {
    /// The store at an address like `s3://bucket/prefix`, with options named as the vendors' own
    /// environment variables are.
    pub fn new(address: &str, options: &[(String, String)]) -> Result<Self, BadTarget> {
        let url = Url::parse(address).map_err(|_| BadTarget::Address(address.to_owned()))?;
        let unusable = |source| BadTarget::Store { address: shown(&url), source };
        let (store, prefix) = if matches!(url.scheme(), "s3" | "s3a") {
            let prefix = Path::from_url_path(url.path()).map_err(|it| unusable(it.into()))?;
            // Retrying is the delivery_worker's, which also tells of it.
            let retry = RetryConfig { max_retries: 0, ..RetryConfig::default() };
            let mut builder = AmazonS3Builder::new().with_url(address).with_retry(retry);
            for (name, value) in options {
                if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
                    builder = builder.with_config(key, value);
                }
            }
            let store = builder.build().map_err(unusable)?;
            (Box::new(store) as Box<dyn ObjectStore>, prefix)
        } else {
            let options = options.iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
            parse_url_opts(&url, options).map_err(unusable)?
        };
        Ok(Self { store, prefix, name: shown(&url) })
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
        if source.version().length <= PART as u64 {
            let mut pieces = Vec::new();
            while let Some(piece) = source.piece().await? {
                pieces.push(piece);
            }
            let payload: PutPayload = pieces.into_iter().collect();
            self.store.put(&location, payload).await.map_err(trouble)?;
            return Ok(());
        }
        let upload = self.store.put_multipart(&location).await.map_err(trouble)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        while let Some(piece) = source.piece().await? {
            upload.wait_for_capacity(PARTS).await.map_err(trouble)?;
            upload.put(piece);
        }
        upload.finish().await.map_err(trouble)?;
        Ok(())
    }

    pub(super) async fn delete(&self, file: &ProjectFile) -> Result<(), PushError> {
        match self.store.delete(&self.location(file)?).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(trouble(error)),
        }
    }

    /// Where the file goes. Names stay as they are, which `Path::from` would not leave them.
    fn location(&self, file: &ProjectFile) -> Result<Path, PushError> {
        let mut parts: Vec<&str> = self.prefix.as_ref().split('/').collect();
        for part in file.relative.components() {
            parts.push(part.as_os_str().to_str().ok_or_else(not_text)?);
        }
        Path::parse(parts.join("/")).map_err(|error| PushError::Permanent(error.to_string()))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn trouble(error: Error) -> PushError {
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
