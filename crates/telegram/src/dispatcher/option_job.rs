//! Jobs that start sessions with options, and that list and change the options of a session.

use std::path::PathBuf;

use journal::SessionId;
use serde_json::Value;
use session::{
    IdleTimeout, OPTIONS, OptionChanges, OptionError, OptionRole, OptionSpec, Session,
    SessionOptions,
};
use view::wording;
use wire::note::Actor;

use super::job::{JobContext, JobResult};
use crate::inbound::SetArguments;
use crate::replies::{self, BotReply, OUTBOX_PROMPT, ShownOptions, TELEGRAM_PROMPT};

/// The option that sessions of Telegram always have a text for.
const PROMPT_OPTION: &str = "append_system_prompt";

/// The options of a session that is to be created.
#[derive(Debug)]
pub(super) struct NewOptions {
    pub(super) options: SessionOptions,
    /// What the user must confirm before it applies.
    pub(super) question: Option<BotReply>,
}

impl JobContext {
    /// The options of a new session: those of a profile, then the given ones, as far as the user may
    /// set them.
    pub(super) async fn new_options(
        &self,
        directory: PathBuf,
        profile: Option<String>,
        given: &[(String, String)],
        role: OptionRole,
    ) -> Result<NewOptions, BotReply> {
        let mut changes = OptionChanges::default();
        let is_agent = |it: &&(String, String)| it.0 == "agent";
        let agent = given.iter().find(is_agent).map(|(_, name)| name.as_str());
        // The agent decides which values the others may have.
        let ordered = given.iter().filter(is_agent).chain(given.iter().filter(|it| !is_agent(it)));
        for (name, value) in ordered {
            let (spec, value) = parse(name, value, agent)?;
            changes.set(spec, value).map_err(|error| replies::option_refused(&error))?;
        }
        let own_bypass = changes.wants_bypass();
        self.check_role(&changes, role)?;
        let (profiles, roots) = (self.sessions.profiles(), self.roots.clone());
        let select = move || {
            let profile = profiles.select(&directory, profile.as_deref());
            let profile = profile.map_err(|error| replies::profile_failed(&error.to_string()))?;
            let mut all = profile.map(|it| it.options).unwrap_or_default();
            all.extend(changes);
            all.resolve_directories(&roots).map_err(|error| replies::option_refused(&error))?;
            Ok((SessionOptions { directory, ..SessionOptions::default() }, all))
        };
        let selected = tokio::task::spawn_blocking(select).await;
        let (mut options, changes) = selected.unwrap_or_else(|_| Err(replies::internal_error()))?;
        changes.apply(&mut options).map_err(|error| replies::option_refused(&error))?;
        let own = options.append_system_prompt.take();
        options.append_system_prompt = Some(with_telegram_prompt(own.as_deref()));
        let mut question = None;
        if changes.wants_bypass() {
            // A session is never started in this mode: someone must have seen the question.
            options.permission_mode = None;
            question = Some(match self.check_bypass(role) {
                Ok(()) => replies::confirm_bypass(),
                Err(refused) if own_bypass => return Err(refused),
                Err(refused) => refused,
            });
        }
        Ok(NewOptions { options, question })
    }

    /// Lists, shows or sets options of a session.
    pub(super) async fn set_option(
        &self,
        id: SessionId,
        arguments: &SetArguments,
        role: OptionRole,
        by: Actor,
    ) -> JobResult {
        let options = match self.stored_options(id).await {
            Ok(options) => options,
            Err(reply) => return JobResult::reply(reply),
        };
        let shown = ShownOptions::new(&options);
        let result = match arguments {
            SetArguments::List => Ok(replies::options(&shown)),
            SetArguments::Show(name) => find(name).map(|spec| {
                let bypass_allowed = self.sessions.config().allow_bypass;
                replies::option(spec, &shown, role, bypass_allowed)
            }),
            SetArguments::Set { name, value, confirmed } => {
                match self.changes(&options, name, value, role).await {
                    Ok((_, changes)) if changes.wants_bypass() && !confirmed => {
                        Ok(replies::confirm_bypass())
                    }
                    Ok((reply, changes)) => {
                        let change = async |session: Session| {
                            session.change_options(&changes, &by).await.map(|()| reply)
                        };
                        match self.with_session(id, change).await {
                            Ok(reply) => Ok(reply),
                            Err(error) => return error.into(),
                        }
                    }
                    Err(refused) => Err(refused),
                }
            }
        };
        JobResult::reply(result.unwrap_or_else(|refused| refused))
    }

