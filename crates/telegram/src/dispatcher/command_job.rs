//! Jobs that run a command.

use std::fmt::Write as _;

use journal::SessionId;
use session::{NewPrompt, OptionRole, Session};
use uuid::Uuid;
use view::diff::Diff;
use view::{CallState, Conversation, ItemBody, ToolInput};
use wire::note::{Actor, Delivery, Setting};
use wire::outgoing::PermissionMode;

use super::follower::fold_session;
use super::job::{JobContext, JobResult};
use super::rules_job;
use crate::address::{ChatAddress, MessageId};
use crate::bot::BotCall;
use crate::inbound::{ChatCommand, NewSessionArguments, SetArguments};
use crate::replies::{self, BotReply};

#[derive(Debug)]
pub(super) struct CommandJob {
    pub(super) command: ChatCommand,
    pub(super) address: ChatAddress,
    pub(super) message: Option<MessageId>,
    /// The update that asked for it: a button can be tapped several times.
    pub(super) update: i64,
    pub(super) by: Actor,
    pub(super) role: OptionRole,
    /// The session that the chat shows.
    pub(super) session: Option<SessionId>,
}

impl CommandJob {
    pub(super) async fn run(self, context: &JobContext) -> JobResult {
        match &self.command {
            ChatCommand::Help => return JobResult::reply(replies::help()),
            ChatCommand::Unknown(name) => return JobResult::reply(replies::unknown_command(name)),
            ChatCommand::New(arguments) => return self.new_session(context, arguments).await,
            ChatCommand::Invalid(error) => {
                return JobResult::reply(replies::arguments_refused(error));
            }
            ChatCommand::Profiles => return context.list_profiles(self.session).await,
            ChatCommand::Sessions => return context.list_sessions(self.session).await,
            ChatCommand::Resume(None) => {
                let resumed = context.resume_queue(self.session, self.by.clone()).await;
                return match resumed {
                    Some(resumed) => resumed,
                    None => context.list_resumable(self.session).await,
                };
            }
            ChatCommand::Resume(Some(prefix)) => {
                return context.resume_by_id(prefix, self.by, self.role).await;
            }
            ChatCommand::Search(text) => return context.search(text.as_deref()).await,
            _ => {}
        }
        let Some(session) = self.session else { return JobResult::reply(replies::no_session()) };
        let chooses = matches!(
            self.command,
            ChatCommand::Mode(_) | ChatCommand::Model(_) | ChatCommand::AgentOptions(_)
        );
        if chooses
            && let Some(result) = context.choose_in_menu(session, &self.command, &self.by).await
        {
            return result;
        }
        match self.command {
            ChatCommand::Stop => context.stop(self.session, self.by).await,
            ChatCommand::Status | ChatCommand::Cost | ChatCommand::Queue => {
                show(context, session, &self.command).await
            }
            ChatCommand::Model(None) => list_models(context, session).await,
            ChatCommand::Model(Some(name)) => {
                let model = (name != "default").then_some(name);
                let reply = replies::model_set(model.as_deref());
                set(context, session, Setting::Model(model), self.by, reply).await
            }
            ChatCommand::Mode(None) => {
                match fold_session(context.sessions.journal(), session).await {
                    Ok(document) => JobResult::reply(replies::modes(document.head.mode.as_deref())),
                    Err(error) => JobResult::reply(replies::open_failed(&error.into())),
                }
            }
            ChatCommand::Mode(Some(name)) => match replies::find_mode(&name) {
                Some(PermissionMode::BypassPermissions) => {
                    let value = PermissionMode::BypassPermissions.name().to_owned();
                    let set =
                        SetArguments::Set { name: "mode".to_owned(), value, confirmed: false };
                    context.set_option(session, &set, self.role, self.by).await
                }
                Some(mode) => {
                    let setting = Setting::PermissionMode(mode.name().to_owned());
                    set(context, session, setting, self.by, replies::mode_set(mode)).await
                }
                None => JobResult::reply(replies::unknown_mode(&name)),
            },
            // Claude Code has no options but those that Towpath knows.
            ChatCommand::AgentOptions(_) => {
                context.set_option(session, &SetArguments::List, self.role, self.by).await
            }
            ChatCommand::Set(arguments) => {
                context.set_option(session, &arguments, self.role, self.by).await
            }
            ChatCommand::Commit(argument) => context.commit(session, argument, self.by).await,
            ChatCommand::Schedule(ref arguments) => {
                let id = self.id(context);
                context.schedule(session, arguments, id, self.by).await
            }
            ChatCommand::Rules(revoked) => rules_job::run(context, session, revoked).await,
            ChatCommand::Compact(ref instructions) => {
                let instructions = instructions.as_deref().map(|it| format!(" {it}"));
                let prompt = format!("/compact{}", instructions.unwrap_or_default());
                self.prompt(context, session, prompt).await
            }
            ChatCommand::Verbose(Some(level)) => JobResult {
                verbosity: Some(level.min(2)),
                ..JobResult::reply(replies::verbosity_set(level))
            },
            ChatCommand::Diff => diff(context, self.address, self.session, None).await,
            // The dispatcher answers this one, because it knows the present level.
            ChatCommand::Verbose(None) => JobResult::reply(replies::verbosity(1)),
            ChatCommand::Help
            | ChatCommand::Unknown(_)
            | ChatCommand::Invalid(_)
            | ChatCommand::Profiles
            | ChatCommand::New(_)
            | ChatCommand::Sessions
            | ChatCommand::Search(_)
            | ChatCommand::Resume(_) => JobResult::default(),
        }
    }

