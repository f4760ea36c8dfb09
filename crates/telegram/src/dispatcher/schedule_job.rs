//! Jobs that list, add and remove messages that are sent later.

use journal::SessionId;
use session::{CommandError, Error, NewSchedule, PromptSchedule, Session};
use uuid::Uuid;
use wire::note::Actor;

use super::job::{JobContext, JobResult, SessionCallError};
use crate::inbound::ScheduleArguments;
use crate::replies::{self, BotReply};

impl JobContext {
    /// `id` is that of a schedule that is to be added.
    pub(super) async fn schedule(
        &self,
        session: SessionId,
        arguments: &ScheduleArguments,
        id: Uuid,
        by: Actor,
    ) -> JobResult {
        match arguments {
            ScheduleArguments::List => match self.schedules_of(session).await {
                Ok(schedules) => JobResult::reply(replies::schedules(&schedules, &self.zone)),
                Err(reply) => JobResult::reply(reply),
            },
            ScheduleArguments::Incomplete(text) => {
                JobResult::reply(replies::schedule_incomplete(text))
            }
            ScheduleArguments::Add { zone, when, text } => {
                let zone = zone.clone().unwrap_or_else(|| self.zone.clone());
                let new = NewSchedule { id, text: text.clone(), when: when.clone(), zone, by };
                let add = async |session: Session| session.schedule(new).await;
                match self.with_session(session, add).await {
                    Ok(()) => self.added(session, id).await,
                    Err(SessionCallError::Call(Error::Refused(CommandError::Invalid(why)))) => {
                        JobResult::reply(replies::schedule_refused(&why))
                    }
                    Err(error) => error.into(),
                }
            }
            ScheduleArguments::Remove(schedule) => {
                let known = self.schedules_of(session).await.unwrap_or_default();
                let known = known.into_iter().find(|it| it.id == *schedule);
                let remove = async |session: Session| session.remove_schedule(*schedule, by).await;
                match self.with_session(session, remove).await {
                    Ok(()) => JobResult::reply(replies::schedule_removed(known.as_ref())),
                    Err(error) => error.into(),
                }
            }
        }
    }

    async fn added(&self, session: SessionId, id: Uuid) -> JobResult {
        match self.schedules_of(session).await {
            Ok(schedules) => {
                let added = schedules.iter().find(|it| it.id == id);
                JobResult::reply(replies::schedule_added(added))
            }
            Err(reply) => JobResult::reply(reply),
        }
    }

    /// The schedules of a session, the next one first.
    async fn schedules_of(&self, session: SessionId) -> Result<Vec<PromptSchedule>, BotReply> {
        let mut schedules = self.stored_options(session).await?.schedules;
        schedules.sort_by_key(|it| it.next);
        Ok(schedules)
    }
}
