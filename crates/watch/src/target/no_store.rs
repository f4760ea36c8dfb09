//! Takes the place of `store` in a build without the feature `object-store`.

use super::http::shown;
use super::{TargetError, Trouble};
use crate::place::Placed;
use crate::source::Source;
use reqwest::Url;

/// An object store, of which there is none in this build.
#[derive(Debug)]
pub enum StoreTarget {}

#[expect(clippy::unused_async, reason = "the same signatures as with the feature")]
impl StoreTarget {
    /// Fails: the error says how to build with support for object stores.
    pub fn new(address: &str, _options: &[(String, String)]) -> Result<Self, TargetError> {
        let url = Url::parse(address).map_err(|_| TargetError::Address(address.to_owned()))?;
        Err(TargetError::NoObjectStores(shown(&url)))
    }

    pub(super) fn name(&self) -> &str {
        match *self {}
    }

    pub(super) async fn write(&self, _file: &Placed, _source: Source) -> Result<(), Trouble> {
        match *self {}
    }

    pub(super) async fn delete(&self, _file: &Placed) -> Result<(), Trouble> {
        match *self {}
    }
}
