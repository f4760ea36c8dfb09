//! Cost and tokens by day, session and model.
//!
//! Each session is folded once, and then further from where the last query ended.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use journal::{Entry, Journal, Origin, Seq, SessionId};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;
use view::{Fold, Patch, PlanLimit, Revision, TokenCounts, Turn};

use super::conversation::{PlanLimitResponse, TokenCountsResponse, read_entries};
use super::extract::QueryParams;
use super::tag;
use crate::gateway::{Gateway, now};
use crate::live::push;
use crate::problem::{ApiResult, Problem};

/// The items of the document are not needed here.
const DOCUMENT_BYTES: usize = 64 << 10;

/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// How many sessions are cached between queries.
const MAX_CACHED_SESSIONS: usize = 64;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct UsageQuery {
    /// How many days, including today.
    #[serde(default = "default_days")]
    #[param(minimum = 1, maximum = 3650)]
    days: u32,
}

fn default_days() -> u32 {
    30
}

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsageTableResponse {
    /// One row for each day, session and model, oldest first.
    days: Vec<UsageRow>,
    /// What all sessions have cost today (in UTC), in dollars, including deleted ones.
    today: f64,
    /// How many dollars all sessions may cost on a day before queued prompts wait.
    budget_per_day: Option<f64>,
    /// The windows of the plan, as an agent reported each of them last.
    windows: Vec<PlanWindowResponse>,
}

/// A window of a subscription.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PlanWindow)]
pub(super) struct PlanWindowResponse {
    #[serde(flatten)]
    limit: PlanLimitResponse,
    /// When it was reported, in milliseconds since 1970.
    at: u64,
    /// The session whose agent reported it.
    session: Uuid,
    /// Its title.
    title: Option<String>,
}

/// The usage of a model in a session on a day.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct UsageRow {
    /// The day in UTC, as `2026-01-31`.
    day: String,
    session: Uuid,
    title: Option<String>,
    model: Option<String>,
    /// Dollars, as far as the agent reports them.
    cost: Option<f64>,
    turns: u64,
    tokens: TokenCountsResponse,
}