    /// An id that is the same if the same update is processed again.
    fn id(&self, context: &JobContext) -> Uuid {
        let ChatAddress { chat, topic } = self.address;
        let topic = topic.map_or(0, |it| it.0);
        let (message, update) = (self.message.map_or(0, |it| it.0), self.update);
        let name = format!("{}/{topic}/{message}/{update}", chat.0);
        Uuid::new_v5(&context.namespace, name.as_bytes())
    }

    async fn new_session(
        &self,
        context: &JobContext,
        arguments: &NewSessionArguments,
    ) -> JobResult {
        let directory = match arguments.directory.clone() {
            None => {
                let shown = match self.session.filter(|_| arguments.same_directory) {
                    Some(session) => context.stored_options(session).await.ok(),
                    None => None,
                };
                let shown = shown.map(|it| it.directory).filter(|it| context.roots.contains(it));
                match shown {
                    Some(shown) => Some(shown),
                    None => Some(context.default_directory().await),
                }
            }
            Some(name) => context.resolve_directory(&name).await,
        };
        let Some(directory) = directory else {
            let name = arguments.directory.as_deref().unwrap_or_default();
            return JobResult::reply(replies::directory_not_allowed(name, &context.roots));
        };
        let (profile, options) = (arguments.profile.clone(), &arguments.options);
        let new = match context.new_options(directory, profile, options, self.role).await {
            Ok(new) => new,
            Err(refused) => return JobResult::reply(refused),
        };
        let shown = replies::ShownOptions::new(&new.options);
        let agents = &context.sessions.config().agents;
        let agent = new.options.agent.as_deref().or(agents.default_agent()).unwrap_or("claude");
        let title = (agent != "claude").then(|| agents.title(Some(agent)));
        let mut reply =
            replies::session_created(&new.options.directory, &context.roots, &shown, title);
        if new.options.agent.is_none() {
            let installed = context.installed_agents().await;
            reply.buttons = replies::agent_buttons(&installed, agent);
        }
        let id = SessionId(self.id(context));
        match context.create_session(id, new.options, None, None, self.by.clone()).await {
            Ok(switch) => {
                let replies = std::iter::once(reply).chain(new.question).collect();
                JobResult { switch: Some(switch), replies, ..JobResult::default() }
            }
            Err(error) => JobResult::reply(replies::open_failed(&error)),
        }
    }

