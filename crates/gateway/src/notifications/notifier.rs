//! The task that notices what is worth a message, and sends it to those who do not look.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journal::{Journal, Origin, RequestRecord, Seq, SessionId};
use push::{EndpointPolicy, Outbox, PushClient, PushEndpoint, VapidKey};
use tokio::time::Instant;
use tracing::{info, warn};
use uuid::Uuid;
use wire::note::{Note, TurnEnding};

use super::message::{EndedTurn, MessageSession, test_message};
use super::presence::VisiblePages;
use super::subscription_store::{
    StoredSubscription, SubscriptionOwner, SubscriptionStore, SubscriptionStoreError,
};
use crate::access::{Role, TokenStore};
use crate::api::{SessionList, SessionResponse};
use crate::config::{ProxyConfig, PushConfig};
use crate::gateway::now;

/// How many of the last entries of a session are searched for how its turn ended, and how much of
/// each is read.
const TAIL_ENTRIES: u64 = 64;
const TAIL_BYTES: usize = 256 << 10;
const TAIL_LINE_BYTES: usize = 16 << 10;

/// Sends messages to browsers that are not open. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Notifier(Arc<NotifierState>);

#[derive(Debug)]
struct NotifierState {
    outbox: Outbox,
    subscriptions: SubscriptionStore,
    presence: VisiblePages,
    tokens: Arc<TokenStore>,
    /// The role of users that a proxy signs in; none if there is no such proxy.
    proxy_role: Option<Role>,
    config: PushConfig,
}

/// What is known about a session.
#[derive(Debug, Default)]
struct KnownSession {
    last: u64,
    turn: u64,
    /// Whether its agent could not be started.
    failed: bool,
    /// Since when it works without a pause.
    busy_since: Option<Instant>,
    /// The ids of its open requests, oldest first.
    requests: Vec<String>,
    /// The request that notifications show, and where.
    shown: Option<(String, Vec<PushEndpoint>)>,
    /// What a spent budget asks, and where notifications show it.
    budget: Option<(String, Vec<PushEndpoint>)>,
}

impl Notifier {
    /// Opens the key and the subscriptions of a data directory; none if that is impossible, which is
    /// logged.
    pub(crate) fn open(
        data: &Path,
        config: PushConfig,
        tokens: Arc<TokenStore>,
        proxy: Option<&ProxyConfig>,
        presence: VisiblePages,
    ) -> Option<Self> {
        let key = VapidKey::open(&data.join("push.key"));
        let key = key.inspect_err(|error| warn!(%error, "there are no push messages")).ok()?;
        let client = PushClient::new(key, config.endpoints);
        let client =
            client.inspect_err(|error| warn!(%error, "there are no push messages")).ok()?;
        let subscriptions = SubscriptionStore::open(&data.join("push.json"), config.endpoints);
        let proxy_role = proxy.filter(|it| it.header.is_some()).map(|it| it.role);
        let outbox = Outbox::new(client);
        let state = NotifierState { outbox, subscriptions, presence, tokens, proxy_role, config };
        Some(Self(Arc::new(state)))
    }

    /// The key that browsers subscribe with.
    pub(crate) fn public_key(&self) -> &str {
        self.0.outbox.public_key()
    }

    pub(crate) fn endpoint_policy(&self) -> EndpointPolicy {
        self.0.config.endpoints
    }

    pub(crate) fn subscribe(&self, new: StoredSubscription) -> Result<(), SubscriptionStoreError> {
        self.0.subscriptions.add(new)
    }

    /// Removes a subscription of an owner. Returns whether there was one.
    pub(crate) fn unsubscribe(
        &self,
        endpoint: &PushEndpoint,
        owner: &SubscriptionOwner,
    ) -> Result<bool, SubscriptionStoreError> {
        let is_other =
            |it: &StoredSubscription| it.subscription.endpoint != *endpoint || it.owner != *owner;
        let found = !self.0.subscriptions.retain(is_other)?;
        if found {
            self.0.outbox.remove(endpoint);
        }
        Ok(found)
    }

    /// Sends a message to a subscription of an owner, even while a page is visible. Returns whether there is one.
    pub(crate) fn test(&self, endpoint: &PushEndpoint, owner: &SubscriptionOwner) -> bool {
        let found = self.0.subscriptions.find(endpoint, owner);
        let is_found = found.is_some();
        if let Some(found) = found {
            self.0.outbox.add(found.subscription, test_message());
        }
        is_found
    }

    /// Sends messages for as long as it is polled.
    pub(crate) async fn run(self, sessions: SessionList, journal: Journal) {
        let gone = |endpoint: &PushEndpoint| {
            info!(?endpoint, "a browser is not subscribed any more");
            self.keep(|it| it.subscription.endpoint != *endpoint);
        };
        tokio::join!(self.0.outbox.clone().run(gone), self.follow(&sessions, &journal));
    }

