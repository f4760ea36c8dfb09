//! Messages to browsers that are not open: when an agent waits for a person, and when a long turn has
//! ended.
//!
//! ```text
//!  session list ── what changed ── who is subscribed, and looks at no page ── message ── push
//! ```
//!
//! One task does this for all sessions, and only while a browser is subscribed.

mod message;
mod notifier;
mod presence;
mod subscription_store;

pub(crate) use notifier::Notifier;
pub(crate) use presence::{PresenceGuard, VisiblePages};
pub(crate) use subscription_store::{
    StoredSubscription, SubscriptionOwner, SubscriptionStoreError,
};
