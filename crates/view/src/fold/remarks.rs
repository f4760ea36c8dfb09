//! What the CLI says beside the conversation: `system` lines, signals, entries of session files.

use wire::event::{
    ApiRetry, CommandLifecycle, CompactBoundary, Event, Hook, HookPhase, Notice as Said,
    PermissionDenied, RateLimit, Record, Signal, Status, System,
};
use wire::json::Text;
use wire::note::PromptState;

use super::phase::Retrying;
use super::{Fold, Heard, commands};
use crate::item::{Body, Compaction, HookRun, ItemId, Level, Notice, Retry};
use crate::usage::PlanLimit;

fn owned(text: Option<Text<'_>>) -> Option<String> {
    text.map(|it| it.decode().into_owned())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "delays and seconds are small, and a negative one is none"
)]
fn whole(number: Option<f64>) -> Option<u64> {
    number.map(|it| it as u64)
}

impl Fold {
    pub(super) fn system(&mut self, system: &System<'_>) -> Heard {
        match system {
            System::Status(status) => self.status(status),
            System::CompactBoundary(boundary) => self.compacted(boundary),
            System::ApiRetry(retry) => self.retry(retry),
            System::Task(task) => self.task(task),
            System::ThinkingTokens(thinking) => {
                self.signs.thinking_tokens =
                    thinking.estimated_tokens.max(self.signs.thinking_tokens);
                Heard::Housekeeping
            }
            System::PermissionDenied(denied) => self.permission_denied(denied),
            System::Hook(hook) => self.hook(hook),
            System::Notice(notice) => self.notice(notice),
            System::SessionState(_) | System::Other => Heard::Housekeeping,
        }
    }

    fn status(&mut self, status: &Status<'_>) -> Heard {
        let word = status.status.map(Text::decode);
        self.signs.compacting = word.as_deref() == Some("compacting");
        if self.signs.compacting && !self.turns.noted {
            self.working_turn();
        }
        if let Some(mode) = owned(status.permission_mode) {
            let rev = self.rev();
            self.head.change(rev, |head| head.mode = Some(mode));
            return Heard::Shown;
        }
        match status.compact_result.map(Text::decode).as_deref() {
            Some(result) if result != "success" => {
                let text = format!("the history could not be summarised: {result}");
                self.put_line(Body::Notice(Notice { level: Level::Warning, text }))
            }
            _ if self.signs.compacting => Heard::Shown,
            _ => Heard::Housekeeping,
        }
    }

    fn compacted(&mut self, boundary: &CompactBoundary<'_>) -> Heard {
        self.signs.compacting = false;
        let turn = self.working_turn();
        let place = self.next_place();
        let id = ItemId::line(place);
        let compaction = Compaction {
            trigger: owned(boundary.trigger),
            before: boundary.pre_tokens,
            after: boundary.post_tokens,
            summary: String::new(),
        };
        self.put_at(id.clone(), turn, None, place, Body::Compaction(compaction));
        self.people.summary_of = Some(id);
        let rev = self.rev();
        self.usage.change(rev, |usage| usage.context = boundary.post_tokens);
        Heard::Shown
    }

    fn retry(&mut self, said: &ApiRetry<'_>) -> Heard {
        let (attempt, of) = (said.attempt, said.max_retries);
        let delay_ms = whole(said.retry_delay_ms);
        self.signs.retrying = Some(Retrying { attempt, of, delay_ms });
        let fault = said.error.unwrap_or_default();
        let error = owned(fault.message.or(fault.name)).unwrap_or_default();
        let retry = Retry { attempt, of, delay_ms, status: said.error_status, error };
        let known = self.signs.retry_item.clone().filter(|id| self.shelf.has(id));
        if let Some(id) = known {
            self.change(&id, |item| item.body = Body::Retry(retry));
            return Heard::Shown;
        }
        let turn = self.working_turn();
        let place = self.next_place();
        let id = ItemId::line(place);
        self.put_at(id.clone(), turn, None, place, Body::Retry(retry));
        self.signs.retry_item = Some(id);
        Heard::Shown
    }

    fn permission_denied(&mut self, denied: &PermissionDenied<'_>) -> Heard {
        let call = denied.tool_use_id.map(|it| ItemId::call(&it.decode()));
        let message = owned(denied.message);
        if call.is_some_and(|call| self.denied(&call, message.clone())) {
            return Heard::Shown;
        }
        let text = message.or_else(|| owned(denied.tool_name)).unwrap_or_default();
        self.put_line(Body::Notice(Notice { level: Level::Warning, text }))
    }

