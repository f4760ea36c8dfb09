//! Sessions, as they are sent.

use journal::{SessionRecord, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use wire::note::WatchWish;

use super::wish::ShownWish;

/// A session as a list shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownSession {
    /// Its id, which never changes.
    pub id: Uuid,
    /// What it is called: its name, or the first words of its first prompt.
    pub title: Option<String>,
    /// Where the agent works.
    pub cwd: String,
    /// What it does.
    #[schema(value_type = String)]
    pub status: Status,
    /// Where a list puts it.
    pub tier: Tier,
    /// The model it was told to use.
    pub model: Option<String>,
    /// The permission mode it was told to use.
    pub mode: Option<String>,
    /// How hard it was told to think.
    pub effort: Option<String>,
    /// What is done with the files its agent changes.
    pub watch: Option<ShownWish>,
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// When something last happened.
    pub active: u64,
    /// The number of its last entry.
    pub last: u64,
    /// The number of its last turn.
    pub turn: u64,
    /// The agent's own ids of it, oldest first.
    pub agent_ids: Vec<String>,
    /// How many requests wait for a person.
    pub requests: usize,
}

/// Where a list puts a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A person has to do something.
    NeedsYou,
    /// The agent works.
    Running,
    /// Nothing happens.
    Idle,
}

/// The options of a session that a list shows.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Wanted {
    model: Option<String>,
    effort: Option<String>,
    permission_mode: Option<String>,
    watch: Option<WatchWish>,
}

impl ShownSession {
    /// A session with so many open requests.
    pub(crate) fn new(record: &SessionRecord, first_words: Option<&str>, requests: usize) -> Self {
        let wanted: Wanted = serde_json::from_str(&record.options).unwrap_or_default();
        let tier = match record.status {
            Status::Waiting => Tier::NeedsYou,
            _ if requests > 0 => Tier::NeedsYou,
            Status::Running => Tier::Running,
            Status::Idle | Status::Dead | Status::Failed => Tier::Idle,
        };
        Self {
            id: record.id.0,
            title: record.title.clone().or_else(|| first_words.map(str::to_owned)),
            cwd: record.directory.to_string_lossy().into_owned(),
            status: record.status,
            tier,
            model: wanted.model,
            mode: wanted.permission_mode,
            effort: wanted.effort,
            watch: wanted.watch.map(ShownWish::from),
            created: record.created,
            active: record.active,
            last: record.last.0,
            turn: record.turn,
            agent_ids: record.agent_ids.clone(),
            requests,
        }
    }
}