    async fn prompt(&self, context: &JobContext, session: SessionId, text: String) -> JobResult {
        let (id, by) = (self.id(context), self.by.clone());
        let new = NewPrompt { id, text, images: Vec::new(), delivery: Delivery::Queue, by };
        let prompt = async |session: Session| session.prompt(new).await;
        match context.with_session(session, prompt).await {
            Ok(_) => JobResult::reply(replies::compacting()),
            Err(error) => error.into(),
        }
    }
}

async fn show(context: &JobContext, session: SessionId, command: &ChatCommand) -> JobResult {
    let document = match fold_session(context.sessions.journal(), session).await {
        Ok(document) => document,
        Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
    };
    JobResult::reply(match command {
        ChatCommand::Queue => replies::queue(&document.queue),
        ChatCommand::Cost => {
            let last = document.turns.last().map_or(0, |it| it.number);
            replies::cost(&document.usage, last)
        }
        _ => {
            let options = match context.stored_options(session).await {
                Ok(options) => options,
                Err(reply) => return JobResult::reply(reply),
            };
            let timeout = context.idle_timeout(&options);
            let (shown, now) = (replies::ShownOptions::new(&options), context.clock.unix_millis());
            replies::status(&document, &shown, &timeout, &context.roots, now)
        }
    })
}

async fn list_models(context: &JobContext, session: SessionId) -> JobResult {
    let abilities = async |session: Session| match session.capabilities().await? {
        Some(abilities) => Ok(Some(abilities)),
        None => session.wake().await,
    };
    match context.with_session(session, abilities).await {
        Ok(abilities) => {
            let document = fold_session(context.sessions.journal(), session).await;
            let document = document.unwrap_or_default();
            let models = replies::offered_models(abilities.as_deref().unwrap_or_default());
            JobResult::reply(replies::models(&models, document.head.model.as_deref()))
        }
        Err(error) => error.into(),
    }
}

async fn set(
    context: &JobContext,
    session: SessionId,
    setting: Setting,
    by: Actor,
    reply: BotReply,
) -> JobResult {
    let set = async |session: Session| session.set(setting, by).await;
    match context.with_session(session, set).await {
        Ok(()) => JobResult::reply(reply),
        Err(error) => error.into(),
    }
}

/// The changes of a turn as a file, or of the last turn that changed files if none is named.
pub(super) async fn diff(
    context: &JobContext,
    address: ChatAddress,
    session: Option<SessionId>,
    turn: Option<u64>,
) -> JobResult {
    let Some(session) = session else { return JobResult::reply(replies::no_session()) };
    let document = match fold_session(context.sessions.journal(), session).await {
        Ok(document) => document,
        Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
    };
    let changed = document.turns.iter().rev().find(|it| !it.files.is_empty());
    let turn = turn.or_else(|| changed.map(|it| it.number));
    match turn.map(|turn| (turn, diff_of(&document, turn))) {
        Some((turn, diff)) if !diff.is_empty() => {
            let name = format!("turn-{turn}.diff");
            let calls = vec![BotCall::SendText { address, name, content: diff }];
            JobResult { calls, ..JobResult::default() }
        }
        _ => JobResult::reply(replies::no_changes()),
    }
}

fn diff_of(document: &Conversation, turn: u64) -> String {
    let mut out = String::new();
    for item in document.items.iter().filter(|it| it.turn == turn) {
        let ItemBody::Call(call) = &item.body else { continue };
        if call.state != CallState::Done {
            continue;
        }
        // Writing to a string cannot fail.
        let Some(diff) = Diff::of(call).filter(|it| !it.is_empty()) else {
            if let ToolInput::Write { path, content } = call.tool_input() {
                let _ = writeln!(out, "--- /dev/null\n+++ {path}\n@@ line 1 @@");
                for line in content.lines() {
                    let _ = writeln!(out, "+{line}");
                }
            }
            continue;
        };
        let _ = writeln!(out, "--- {0}\n+++ {0}", call.target);
        for hunk in &diff.hunks {
            let number = hunk.lines.iter().find_map(|it| it.number).unwrap_or(1);
            let _ = writeln!(out, "@@ line {number} @@");
            for line in &hunk.lines {
                let _ = writeln!(out, "{}{}", line.change.sign(), line.text());
            }
        }
    }
    out
}
