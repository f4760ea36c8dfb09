//! Files that are fetched.

use reqwest::{Response, StatusCode};
use serde::Deserialize;
use serde_json::json;

use super::{Bot, CALLING, CARRYING, Inner, Trouble, in_words, no_answer};
use crate::call::Failure;

/// Why there are no bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotFetched {
    /// There are more than there may be.
    TooLarge,
    /// It failed.
    Failed(Trouble),
}

impl Bot {
    /// The bytes of a file, up to so many.
    pub(crate) async fn fetch(&self, file: &str, most: usize) -> Result<Vec<u8>, NotFetched> {
        #[derive(Deserialize)]
        struct Found {
            #[serde(default)]
            file_path: Option<String>,
        }
        let found: Result<Found, _> =
            self.ask("getFile", &json!({ "file_id": file }), CALLING).await;
        let found = found.map_err(|trouble| match trouble {
            Trouble::Failure(Failure::Refused(why)) if why.contains("too big") => {
                NotFetched::TooLarge
            }
            trouble => NotFetched::Failed(trouble),
        })?;
        let refused = |why: &str| NotFetched::Failed(Failure::Refused(why.to_owned()).into());
        let path = found.file_path.ok_or_else(|| refused("a file without a path"))?;
        if path.starts_with('/') || path.contains(['?', '#', '\\']) || path.contains("..") {
            // A server of one's own in local mode names a file on its own disk.
            return Err(refused("a path that is not to be fetched"));
        }
        let Inner { http, api, token } = &*self.0;
        let address = format!("{}/file/bot{}/{path}", api.base(), token.reveal());
        let response = http.get(address).timeout(CARRYING).send().await;
        let response = response.map_err(|it| NotFetched::Failed(no_answer(it).into()))?;
        match response.status() {
            StatusCode::OK => body(response, most).await,
            status => Err(refused(&format!("the file could not be had, {status}"))),
        }
    }
}

/// A body, up to so many bytes.
pub(super) async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, NotFetched> {
    let mut bytes = Vec::new();
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(bytes),
            Ok(Some(chunk)) if bytes.len() + chunk.len() <= most => bytes.extend_from_slice(&chunk),
            Ok(Some(_)) => return Err(NotFetched::TooLarge),
            Err(error) => return Err(NotFetched::Failed(Failure::Unknown(in_words(error)).into())),
        }
    }
}