    fn hook(&mut self, hook: &Hook<'_>) -> Heard {
        let run = HookRun {
            name: owned(hook.hook_name).unwrap_or_default(),
            event: owned(hook.hook_event).unwrap_or_default(),
            output: owned(hook.output).unwrap_or_default(),
            exit_code: whole(hook.exit_code).and_then(|code| i64::try_from(code).ok()),
            outcome: match hook.phase {
                HookPhase::Response => {
                    Some(owned(hook.outcome).unwrap_or_else(|| "success".to_owned()))
                }
                HookPhase::Started | HookPhase::Progress => None,
            },
        };
        let known = hook.hook_id.map(|it| ItemId::hook(&it.decode()));
        if let Some(id) = known.as_ref().filter(|id| self.shelf.has(id)) {
            self.change(id, |item| item.body = Body::Hook(run));
            return Heard::Shown;
        }
        let turn = self.working_turn();
        let place = self.next_place();
        let id = known.unwrap_or_else(|| ItemId::line(place));
        self.put_at(id, turn, None, place, Body::Hook(run));
        Heard::Shown
    }

    fn notice(&mut self, notice: &Said<'_>) -> Heard {
        let Some(text) = notice.text.map(Text::decode) else { return Heard::Housekeeping };
        if let Some(output) = commands::command_output(&text) {
            return self.command_said(&output);
        }
        if text.is_empty() {
            return Heard::Housekeeping;
        }
        let level = match notice.level.map(Text::decode).as_deref() {
            Some("warning" | "warn" | "high") => Level::Warning,
            Some("error") => Level::Error,
            _ => Level::Info,
        };
        self.put_line(Body::Notice(Notice { level, text: text.into_owned() }))
    }

    pub(super) fn signal(&mut self, event: &Event<'_>, signal: &Signal<'_>) -> Heard {
        match signal {
            Signal::RateLimit(limit) => self.rate_limit(limit),
            Signal::ToolProgress(progress) => {
                // A shell's progress has an id of its own, and its call as the parent.
                let call = event.envelope.parent_tool_use_id.or(progress.tool_use_id);
                self.progressed(call, whole(progress.elapsed_seconds), None)
            }
            Signal::ToolUseSummary(Some(text)) => self.put_line(Body::Notice(Notice {
                level: Level::Info,
                text: text.decode().into_owned(),
            })),
            Signal::PromptSuggestion(suggestion) => {
                let (rev, suggestion) = (self.rev(), owned(*suggestion));
                self.head.change(rev, |head| head.suggestion = suggestion);
                Heard::Shown
            }
            Signal::CommandLifecycle(command) => self.lifecycle(command),
            Signal::ConversationReset(_) => {
                let rev = self.rev();
                self.usage.change(rev, |usage| usage.context = None);
                self.todos.change(rev, Vec::clear);
                self.put_line(Body::Reset)
            }
            Signal::PermissionPrompt(prompt) => self.put_line(Body::Notice(Notice {
                level: Level::Warning,
                text: owned(prompt.prompt).unwrap_or_default(),
            })),
            Signal::Error(fault) => self.put_line(Body::Failure {
                name: owned(fault.name),
                text: owned(fault.message.or(fault.name)).unwrap_or_default(),
            }),
            Signal::ToolUseSummary(None) | Signal::Other => Heard::Housekeeping,
        }
    }

    fn rate_limit(&mut self, limit: &RateLimit<'_>) -> Heard {
        let rev = self.rev();
        let plan = PlanLimit {
            status: owned(limit.status),
            window: owned(limit.window),
            resets_at: limit.resets_at,
            used: limit.utilization,
        };
        self.usage.change(rev, |usage| usage.plan = Some(plan));
        Heard::Shown
    }

    /// Where a prompt stands in the CLI's own queue. Notes know it better, where there are any.
    fn lifecycle(&mut self, command: &CommandLifecycle<'_>) -> Heard {
        let state = match command.state.map(Text::decode).as_deref() {
            Some("completed") => PromptState::Done,
            Some("cancelled") => PromptState::Cancelled,
            _ => return Heard::Housekeeping,
        };
        match command.command_uuid {
            Some(id) if !self.turns.noted => {
                self.prompt_became(&ItemId::prompt(&id.decode()), state)
            }
            _ => Heard::Housekeeping,
        }
    }

    pub(super) fn record(&mut self, record: &Record<'_>) -> Heard {
        match record {
            Record::Title(Some(title)) => {
                let (rev, title) = (self.rev(), title.decode().into_owned());
                self.head.change(rev, |head| head.title = Some(title));
                Heard::Shown
            }
            Record::Progress(progress) => {
                self.progressed(progress.tool_use_id, None, progress.name)
            }
            Record::CostState(Some(cost)) => {
                self.cost_state(*cost);
                Heard::Shown
            }
            Record::Title(None)
            | Record::CostState(None)
            | Record::QueueOperation(_)
            | Record::Other => Heard::Housekeeping,
        }
    }
}
