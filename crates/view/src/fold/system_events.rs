//! The CLI's messages beside the dialogue: `system` lines, signals, and the extra entries of session
//! files.

use wire::event::{
    ApiRetry, CommandLifecycle, CompactBoundary, Event, Hook, HookPhase, PermissionDenied,
    RateLimit, Record, Signal, StatusUpdate as WireStatus, System, SystemNotice as WireNotice,
};
use wire::json::{Raw, Shape, Text};
use wire::note::PromptState;

use super::prompts::command_output;
use super::status::RetryState;
use super::{Fold, RAW_BYTES, Visibility, prefix};
use crate::item::{CompactionItem, HookRun, ItemBody, ItemId, NoticeItem, NoticeLevel, RetryItem};
use crate::usage::PlanLimit;

/// How many windows of a plan are shown. There are two or three.
const MAX_WINDOWS: usize = 8;

/// A window of a plan, such as `five_hour`.
fn plan_window(name: Text<'_>, window: Raw<'_>) -> PlanLimit {
    PlanLimit {
        status: owned(window.get("status").and_then(Raw::text)),
        window: Some(prefix(&name.decode(), RAW_BYTES)),
        resets_at: window.get("resetsAt").and_then(Raw::number),
        used: window.get("utilization").and_then(Raw::number),
    }
}

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
    pub(super) fn system(&mut self, system: &System<'_>) -> Visibility {
        match system {
            System::Status(status) => self.system_status(status),
            System::CompactBoundary(boundary) => self.compacted(boundary),
            System::ApiRetry(retry) => self.api_retry(retry),
            System::Task(task) => self.task(task),
            System::ThinkingTokens(thinking) => {
                self.signals.thinking_tokens =
                    thinking.estimated_tokens.max(self.signals.thinking_tokens);
                Visibility::Hidden
            }
            System::PermissionDenied(denied) => self.permission_denied(denied),
            System::Hook(hook) => self.hook(hook),
            System::Notice(notice) => self.notice(notice),
            System::SessionState(_) | System::Other => Visibility::Hidden,
        }
    }

    fn system_status(&mut self, status: &WireStatus<'_>) -> Visibility {
        let word = status.status.map(Text::decode);
        self.signals.compacting = word.as_deref() == Some("compacting");
        if self.signals.compacting && !self.turns.has_notes {
            self.working_turn();
        }
        if let Some(mode) = owned(status.permission_mode) {
            let rev = self.rev();
            if let Some(mut agent) = self.agent.value.clone() {
                agent.mode = Some(mode.clone());
                self.describe_agent(agent);
            }
            self.head.change(rev, |head| head.mode = Some(mode));
            return Visibility::Visible;
        }
        match status.compact_result.map(Text::decode).as_deref() {
            Some(result) if result != "success" => {
                let text = format!("Could not compact the conversation: {result}");
                self.add_line_item(ItemBody::Notice(NoticeItem {
                    level: NoticeLevel::Warning,
                    text,
                }))
            }
            _ if self.signals.compacting => Visibility::Visible,
            _ => Visibility::Hidden,
        }
    }

    fn compacted(&mut self, boundary: &CompactBoundary<'_>) -> Visibility {
        self.signals.compacting = false;
        let compaction = CompactionItem {
            trigger: owned(boundary.trigger),
            before: boundary.pre_tokens,
            after: boundary.post_tokens,
            summary: String::new(),
        };
        let id = self.add_work_item(ItemBody::Compaction(compaction));
        self.prompts.pending_summary = Some(id);
        let rev = self.rev();
        self.usage.change(rev, |usage| usage.context = boundary.post_tokens);
        Visibility::Visible
    }

    fn api_retry(&mut self, event: &ApiRetry<'_>) -> Visibility {
        let (attempt, max_attempts) = (event.attempt, event.max_retries);
        let delay_ms = whole(event.retry_delay_ms);
        self.signals.retrying = Some(RetryState { attempt, max_attempts, delay_ms });
        let fault = event.error.unwrap_or_default();
        let error = fault.text().map(|it| prefix(&it, RAW_BYTES)).unwrap_or_default();
        let retry =
            RetryItem { attempt, max_attempts, delay_ms, status: event.error_status, error };
        let known = self.signals.retry_item.clone().filter(|id| self.items.has(id));
        if let Some(id) = known {
            self.change(&id, |item| item.body = ItemBody::Retry(retry));
        } else {
            self.signals.retry_item = Some(self.add_work_item(ItemBody::Retry(retry)));
        }
        Visibility::Visible
    }

    /// Adds an item without an id of its own to the turn of the agent's work.
    fn add_work_item(&mut self, body: ItemBody) -> ItemId {
        let turn = self.working_turn();
        let position = self.next_position();
        let id = ItemId::line(position);
        self.add_item(id.clone(), turn, None, position, body);
        id
    }

    fn permission_denied(&mut self, denied: &PermissionDenied<'_>) -> Visibility {
        let call = denied.tool_use_id.map(|it| ItemId::call(&it.decode()));
        let message = owned(denied.message);
        if call.is_some_and(|call| self.call_denied(&call, message.clone())) {
            return Visibility::Visible;
        }
        let text = message.or_else(|| owned(denied.tool_name)).unwrap_or_default();
        self.add_line_item(ItemBody::Notice(NoticeItem { level: NoticeLevel::Warning, text }))
    }

    fn hook(&mut self, hook: &Hook<'_>) -> Visibility {
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
        if let Some(id) = known.as_ref().filter(|id| self.items.has(id)) {
            self.change(id, |item| item.body = ItemBody::Hook(run));
            return Visibility::Visible;
        }
        let turn = self.working_turn();
        let position = self.next_position();
        let id = known.unwrap_or_else(|| ItemId::line(position));
        self.add_item(id, turn, None, position, ItemBody::Hook(run));
        Visibility::Visible
    }

    fn notice(&mut self, notice: &WireNotice<'_>) -> Visibility {
        let Some(text) = notice.text.map(Text::decode) else { return Visibility::Hidden };
        if let Some(output) = command_output(&text) {
            return self.show_command_output(&output);
        }
        if text.is_empty() {
            return Visibility::Hidden;
        }
        let level = match notice.level.map(Text::decode).as_deref() {
            Some("warning" | "warn" | "high") => NoticeLevel::Warning,
            Some("error") => NoticeLevel::Error,
            _ => NoticeLevel::Info,
        };
        self.add_line_item(ItemBody::Notice(NoticeItem { level, text: text.into_owned() }))
    }

    pub(super) fn signal(&mut self, event: &Event<'_>, signal: &Signal<'_>) -> Visibility {
        match signal {
            Signal::RateLimit(limit) => self.rate_limit(limit),
            Signal::ToolProgress(progress) => {
                // The progress of a shell has an id of its own, and its call as the parent.
                let call = event.envelope.parent_tool_use_id.or(progress.tool_use_id);
                self.call_progressed(call, whole(progress.elapsed_seconds), None)
            }
            Signal::ToolUseSummary(Some(text)) => {
                self.add_line_item(ItemBody::Notice(NoticeItem {
                    level: NoticeLevel::Info,
                    text: text.decode().into_owned(),
                }))
            }
            Signal::PromptSuggestion(suggestion) => {
                let (rev, suggestion) = (self.rev(), owned(*suggestion));
                self.head.change(rev, |head| head.suggestion = suggestion);
                Visibility::Visible
            }
            Signal::CommandLifecycle(command) => self.command_lifecycle(command),
            Signal::ConversationReset(_) => {
                let rev = self.rev();
                self.usage.change(rev, |usage| usage.context = None);
                self.todos.change(rev, Vec::clear);
                self.add_line_item(ItemBody::Reset)
            }
            Signal::PermissionPrompt(prompt) => self.add_line_item(ItemBody::Notice(NoticeItem {
                level: NoticeLevel::Warning,
                text: owned(prompt.prompt).unwrap_or_default(),
            })),
            Signal::Error(fault) => self.add_line_item(ItemBody::Failure {
                name: owned(fault.name),
                text: fault.text().map(|it| prefix(&it, RAW_BYTES)).unwrap_or_default(),
            }),
            Signal::ToolUseSummary(None) | Signal::Other => Visibility::Hidden,
        }
    }

    fn rate_limit(&mut self, limit: &RateLimit<'_>) -> Visibility {
        let rev = self.rev();
        let plan = PlanLimit {
            status: owned(limit.status),
            window: owned(limit.window),
            resets_at: limit.resets_at,
            used: limit.utilization,
        };
        let windows = limit.windows.into_iter().flat_map(Raw::fields).take(MAX_WINDOWS);
        let windows: Vec<PlanLimit> =
            windows.map(|(name, window)| plan_window(name, window)).collect();
        self.usage.change(rev, |usage| {
            if !windows.is_empty() {
                usage.windows = windows;
            } else if plan.window.is_some() {
                // Earlier versions report one window at a time.
                usage.windows.retain(|known| known.window != plan.window);
                usage.windows.push(plan.clone());
                usage.windows.truncate(MAX_WINDOWS);
            }
            usage.plan = Some(plan);
        });
        Visibility::Visible
    }

    /// The state of a prompt in the CLI's own queue. It is ignored if there are notes, which are more
    /// precise.
    fn command_lifecycle(&mut self, command: &CommandLifecycle<'_>) -> Visibility {
        let state = match command.state.map(Text::decode).as_deref() {
            Some("completed") => PromptState::Done,
            Some("cancelled") => PromptState::Cancelled,
            _ => return Visibility::Hidden,
        };
        match command.command_uuid {
            Some(id) if !self.turns.has_notes => {
                self.advance_prompt(&ItemId::prompt(&id.decode()), state)
            }
            _ => Visibility::Hidden,
        }
    }

    pub(super) fn record(&mut self, record: &Record<'_>) -> Visibility {
        match record {
            Record::Title(Some(title)) => {
                let (rev, title) = (self.rev(), title.decode().into_owned());
                self.head.change(rev, |head| head.title = Some(title));
                Visibility::Visible
            }
            Record::Progress(progress) => {
                self.call_progressed(progress.tool_use_id, None, progress.name)
            }
            Record::CostState(Some(cost)) => {
                self.add_recorded_cost(*cost);
                Visibility::Visible
            }
            Record::Title(None)
            | Record::CostState(None)
            | Record::QueueOperation(_)
            | Record::Other => Visibility::Hidden,
        }
    }

    /// An `attachment` of a session file, which the `wire` crate does not parse.
    ///
    /// Most attachments are for the model alone. Hook runs, and prompts that were sent while the agent
    /// worked, are in no other line of the file, so they are shown.
    pub(super) fn attachment(&mut self, event: &Event<'_>, bytes: &[u8]) -> Visibility {
        let line = std::str::from_utf8(bytes).ok().and_then(Raw::parse);
        let Some(attachment) = line.and_then(|line| line.get("attachment")) else {
            return Visibility::Hidden;
        };
        match string(attachment, "type").as_deref() {
            Some("queued_command") => {
                let prompt = attachment.get("prompt").map(prompt_text).unwrap_or_default();
                if prompt.is_empty() {
                    return Visibility::Hidden;
                }
                self.prompt_sent_during_turn(prompt, event)
            }
            Some(kind) if kind.starts_with("hook_") => self.hook_attachment(kind, attachment),
            _ => Visibility::Hidden,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "exit codes are small")]
    fn hook_attachment(&mut self, kind: &str, attachment: Raw<'_>) -> Visibility {
        let Some(name) = string(attachment, "hookName") else { return Visibility::Hidden };
        let output = string(attachment, "stdout").filter(|output| !output.is_empty());
        let exit_code = attachment.get("exitCode").and_then(Raw::number);
        let run = HookRun {
            name,
            event: string(attachment, "hookEvent").unwrap_or_default(),
            output: output.or_else(|| string(attachment, "stderr")).unwrap_or_default(),
            exit_code: exit_code.map(|code| code as i64),
            outcome: Some(kind.trim_start_matches("hook_").to_owned()),
        };
        self.add_line_item(ItemBody::Hook(run))
    }
}

fn string(object: Raw<'_>, key: &str) -> Option<String> {
    Some(object.get(key)?.text()?.decode().into_owned())
}

/// The text of a prompt that is a string or a list of blocks.
fn prompt_text(prompt: Raw<'_>) -> String {
    if prompt.shape() == Shape::String {
        return prompt.text().map(|it| it.decode().into_owned()).unwrap_or_default();
    }
    let texts: Vec<_> = prompt.items().filter_map(|block| string(block, "text")).collect();
    texts.join("\n")
}
