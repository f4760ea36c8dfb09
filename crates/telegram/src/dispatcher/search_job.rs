//! The job of `/search`.

use std::time::Duration;

use search::{Search, SearchRequest, SearchScope};
use tokio::time::timeout;
use tracing::warn;

use super::job::{JobContext, JobResult};
use crate::replies;

/// How many results fit into a message.
const RESULTS: usize = 6;

/// How long the index may take to be brought up to date. Then what is indexed is searched.
const INDEXING_TIME: Duration = Duration::from_secs(3);

impl JobContext {
    /// Searches all sessions below the roots.
    pub(super) async fn search(&self, text: Option<&str>) -> JobResult {
        let Some(text) = text else { return JobResult::reply(replies::search_usage()) };
        let search = Search::new(self.sessions.clone());
        if let Ok(Err(error)) = timeout(INDEXING_TIME, search.update()).await {
            warn!(%error, "the search index could not be brought up to date");
        }
        let scope = SearchScope { roots: Some(self.roots.clone()), directory: None };
        let request = SearchRequest { text: text.to_owned(), scope, limit: RESULTS, after: None };
        match search.find_enough(request).await {
            Ok(page) => {
                let now = self.clock.unix_millis();
                JobResult::reply(replies::search_results(&page, &self.roots, now))
            }
            Err(error) => {
                warn!(%error, "the sessions could not be searched");
                JobResult::reply(replies::search_failed())
            }
        }
    }
}