    /// The change of one option, and the reply to it.
    async fn changes(
        &self,
        options: &SessionOptions,
        name: &str,
        value: &str,
        role: OptionRole,
    ) -> Result<(BotReply, OptionChanges), BotReply> {
        let agent = options.agent.as_deref();
        let (spec, value) = parse(name, value, agent)?;
        let reply = replies::option_set(spec, &value);
        let from_telegram = options.append_system_prompt.as_deref();
        let from_telegram = from_telegram.is_some_and(|it| it.starts_with(TELEGRAM_PROMPT));
        let value = if spec.name == PROMPT_OPTION && from_telegram {
            Value::String(with_telegram_prompt(value.as_str()))
        } else {
            value
        };
        let mut changes = OptionChanges::default();
        let set = changes.set_for(agent, spec, value);
        set.map_err(|error| replies::option_refused(&error))?;
        self.check_role(&changes, role)?;
        if changes.wants_bypass() {
            self.check_bypass(role)?;
        }
        let roots = self.roots.clone();
        let resolve = move || changes.resolve_directories(&roots).map(|()| changes);
        let resolved = tokio::task::spawn_blocking(resolve).await;
        let changes = resolved.map_err(|_| replies::internal_error())?;
        Ok((reply, changes.map_err(|error| replies::option_refused(&error))?))
    }

    /// The profiles that sessions can be started with.
    pub(super) async fn list_profiles(&self, session: Option<SessionId>) -> JobResult {
        let options = match session {
            Some(id) => self.stored_options(id).await.ok(),
            None => None,
        };
        let directory = match options {
            Some(options) => options.directory,
            None => self.default_directory().await,
        };
        let profiles = self.sessions.profiles();
        let list = move || {
            let config = profiles.user_config().map_err(|error| error.to_string())?;
            let default = config.default_profile(&directory).map(ToOwned::to_owned);
            Ok((config.profiles, default))
        };
        let listed: Result<_, String> = match tokio::task::spawn_blocking(list).await {
            Ok(listed) => listed,
            Err(_) => return JobResult::reply(replies::internal_error()),
        };
        JobResult::reply(match listed {
            Ok((profiles, default)) => replies::profiles(&profiles, default.as_deref()),
            Err(error) => replies::profile_failed(&error),
        })
    }

    pub(super) async fn stored_options(&self, id: SessionId) -> Result<SessionOptions, BotReply> {
        let record = self.sessions.journal().session(id).await;
        let record = record.map_err(|error| replies::open_failed(&error.into()))?;
        let missing = || replies::open_failed(&session::OpenError::NoSuchSession(id));
        let record = record.ok_or_else(missing)?;
        SessionOptions::from_json(&record.options, record.directory).map_err(|error| {
            let refused = session::CommandError::UnreadableOptions(error.reason);
            replies::call_failed(&session::Error::Refused(refused))
        })
    }

    /// When the agent of a session is stopped if it has nothing to do, for people.
    pub(super) fn idle_timeout(&self, options: &SessionOptions) -> String {
        let own = options.idle_timeout.map(|it| it.to_string());
        let default = self.sessions.config().limits.park.map(wording::duration);
        own.or(default).unwrap_or_else(|| IdleTimeout::Never.to_string())
    }

    fn check_role(&self, changes: &OptionChanges, role: OptionRole) -> Result<(), BotReply> {
        if changes.wants_bypass() {
            self.check_bypass(role)?;
        }
        match changes.admin_options().next() {
            Some(name) if role < OptionRole::Admin => Err(replies::needs_admin(name)),
            _ => Ok(()),
        }
    }

    fn check_bypass(&self, role: OptionRole) -> Result<(), BotReply> {
        if !self.sessions.config().allow_bypass {
            return Err(replies::bypass_not_allowed());
        }
        if role < OptionRole::Admin { Err(replies::needs_admin("mode")) } else { Ok(()) }
    }
}

/// Finds an option by its name, or by the name of its argument.
fn find(name: &str) -> Result<&'static OptionSpec, BotReply> {
    let flag = name.replace('_', "-");
    // A flag that begins with `no` means the opposite of its option.
    let by_flag = || OPTIONS.iter().find(|it| it.flag == flag && !flag.starts_with("no-"));
    let found = OptionSpec::find(name).or_else(by_flag);
    found.ok_or_else(|| {
        let error =
            OptionError::Unknown { name: name.to_owned(), similar: OptionSpec::similar(name) };
        replies::option_refused(&error)
    })
}

/// Reads an option as users write it, for a session with this agent.
fn parse(
    name: &str,
    value: &str,
    agent: Option<&str>,
) -> Result<(&'static OptionSpec, Value), BotReply> {
    let spec = find(name)?;
    let mut own = OptionChanges::default();
    // Other agents than Claude Code have modes and efforts of their own.
    let word = Value::String(value.trim().to_owned());
    let has_words = spec.name == "mode" || spec.name == "effort" && value.trim() != "default";
    if has_words && own.set_for(agent, spec, word.clone()).is_ok() {
        return Ok((spec, word));
    }
    let mode = (spec.name == "mode").then(|| replies::find_mode(value)).flatten();
    let value = mode.map_or(value, |mode| mode.name());
    let value = spec.parse(value).map_err(|error| replies::option_refused(&error))?;
    Ok((spec, value))
}

/// The system prompt of a session in Telegram, with what a user adds to it.
fn with_telegram_prompt(own: Option<&str>) -> String {
    let mut prompt = format!("{TELEGRAM_PROMPT} {OUTBOX_PROMPT}");
    if let Some(own) = own {
        prompt.push_str("\n\n");
        prompt.push_str(own);
    }
    prompt
}
