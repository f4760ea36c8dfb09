//! Hooks that run before a file changes. The agent calls them and waits for the answer.
//!
//! They run outside the session: the machine asks for them with [`Effect::RunHook`], and the answer
//! is a command. An open call is stored like a request, so that the next owner can ask for it again.
//! A hook that fails or does not answer in time does not hold up the agent: the call goes the usual
//! way, as if there were no hook. Only an answer that denies the call stops it.

use std::collections::BTreeMap;
use std::sync::Arc;

use journal::{RequestRecord, Resolution};
use wire::note::{Note, Outcome, WatchConfig};
use wire::outgoing::{ControlReply, HookEventName, HookMatcher, JsonObject};

use super::{Effect, Machine};
use crate::agent_event::HookCallback;
use crate::command::{CommandError, CommandOutput, CommandResult};
use crate::config::{HookRequest, WatchPolicy};

/// The id that the hook is registered with.
const CALLBACK: &str = "towpath-pre";

/// The tools that change files.
const FILE_TOOLS: &str = "Edit|MultiEdit|NotebookEdit|Write";

/// After how many seconds the agent gives up if no Towpath answers. It does not run the tool then.
/// This is long enough for a restart of Towpath, after which the hook runs again.
const AGENT_TIMEOUT: u32 = 600;

/// The denial of a call that no hook can check.
const TOO_LONG: &str = "Denied: the call is too long for the hook that checks changes of files. \
                        Make the change in smaller parts.";

/// The denial of a call if the answer of its hook cannot be sent.
const ANSWER_TOO_LONG: &str = "Denied: the answer of the hook that checks changes of files is too \
                               long.";

/// The hooks of a session, and their open calls.
#[derive(Debug)]
pub(super) struct Hooks {
    /// The configuration of sessions that have none of their own.
    default: Option<Arc<WatchConfig>>,
    /// Whether something runs hooks.
    has_runner: bool,
    /// Whether the agent process knows of the hook.
    registered: bool,
    open: BTreeMap<String, OpenHook>,
}

/// The call of a hook that has no answer yet.
#[derive(Debug)]
struct OpenHook {
    record: RequestRecord,
    until: u64,
}

impl Hooks {
    /// The hooks of a session, with the calls that an earlier owner left open.
    pub(super) fn restore(policy: &WatchPolicy, open: Vec<RequestRecord>, until: u64) -> Self {
        let open = open.into_iter().map(|it| (it.id.clone(), OpenHook { record: it, until }));
        Self {
            default: policy.default.clone(),
            has_runner: policy.hooks.is_some(),
            registered: false,
            open: open.collect(),
        }
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.open.values().map(|it| it.until).min()
    }
}

impl Machine {
    /// The configuration of hooks that run before a change, if there are any and something runs them.
    fn hook_config(&self) -> Option<Arc<WatchConfig>> {
        let config = self.options.watch.resolve(self.hooks.default.as_deref());
        let config = config.filter(|it| self.hooks.has_runner && it.hooks.runs_before_changes())?;
        Some(Arc::new(config.clone()))
    }

    /// The hooks to register with a process.
    pub(super) fn registered_hooks(&mut self) -> BTreeMap<HookEventName, Vec<HookMatcher>> {
        self.hooks.registered = self.hook_config().is_some();
        if !self.hooks.registered {
            return BTreeMap::new();
        }
        let matcher = HookMatcher {
            matcher: Some(FILE_TOOLS.to_owned()),
            hook_callback_ids: vec![CALLBACK.to_owned()],
            timeout: AGENT_TIMEOUT,
        };
        BTreeMap::from([(HookEventName::PreToolUse, vec![matcher])])
    }

    /// The watch configuration has changed. A running agent must know of a new hook. A call of one
    /// that is gone is answered when it comes.
    pub(super) fn hooks_changed(&mut self) {
        if !self.hooks.registered && self.agent.accepts_input() && self.hook_config().is_some() {
            self.register_hooks();
        }
    }

    /// The agent has answered whether it accepts hooks while it runs.
    pub(super) fn hooks_answered(&mut self, answer: &Result<Option<String>, String>) {
        if answer.is_err() {
            self.hooks.registered = false;
            let text = "this version of the agent accepts hooks only when it starts: the hook that \
                        runs before changes takes effect with the next start of the agent";
            self.note(Note::Problem { text: text.to_owned() });
        }
    }