    /// Follows the sessions while a browser is subscribed.
    async fn follow(&self, sessions: &SessionList, journal: &Journal) {
        let mut count = self.0.subscriptions.count();
        let mut tokens = self.0.tokens.changes();
        loop {
            if count.wait_for(|it| *it > 0).await.is_err() {
                return;
            }
            self.remove_revoked();
            let mut lists = sessions.watch();
            let mut known = HashMap::new();
            match sessions.load().await {
                Ok(first) => self.learn(&mut known, &first, journal).await,
                Err(journal::Error::Closed) => return,
                Err(error) => warn!(%error, "the list of sessions could not be read"),
            }
            while *count.borrow_and_update() > 0 {
                tokio::select! {
                    changed = lists.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        let list = Arc::clone(&lists.borrow_and_update());
                        self.compare(&mut known, &list, journal).await;
                    }
                    changed = tokens.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        self.remove_revoked();
                    }
                    changed = count.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    /// What is there at the start is not news.
    async fn learn(
        &self,
        known: &mut HashMap<Uuid, KnownSession>,
        list: &[SessionResponse],
        journal: &Journal,
    ) {
        for session in list {
            let mut requests = Vec::new();
            if session.requests > 0 {
                let open = open_requests(journal, session.id).await.unwrap_or_default();
                requests.extend(open.into_iter().map(|it| it.id));
            }
            let busy_since = session.is_busy().then(Instant::now);
            let session_before = KnownSession {
                last: session.last,
                turn: session.turn,
                failed: session.has_failed(),
                busy_since,
                requests,
                shown: None,
                budget: session.budget_question.clone().map(|it| (it, Vec::new())),
            };
            known.insert(session.id, session_before);
        }
    }

    async fn compare(
        &self,
        known: &mut HashMap<Uuid, KnownSession>,
        list: &[SessionResponse],
        journal: &Journal,
    ) {
        let waiting = list.iter().filter(|it| it.needs_person()).count();
        for session in list {
            let before = known.entry(session.id).or_default();
            let about = MessageSession { id: session.id, title: session.title.as_deref(), waiting };
            if session.requests > 0 || !before.requests.is_empty() {
                let is_same =
                    session.last == before.last && session.requests == before.requests.len();
                if !is_same {
                    self.compare_requests(before, about, session, journal).await;
                }
            }
            // A turn may end before it is seen to run.
            let is_news = session.turn > before.turn || (session.has_failed() && !before.failed);
            if session.is_busy() {
                before.busy_since.get_or_insert_with(Instant::now);
            } else if before.busy_since.is_some() || is_news {
                let took = before.busy_since.take().map(|it| it.elapsed()).unwrap_or_default();
                self.announce_turn(about, session, took, journal).await;
            }
            // After the end of the turn that spent it, whose notification it replaces.
            self.compare_budget(before, about, session);
            before.failed = session.has_failed();
            (before.last, before.turn) = (session.last, session.turn);
        }
        known.retain(|id, before| {
            let exists = list.iter().any(|it| it.id == *id);
            if !exists && let Some((_, shown)) = before.shown.take() {
                self.close(MessageSession { id: *id, title: None, waiting }, &shown);
            }
            exists
        });
    }

    /// Shows what a spent budget asks, and closes that once it is answered.
    fn compare_budget(
        &self,
        before: &mut KnownSession,
        about: MessageSession<'_>,
        session: &SessionResponse,
    ) {
        let known = before.budget.as_ref().map(|it| &it.0);
        if known == session.budget_question.as_ref() {
            return;
        }
        if let Some((_, shown)) = before.budget.take() {
            self.close(about, &shown);
        }
        let Some(question) = session.budget_question.clone() else { return };
        let mut shown = Vec::new();
        for (subscription, _) in self.absent() {
            shown.push(subscription.subscription.endpoint.clone());
            self.0.outbox.add(subscription.subscription, about.budget(&question));
        }
        before.budget = Some((question, shown));
    }

    /// Shows a new request, and closes what shows one that was answered.
    async fn compare_requests(
        &self,
        before: &mut KnownSession,
        about: MessageSession<'_>,
        session: &SessionResponse,
        journal: &Journal,
    ) {
        let open = if session.requests > 0 {
            match open_requests(journal, session.id).await {
                Ok(open) => open,
                Err(error) => {
                    warn!(%error, "the open requests could not be read");
                    return;
                }
            }
        } else {
            Vec::new()
        };
        let is_new = |it: &&RequestRecord| !before.requests.contains(&it.id);
        let newest = open.iter().rev().find(is_new);
        if let Some(request) = newest {
            let shown = self.announce_request(about, request, None);
            // Where a notification is replaced it needs not be closed.
            let older = before.shown.take().map(|it| it.1).unwrap_or_default();
            let stale: Vec<_> = older.into_iter().filter(|it| !shown.contains(it)).collect();
            self.close(about, &stale);
            before.shown = (!shown.is_empty()).then(|| (request.id.clone(), shown));
        } else if let Some((id, shown)) = before.shown.take() {
            if open.iter().any(|it| it.id == id) {
                before.shown = Some((id, shown));
            } else {
                // Another request of the session may still wait.
                let next = open.first();
                let replaced = next.map(|it| self.announce_request(about, it, Some(&shown)));
                let replaced = replaced.unwrap_or_default();
                let stale: Vec<_> = shown.into_iter().filter(|it| !replaced.contains(it)).collect();
                self.close(about, &stale);
                before.shown =
                    next.map(|it| (it.id.clone(), replaced)).filter(|it| !it.1.is_empty());
            }
        }
        before.requests = open.into_iter().map(|it| it.id).collect();
    }

    /// Sends a request to those who do not look, or to some of them. Returns where it is shown.
    fn announce_request(
        &self,
        about: MessageSession<'_>,
        request: &RequestRecord,
        only: Option<&[PushEndpoint]>,
    ) -> Vec<PushEndpoint> {
        let now = now();
        let mut shown = Vec::new();
        for (subscription, role) in self.absent() {
            let endpoint = subscription.subscription.endpoint.clone();
            if only.is_some_and(|only| !only.contains(&endpoint)) {
                continue;
            }
            self.0.outbox.add(subscription.subscription, about.request(request, role, now));
            shown.push(endpoint);
        }
        shown
    }

    async fn announce_turn(
        &self,
        about: MessageSession<'_>,
        session: &SessionResponse,
        took: Duration,
        journal: &Journal,
    ) {
        let absent = self.absent();
        if absent.is_empty() {
            return;
        }
        let result = if session.has_failed() {
            EndedTurn::Failed
        } else {
            turn_result(journal, session).await
        };
        let is_worth_it = match result {
            EndedTurn::Completed => took >= self.0.config.notify_after,
            EndedTurn::Failed => true,
            EndedTurn::Interrupted => false,
        };
        for (subscription, _) in absent.into_iter().filter(|_| is_worth_it) {
            self.0.outbox.add(subscription.subscription, about.turn(result, took));
        }
    }

    /// Closes the notifications of a session.
    fn close(&self, about: MessageSession<'_>, shown: &[PushEndpoint]) {
        let topic = about.topic();
        for stored in self.0.subscriptions.all() {
            let endpoint = &stored.subscription.endpoint;
            if !shown.contains(endpoint) {
                continue;
            }
            // What was not sent yet needs no second message.
            let was_waiting = self.0.outbox.cancel(endpoint, &topic);
            if !was_waiting && !endpoint.must_show_every_message() {
                self.0.outbox.add(stored.subscription, about.resolved());
            }
        }
    }

    /// The subscriptions of users who look at no page, with the roles of their owners.
    fn absent(&self) -> Vec<(StoredSubscription, Role)> {
        let absent = self.0.subscriptions.all().into_iter();
        let absent = absent.filter(|it| !self.0.presence.is_looking(&it.owner.name));
        absent.filter_map(|it| self.role(&it.owner).map(|role| (it, role))).collect()
    }

    /// The role of an owner; none if its token or cookie was revoked.
    fn role(&self, owner: &SubscriptionOwner) -> Option<Role> {
        match &owner.digest {
            None => self.0.proxy_role,
            Some(digest) => match self.0.tokens.find_digest(digest, now()) {
                Ok(found) => found.map(|it| it.role),
                Err(error) => {
                    warn!(%error, "the access tokens could not be read");
                    None
                }
            },
        }
    }

    fn remove_revoked(&self) {
        self.keep(|it| self.role(&it.owner).is_some());
    }

    fn keep(&self, keep: impl Fn(&StoredSubscription) -> bool) {
        if let Err(error) = self.0.subscriptions.retain(keep) {
            warn!(%error, "a subscription could not be removed");
        }
    }
}

async fn open_requests(
    journal: &Journal,
    session: Uuid,
) -> Result<Vec<RequestRecord>, journal::Error> {
    let open = journal.open_requests(Some(SessionId(session))).await?;
    Ok(open.into_iter().map(|(_, record)| record).collect())
}

/// How the last turn of a session ended, from its last entries.
async fn turn_result(journal: &Journal, session: &SessionResponse) -> EndedTurn {
    let (id, after) = (SessionId(session.id), Seq(session.last.saturating_sub(TAIL_ENTRIES)));
    let most = usize::try_from(TAIL_ENTRIES).unwrap_or(usize::MAX);
    let tail = journal.read_within(id, after, most, TAIL_BYTES, TAIL_LINE_BYTES).await;
    let tail = tail.unwrap_or_default();
    let notes = tail.iter().rev().filter(|it| it.origin == Origin::Towpath);
    let ending = notes.filter_map(|it| Note::read(&it.bytes)).find_map(|note| match note {
        Note::TurnEnded { ending, .. } => Some(ending),
        _ => None,
    });
    match ending {
        Some(TurnEnding::Failed { .. } | TurnEnding::Aborted { .. }) => EndedTurn::Failed,
        Some(TurnEnding::Interrupted) => EndedTurn::Interrupted,
        Some(TurnEnding::Completed) | None => EndedTurn::Completed,
    }
}
