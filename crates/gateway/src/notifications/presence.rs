//! Who looks at a page right now.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// For how long a report counts. Visible pages repeat it every 30 seconds, and a phone that loses its
/// network does not say so.
const REPORT_LIFETIME: Duration = Duration::from_secs(90);

/// The users that look at a page. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct VisiblePages(Arc<Mutex<PresentPages>>);

#[derive(Debug, Default)]
struct PresentPages {
    next: u64,
    /// The user of each connected page, and when it last reported to be visible.
    pages: HashMap<u64, (String, Option<Instant>)>,
}

/// A connected page. It is forgotten when this is dropped.
#[derive(Debug)]
pub(crate) struct PresenceGuard {
    presence: VisiblePages,
    page: u64,
}

impl VisiblePages {
    /// Adds a page of a user, which is not visible until it says so.
    pub(crate) fn enter(&self, user: &str) -> PresenceGuard {
        let mut pages = self.pages();
        let page = pages.next;
        pages.next += 1;
        pages.pages.insert(page, (user.to_owned(), None));
        PresenceGuard { presence: self.clone(), page }
    }

    /// Whether a page of a user is visible.
    pub(crate) fn is_looking(&self, user: &str) -> bool {
        let is_fresh = |it: Instant| it.elapsed() < REPORT_LIFETIME;
        self.pages().pages.values().any(|(name, seen)| name == user && seen.is_some_and(is_fresh))
    }

    fn pages(&self) -> MutexGuard<'_, PresentPages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PresenceGuard {
    /// Records whether the page is visible.
    pub(crate) fn report(&self, visible: bool) {
        if let Some((_, seen)) = self.presence.pages().pages.get_mut(&self.page) {
            *seen = visible.then(Instant::now);
        }
    }
}

impl Drop for PresenceGuard {
    fn drop(&mut self) {
        self.presence.pages().pages.remove(&self.page);
    }
}

#[cfg(test)]
mod tests {
    use super::{REPORT_LIFETIME, VisiblePages};

    #[tokio::test(start_paused = true)]
    async fn a_user_looks_while_one_of_their_pages_is_connected_visible_and_reports_it() {
        let presence = VisiblePages::default();
        let (desk, phone) = (presence.enter("ann"), presence.enter("ann"));
        assert!(!presence.is_looking("ann"), "none has reported");
        desk.report(true);
        phone.report(false);
        assert!(presence.is_looking("ann") && !presence.is_looking("bob"));
        tokio::time::advance(REPORT_LIFETIME).await;
        assert!(!presence.is_looking("ann"), "nothing was heard of it");
        phone.report(true);
        assert!(presence.is_looking("ann"));
        drop(phone);
        assert!(!presence.is_looking("ann"));
    }
}
