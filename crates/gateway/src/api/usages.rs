//! What was used, as rows of a table.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::problem::Answer;
use super::sent::Asked;
use super::{Problem, tag};
use crate::clock::now;
use crate::gateway::Gateway;
use crate::usage::Used;

const DAY: u64 = 24 * 60 * 60 * 1000;

/// How far to look back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Days {
    /// So many days, today included.
    #[serde(default = "month")]
    #[param(minimum = 1, maximum = 3650)]
    days: u64,
}

fn month() -> u64 {
    30
}

/// What was used.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsageTable {
    /// One row for each day, session and model, oldest first.
    days: Vec<UsageRow>,
}

/// What was used on a day, in a session, by a model.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct UsageRow {
    /// The day in UTC, as `2026-01-31`.
    day: String,
    session: Uuid,
    title: Option<String>,
    model: Option<String>,
    /// Dollars, as far as the agent said so.
    cost: Option<f64>,
    turns: u64,
    tokens: UsedTokens,
}

/// Numbers of tokens.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub(super) struct UsedTokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

#[utoipa::path(get, path = "/usage", tag = tag::USAGE, params(Days), responses((status = 200, body = UsageTable)))]
/// Cost and tokens by day, session and model.
pub(super) async fn usage(
    State(gateway): State<Gateway>,
    Asked(Days { days }): Asked<Days>,
) -> Answer<Json<UsageTable>> {
    if !(1..=3650).contains(&days) {
        return Err(Problem::invalid("`days` is between 1 and 3650"));
    }
    let first = (now() / DAY + 1).saturating_sub(days) * DAY;
    let mut rows: BTreeMap<(String, Uuid, Option<String>), UsageRow> = BTreeMap::new();
    for session in gateway.lobby.look().await?.into_iter().filter(|it| it.active >= first) {
        let journal = gateway.sessions.journal();
        let used = match gateway.usages.of(journal, journal::SessionId(session.id)).await {
            Ok(used) => used,
            // Deleted just now.
            Err(journal::Error::NoSuchSession(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        let spent = |it: &Used| it.tokens.total() > 0 || it.cost.is_some();
        for turn in used.into_iter().filter(|it| it.at >= first && spent(it)) {
            let day = date(turn.at / DAY);
            let row = rows.entry((day.clone(), session.id, turn.model.clone())).or_default();
            row.day = day;
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
    Ok(Json(UsageTable { days: rows.into_values().collect() }))
}

/// A day, by its number since 1970: Hinnant's way from days to a date of the Gregorian calendar.
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_453), "2025-12-31");
        assert_eq!(date(20_454), "2026-01-01");
    }
}