    pub(super) fn hook_called(&mut self, call: HookCallback) {
        let HookCallback { id, callback, input } = call;
        if self.hooks.open.contains_key(&id) || !self.agent.accepts_input() {
            // A process that is stopping or gone cannot be answered.
            return;
        }
        let Some(config) = self.hook_config().filter(|_| callback == CALLBACK) else {
            return self.write_hook_answer(&id, &ControlReply::continue_after_hook());
        };
        let Some(input) = input else {
            let text = "a call was denied because it is too long for the hook that runs before \
                        changes";
            self.note(Note::Problem { text: text.to_owned() });
            return self.write_hook_answer(&id, &ControlReply::deny_by_hook(TOO_LONG));
        };
        let record = RequestRecord::of_hook(id.clone(), input, self.wall);
        self.effects.push(Effect::Request(record.clone()));
        self.run_hook(&record, config);
        let until = self.now + self.limits.hook;
        self.hooks.open.insert(id, OpenHook { record, until });
    }

    fn run_hook(&mut self, record: &RequestRecord, config: Arc<WatchConfig>) {
        self.effects.push(Effect::RunHook(Box::new(HookRequest {
            session: self.session,
            request: record.id.clone(),
            input: record.input.clone(),
            directory: self.options.directory.clone(),
            config,
        })));
    }

    /// The process of an earlier Towpath is attached: hooks that were cut off run again.
    pub(super) fn repeat_hooks(&mut self) {
        let until = self.now + self.limits.hook;
        let config = self.hook_config();
        let open: Vec<RequestRecord> =
            self.hooks.open.values().map(|it| it.record.clone()).collect();
        for record in open {
            if let Some(config) = &config {
                self.run_hook(&record, Arc::clone(config));
                self.hooks.open.insert(record.id.clone(), OpenHook { record, until });
            } else {
                self.write_hook_answer(&record.id, &ControlReply::continue_after_hook());
                self.resolve_hook(&record.id, Outcome::Allowed);
            }
        }
    }

    pub(super) fn answer_hook(
        &mut self,
        request: &str,
        output: Option<JsonObject>,
    ) -> CommandResult {
        if !self.hooks.open.contains_key(request) {
            return Err(CommandError::NoSuchRequest);
        }
        if !self.agent.accepts_input() {
            return Err(CommandError::AgentGone);
        }
        let answer = output.map_or_else(ControlReply::continue_after_hook, ControlReply::Hook);
        let outcome = if answer.denies() { Outcome::Denied } else { Outcome::Allowed };
        self.write_hook_answer(request, &answer);
        self.resolve_hook(request, outcome);
        Ok(CommandOutput::None)
    }

    fn write_hook_answer(&mut self, request: &str, answer: &ControlReply) {
        if self.write_answer(request, answer).is_err() {
            // The hook may have changed the input so that the call is harmless.
            let _ = self.write_answer(request, &ControlReply::deny_by_hook(ANSWER_TOO_LONG));
        }
    }

    /// The agent no longer needs the answer.
    pub(super) fn withdraw_hook(&mut self, request: &str) {
        self.resolve_hook(request, Outcome::Withdrawn);
    }

    /// The agent is gone: no call can be answered, and the next process knows of no hook.
    pub(super) fn withdraw_all_hooks(&mut self) {
        self.hooks.registered = false;
        let open: Vec<String> = self.hooks.open.keys().cloned().collect();
        for request in open {
            self.withdraw_hook(&request);
        }
    }

    fn resolve_hook(&mut self, request: &str, outcome: Outcome) {
        let Some(OpenHook { mut record, .. }) = self.hooks.open.remove(request) else { return };
        // The time that a hook took is not silence of the agent.
        self.turn.note_output(self.now);
        record.resolution = Some(Resolution { outcome, by: None, message: None, at: self.wall });
        // The journal has the line; the input is not needed any longer.
        "{}".clone_into(&mut record.input);
        self.effects.push(Effect::Request(record));
    }

    /// Answers the calls whose hook did not answer in time.
    pub(super) fn expire_hooks(&mut self) {
        if !self.agent.accepts_input() {
            return;
        }
        let expired = self.hooks.open.iter().filter(|(_, it)| it.until <= self.now);
        let expired: Vec<String> = expired.map(|(id, _)| id.clone()).collect();
        for request in expired {
            let text = "the hook that runs before changes did not answer in time; the call went on \
                        without it";
            self.note(Note::Problem { text: text.to_owned() });
            self.write_hook_answer(&request, &ControlReply::continue_after_hook());
            self.resolve_hook(&request, Outcome::Expired);
        }
    }
}
