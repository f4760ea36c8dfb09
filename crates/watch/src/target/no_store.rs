//! Replaces `store` in a build without the feature `object-store`.

use reqwest::Url;

use super::http::without_secrets;
use super::{PushError, TargetError};
use crate::files::SourceFile;
use crate::project::ProjectFile;

/// An object store. There are none in this build.
#[derive(Debug)]
pub enum StoreTarget {}

#[expect(clippy::unused_async, reason = "the same signatures as with the feature")]
impl StoreTarget {
    /// Fails with an error that says how to build with support for object stores.
    pub fn new(address: &str, _options: &[(String, String)]) -> Result<Self, TargetError> {
        let url = Url::parse(address).map_err(|_| TargetError::Address(address.to_owned()))?;
        Err(TargetError::NoObjectStores(without_secrets(&url)))
    }

    pub(super) fn name(&self) -> &str {
        match *self {}
    }

    pub(super) async fn write(
        &self,
        _file: &ProjectFile,
        _source: SourceFile,
    ) -> Result<(), PushError> {
        match *self {}
    }

    pub(super) async fn delete(&self, _file: &ProjectFile) -> Result<(), PushError> {
        match *self {}
    }
}
