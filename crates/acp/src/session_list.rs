//! The list of sessions: those of the journal, and those that the CLI ran without Towpath.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use journal::{SessionId, StateChange};
use uuid::Uuid;
use view::wording;
use wire::acp::{RpcError, SessionListing};

use crate::config::AcpConfig;

/// The name under which the journal stores which sessions were deleted. The CLI's files of them stay, and
/// would be listed as sessions that the CLI ran without Towpath.
const DELETED: &str = "acp-deleted";

/// How many sessions a page has.
const PAGE: usize = 50;

/// A session before it is described.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SessionCandidate {
    /// When it was last written to, in milliseconds since 1970.
    active: u64,
    id: Uuid,
    cwd: PathBuf,
    title: Option<String>,
    in_journal: bool,
}

/// A page of sessions, the newest first, and where the next one starts.
pub(crate) async fn list(
    config: &AcpConfig,
    cwd: Option<String>,
    cursor: Option<String>,
) -> Result<(Vec<SessionListing>, Option<String>), RpcError> {
    let after = cursor.as_deref().map(parse_cursor).transpose()?;
    let mut found = find(config).await.map_err(|it| RpcError::internal(it.to_string()))?;
    if let Some(cwd) = cwd {
        let real = if config.sessions.is_relayed() {
            // A directory of another machine.
            None
        } else {
            tokio::fs::canonicalize(&cwd).await.ok()
        };
        let real = real.unwrap_or_else(|| PathBuf::from(&cwd));
        found.retain(|it| it.cwd == real || it.cwd == Path::new(&cwd));
    }
    let (page, next) = page(found, after);
    let mut sessions = Vec::new();
    for session in page {
        sessions.push(describe(config, session).await);
    }
    Ok((sessions, next))
}

/// Lists sessions of the CLI no longer.
pub(crate) async fn hide(config: &AcpConfig, ids: Vec<String>) -> Result<(), journal::Error> {
    let hidden = |key| StateChange { key, value: Some(Vec::new()) };
    let changes = ids.into_iter().map(hidden).collect();
    config.sessions.journal().write_state(DELETED, changes).await
}

async fn find(config: &AcpConfig) -> Result<Vec<SessionCandidate>, journal::Error> {
    let records = config.sessions.journal().sessions().await?;
    let deleted = config.sessions.journal().read_state(DELETED).await?;
    // The CLI writes session files for Towpath's sessions too.
    let known: HashSet<String> = records
        .iter()
        .flat_map(|record| record.agent_ids.iter().cloned().chain([record.id.to_string()]))
        .chain(deleted.into_iter().map(|(id, _)| id))
        .collect();
    let own = records.into_iter().map(|record| SessionCandidate {
        active: record.active,
        id: record.id.0,
        cwd: record.directory,
        title: record.title,
        in_journal: true,
    });
    let transcripts = config.sessions.list_transcripts().await;
    let others = transcripts.iter().filter(|it| !known.contains(&it.file.id.to_string()));
    let others = others.filter_map(|it| {
        Some(SessionCandidate {
            active: it.file.modified,
            id: it.file.id,
            cwd: it.summary.directory.clone()?,
            title: it.summary.title.clone(),
            in_journal: false,
        })
    });
    let below_roots = |it: &SessionCandidate| config.roots.contains(&it.cwd);
    Ok(own.chain(others).filter(below_roots).collect())
}

/// The sessions after a position, and the position of the last one if there are more.
fn page(
    mut found: Vec<SessionCandidate>,
    after: Option<(u64, Uuid)>,
) -> (Vec<SessionCandidate>, Option<String>) {
    found.sort_by(|a, b| b.active.cmp(&a.active).then(a.id.cmp(&b.id)));
    if let Some((active, id)) = after {
        found.retain(|it| it.active < active || it.active == active && it.id > id);
    }
    let has_more = found.len() > PAGE;
    found.truncate(PAGE);
    let last = found.last().filter(|_| has_more);
    let next = last.map(|it| format!("{}.{}", it.active, it.id));
    (found, next)
}

fn parse_cursor(cursor: &str) -> Result<(u64, Uuid), RpcError> {
    let position = cursor
        .split_once('.')
        .and_then(|(active, id)| Some((active.parse().ok()?, id.parse().ok()?)));
    position.ok_or_else(|| RpcError::invalid_params(format!("`{cursor}` is no cursor of a list")))
}

async fn describe(config: &AcpConfig, session: SessionCandidate) -> SessionListing {
    let SessionCandidate { active, id, cwd, mut title, in_journal } = session;
    if title.is_none() && in_journal {
        let text = config.sessions.journal().first_prompt_text(SessionId(id), 400).await;
        title = text.ok().flatten().and_then(|text| wording::title(&text));
    }
    let at = i64::try_from(active).ok().and_then(|it| Timestamp::from_millisecond(it).ok());
    SessionListing {
        id: id.to_string(),
        cwd: cwd.to_string_lossy().into_owned(),
        title,
        updated_at: at.map(|it| it.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, SessionCandidate, page, parse_cursor};
    use uuid::Uuid;

    #[test]
    fn pages_follow_each_other_without_gaps_and_repetitions() {
        let session = |number: u128| SessionCandidate {
            active: u64::try_from(number / 3).unwrap(),
            id: Uuid::from_u128(number),
            cwd: "/p".into(),
            title: None,
            in_journal: true,
        };
        let all: Vec<SessionCandidate> = (0..2 * PAGE as u128 + 7).map(session).collect();
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let (sessions, next) = page(all.clone(), after);
            seen.extend(sessions.iter().map(|it| it.id));
            let Some(next) = next else { break };
            after = Some(parse_cursor(&next).unwrap());
        }
        assert_eq!(seen.len(), all.len());
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), all.len());
        assert!(parse_cursor("nonsense").is_err());
    }
}