#[utoipa::path(get, path = "/usage", tag = tag::USAGE, params(UsageQuery), responses((status = 200, body = UsageTableResponse)))]
/// Cost and tokens by day, session and model.
pub(super) async fn usage(
    State(gateway): State<Gateway>,
    QueryParams(UsageQuery { days }): QueryParams<UsageQuery>,
) -> ApiResult<Json<UsageTableResponse>> {
    if !(1..=3650).contains(&days) {
        return Err(Problem::invalid("`days` must be between 1 and 3650"));
    }
    let first = day_of(now()).saturating_sub((i64::from(days) - 1).days());
    let mut rows: BTreeMap<(Date, Uuid, Option<String>), UsageRow> = BTreeMap::new();
    let mut windows: BTreeMap<String, PlanWindowResponse> = BTreeMap::new();
    for session in gateway.session_list.load().await? {
        if day_of(session.active) < first {
            continue;
        }
        let journal = gateway.sessions.journal();
        let used = gateway.usage.of_session(journal, SessionId(session.id)).await;
        let (turns, reported) = match used {
            Ok(used) => used,
            // It was deleted just now.
            Err(journal::Error::NoSuchSession(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        for (at, limit) in reported {
            let Some(name) = limit.window.clone() else { continue };
            if windows.get(&name).is_none_or(|known| known.at < at) {
                let (id, title) = (session.id, session.title.clone());
                let limit = limit.into();
                windows.insert(name, PlanWindowResponse { limit, at, session: id, title });
            }
        }
        for turn in turns.into_iter().filter(TurnUsage::is_billed) {
            let day = day_of(turn.at);
            if day < first {
                continue;
            }
            let row = rows.entry((day, session.id, turn.model.clone())).or_default();
            row.day = day.to_string();
            row.session = session.id;
            row.title.clone_from(&session.title);
            row.model = turn.model;
            row.turns += 1;
            if let Some(cost) = turn.cost {
                row.cost = Some(row.cost.unwrap_or(0.0) + cost);
            }
            row.tokens.input += turn.tokens.input;
            row.tokens.output += turn.tokens.output;
            row.tokens.cache_read += turn.tokens.cache_read;
            row.tokens.cache_write += turn.tokens.cache_write;
        }
    }
    Ok(Json(UsageTableResponse {
        days: rows.into_values().collect(),
        today: gateway.sessions.journal().cost_of_day(now() / DAY).await?,
        budget_per_day: gateway.sessions.config().limits.budget_per_day,
        windows: windows.into_values().collect(),
    }))
}

/// The day in UTC of a time in milliseconds since 1970.
fn day_of(milliseconds: u64) -> Date {
    let time = i64::try_from(milliseconds).ok().and_then(|it| Timestamp::from_millisecond(it).ok());
    time.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC).date()
}

/// The usage of sessions, cached between queries.
#[derive(Debug, Default)]
pub(crate) struct UsageCache(Mutex<BTreeMap<SessionId, SessionUsageFold>>);

/// The usage of a session so far.
#[derive(Debug)]
struct SessionUsageFold {
    fold: Fold,
    /// The last entry that was read.
    cursor: Seq,
    /// Turns by number.
    turns: BTreeMap<u64, TurnUsage>,
    revision: Revision,
    /// The windows of the plan, and when each was reported.
    windows: Vec<(u64, PlanLimit)>,
}

#[derive(Clone, Debug, PartialEq)]
struct TurnUsage {
    /// When it ended, or started while it runs.
    at: u64,
    model: Option<String>,
    tokens: TokenCounts,
    cost: Option<f64>,
}

impl UsageCache {
    /// The usage of each turn of a session, and the windows of the plan that its agent reported.
    async fn of_session(
        &self,
        journal: &Journal,
        session: SessionId,
    ) -> Result<(Vec<TurnUsage>, Vec<(u64, PlanLimit)>), journal::Error> {
        let mut sessions = self.0.lock().await;
        if sessions.len() >= MAX_CACHED_SESSIONS && !sessions.contains_key(&session) {
            sessions.clear();
        }
        let usage = sessions.entry(session).or_insert_with(|| SessionUsageFold {
            fold: Fold::with_budget(DOCUMENT_BYTES),
            cursor: Seq(0),
            turns: BTreeMap::new(),
            revision: Revision(0),
            windows: Vec::new(),
        });
        loop {
            let entries = read_entries(journal, session, usage.cursor).await?;
            let Some(last) = entries.last() else { break };
            usage.cursor = last.seq;
            for entry in &entries {
                usage.push(entry);
            }
        }
        usage.update_turns();
        Ok((usage.turns.values().cloned().collect(), usage.windows.clone()))
    }
}

impl SessionUsageFold {
    fn push(&mut self, entry: &Entry) {
        push(&mut self.fold, entry);
        // Such a line is short. The windows of other lines are not newer for it.
        let head = &entry.bytes[..entry.bytes.len().min(4096)];
        let name = b"\"rate_limit_event\"";
        if entry.origin == Origin::Agent && head.windows(name.len()).any(|it| it == name) {
            self.update_windows(entry.at);
        }
        // A turn counts for the model that is set when it ends, so turns are updated at each end.
        let may_end_turn =
            entry.origin == Origin::Towpath || entry.bytes.windows(8).any(|it| it == b"\"result\"");
        if may_end_turn && entry.bytes.len() < (1 << 20) {
            self.update_turns();
        }
    }

    /// Versions before 2.1.325 report one window at a time: the others are as old as before.
    fn update_windows(&mut self, at: u64) {
        let usage = self.fold.conversation(0).usage;
        let reported = usage.plan.and_then(|it| it.window);
        let known = std::mem::take(&mut self.windows);
        self.windows.extend(usage.windows.into_iter().map(|window| {
            let same = known.iter().find(|it| it.1 == window && it.1.window != reported);
            (same.map_or(at, |it| it.0), window)
        }));
    }

    fn update_turns(&mut self) {
        let turns: Vec<Turn> = match self.fold.patches(self.revision) {
            Some(update) => update
                .patches
                .into_iter()
                .filter_map(|it| if let Patch::Turn { turn } = it { Some(*turn) } else { None })
                .collect(),
            None => self.fold.conversation(0).turns,
        };
        self.revision = self.fold.revision();
        if turns.is_empty() {
            return;
        }
        let model = self.fold.conversation(0).head.model;
        // What was imported was not spent through Towpath.
        for turn in turns.into_iter().filter(|turn| !turn.imported) {
            let ended = turn.end.as_ref().and_then(|it| it.at);
            let usage = TurnUsage {
                at: ended.or(turn.started).unwrap_or(0),
                model: model.clone(),
                tokens: turn.tokens,
                cost: turn.cost,
            };
            match self.turns.get_mut(&turn.number) {
                // A model that is set after the end of a turn is the next turn's.
                Some(known) => {
                    *known = TurnUsage { model: known.model.clone().or(usage.model), ..usage };
                }
                None => {
                    self.turns.insert(turn.number, usage);
                }
            }
        }
    }
}

impl TurnUsage {
    fn is_billed(&self) -> bool {
        self.tokens.total() > 0 || self.cost.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::day_of;

    #[test]
    fn days_are_those_of_the_calendar() {
        const DAY: u64 = 24 * 60 * 60 * 1000;
        assert_eq!(day_of(0).to_string(), "1970-01-01");
        assert_eq!(day_of(11_016 * DAY).to_string(), "2000-02-29");
        assert_eq!(day_of(20_454 * DAY - 1).to_string(), "2025-12-31");
        assert_eq!(day_of(20_454 * DAY).to_string(), "2026-01-01");
    }
}
