//! Jobs that list and revoke rules.

use journal::{Grant, SessionId};
use uuid::Uuid;

use super::job::{JobContext, JobResult};
use crate::replies;

/// Revokes a rule of the session, if one is given, or lists them.
pub(super) async fn run(
    context: &JobContext,
    session: SessionId,
    revoked: Option<Uuid>,
) -> JobResult {
    let grants = match grants_of(context, session).await {
        Ok(grants) => grants,
        Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
    };
    let Some(revoked) = revoked else { return JobResult::reply(replies::rules(&grants)) };
    // A rule of another session cannot be revoked from here.
    let Some(grant) = grants.iter().find(|it| it.id == revoked) else {
        return JobResult::reply(replies::rule_not_found());
    };
    match context.sessions.revoke_grant(revoked).await {
        Ok(()) => JobResult::reply(replies::rule_revoked(grant)),
        Err(error) => JobResult::reply(replies::open_failed(&error)),
    }
}

/// The rules that apply in a session: its own and those of its directory.
async fn grants_of(context: &JobContext, id: SessionId) -> Result<Vec<Grant>, journal::Error> {
    let journal = context.sessions.journal();
    let record = journal.session(id).await?.ok_or(journal::Error::NoSuchSession(id))?;
    let mut grants = journal.grants(context.clock.unix_millis()).await?;
    grants.retain(|grant| grant.applies_in(id, &record.directory));
    Ok(grants)
}
