//! Jobs that switch commits of changed files on and off, and show the latest ones.

use journal::{Journal, SessionId};
use session::Session;
use wire::note::{Actor, Setting, WatchChoice, WatchConfig};

use super::job::{JobContext, JobResult};
use crate::inbound::CommitArgument;
use crate::replies::{self, WatchLogEntry};

/// The follower state in which the part of Towpath that acts on changed files stores what it did.
const WATCH_STATE: &str = "watch";

impl JobContext {
    pub(super) async fn commit(
        &self,
        id: SessionId,
        argument: CommitArgument,
        by: Actor,
    ) -> JobResult {
        let current = match self.stored_options(id).await {
            Ok(options) => match options.watch {
                WatchChoice::Own(config) => Some(config),
                WatchChoice::Off => None,
                WatchChoice::Inherit => {
                    let default = &self.sessions.config().watch.default;
                    default.as_deref().cloned().map(Box::new)
                }
            },
            Err(reply) => return JobResult::reply(reply),
        };
        let new = match argument {
            CommitArgument::On => Some(commit_on(current.as_deref())),
            CommitArgument::Off => commit_off(current.as_deref()),
            CommitArgument::Status => {
                return match read_log(self.sessions.journal(), id).await {
                    Ok(log) => JobResult::reply(replies::commit_status(current.as_deref(), &log)),
                    Err(error) => JobResult::reply(replies::open_failed(&error.into())),
                };
            }
        };
        let reply = replies::commit_set(new.as_ref());
        // What the chat was shown is what counts from now on, whatever the server's default becomes.
        let new = new.map_or(WatchChoice::Off, |config| WatchChoice::Own(Box::new(config)));
        let setting = Setting::Watch(new);
        let set = async |session: Session| session.set(setting, by).await;
        match self.with_session(id, set).await {
            Ok(()) => JobResult::reply(reply),
            Err(error) => error.into(),
        }
    }
}

/// The configuration with commits. Copies and hooks stay as they are.
fn commit_on(current: Option<&WatchConfig>) -> WatchConfig {
    let mut config = current.cloned().unwrap_or_default();
    config.commit.get_or_insert_default();
    config
}

/// The configuration without commits; none if nothing else is left to be done.
fn commit_off(current: Option<&WatchConfig>) -> Option<WatchConfig> {
    let config = WatchConfig { commit: None, ..current?.clone() };
    let acts = !config.targets.is_empty() || !config.hooks.is_none();
    acts.then_some(config)
}

/// The last lines of the log for a session, oldest first.
async fn read_log(journal: &Journal, id: SessionId) -> Result<Vec<WatchLogEntry>, journal::Error> {
    let key = format!("log:{id}");
    let stored = journal.read_state(WATCH_STATE).await?.into_iter().find(|(it, _)| *it == key);
    let stored = stored.and_then(|(_, value)| serde_json::from_slice(&value).ok());
    Ok(stored.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use wire::note::{CommitConfig, HookConfig, Trigger, WatchConfig};

    use super::{commit_off, commit_on};

    #[test]
    fn commits_are_switched_and_everything_else_stays() {
        let commit = Some(CommitConfig { every: Trigger::Change, ..CommitConfig::default() });
        let hooks = HookConfig { stop: Some("make".to_owned()), ..HookConfig::default() };
        let both = WatchConfig { commit, hooks, ..WatchConfig::default() };
        let hooks_only = WatchConfig { commit: None, ..both.clone() };
        let commits_only =
            WatchConfig { commit: Some(CommitConfig::default()), ..WatchConfig::default() };
        assert_eq!(commit_on(None), commits_only);
        assert_eq!(commit_on(Some(&both)), both);
        assert_eq!(commit_off(Some(&both)).as_ref(), Some(&hooks_only));
        assert_eq!(commit_off(Some(&commits_only)), None);
        assert_eq!(commit_off(None), None);
    }
}
