//! Towpath's own notes about the session.

use std::collections::BTreeMap;

use serde_json::Value;
use wire::note::{ExitCause, Note, Rewind, Setting, TurnEnding, WatchChoice};

use super::requests::RequestResult;
use super::status::ProcessState;
use super::{Fold, Visibility};
use crate::conversation::TurnEnd;
use crate::item::{AgentProcessEvent, ItemBody, ItemId, NoticeItem, NoticeLevel};
use crate::status::SignInNeed;
use crate::wording::{budget_spent, dollars};

/// How much of the value of a changed option is shown.
const MAX_VALUE_CHARS: usize = 80;

impl Fold {
    pub(super) fn note(&mut self, note: &Note) -> Visibility {
        self.turns.has_notes = true;
        self.abandon_import();
        match note {
            Note::PromptQueued { prompt, text, images, delivery, by } => {
                self.prompt_queued(prompt.to_string(), text, *images, *delivery, by);
            }
            Note::PromptEdited { prompt, text } => self.prompt_edited(&prompt.to_string(), text),
            Note::PromptDeliveryChanged { prompt, delivery } => {
                self.prompt_delivery_changed(&prompt.to_string(), *delivery);
            }
            Note::PromptMoved { prompt, before } => {
                let before = before.map(|it| it.to_string());
                self.prompt_moved(&prompt.to_string(), before.as_deref());
            }
            Note::PromptStateChanged { prompt, state } => {
                self.prompt_state_noted(&prompt.to_string(), *state);
            }
            Note::TurnStarted { turn, prompts } => {
                self.signals.sign_in = None;
                self.begin_numbered_turn(*turn);
                for prompt in prompts {
                    self.prompt_opens_turn(&prompt.to_string());
                }
            }
            Note::TurnEnded { turn, ending } => self.turn_over(*turn, ending),
            Note::RequestOpened { request, expires, rules, choices, .. } => {
                self.name_acp_request(request);
                self.open_request_without_id(request);
                let rev = self.rev();
                self.requests.change(rev, |requests| {
                    if let Some(known) = requests.iter_mut().find(|known| known.id == *request) {
                        known.expires = *expires;
                        known.rules.clone_from(rules);
                        known.choices.clone_from(choices);
                    }
                });
            }
            Note::RequestResolved { request, outcome, by, message, answers, choice } => {
                return self.resolve(
                    request,
                    RequestResult {
                        outcome: Some(*outcome),
                        by: by.clone(),
                        message: message.clone(),
                        answers: answers.clone(),
                        choice: choice.clone(),
                    },
                );
            }
            Note::InterruptRequested { .. } => {
                self.signals.interrupting = self.turns.is_open();
                self.turn_interrupted();
            }
            Note::QueueHeld { .. } | Note::QueueResumed { .. } | Note::BudgetRaised { .. } => {
                self.queue_changed(note);
            }
            Note::PromptScheduled { .. }
            | Note::ScheduleDue { .. }
            | Note::ScheduleRemoved { .. } => {
                self.schedule_changed(note);
            }
            Note::AgentStarted { resumed } => return self.agent_started(*resumed),
            Note::AgentReady { version } => {
                self.signals.process_ready();
                if version.is_some() {
                    let rev = self.rev();
                    self.head.change(rev, |head| head.version.clone_from(version));
                }
            }
            Note::AgentExited { cause } => return self.agent_stopped(cause),
            Note::SettingChanged { setting, by } => self.setting_changed(setting, &by.name),
            Note::Rewound { prompt, what, by } => {
                self.rewound(&prompt.to_string(), *what, &by.name);
            }
            Note::TitleChanged { title } => {
                let rev = self.rev();
                self.head.change(rev, |head| head.title = Some(title.clone()));
            }
            Note::Stalled { seconds } => self.signals.stalled = Some(*seconds),
            Note::Imported { file, entries, turns, .. } => {
                let lines = if *entries == 1 { "line" } else { "lines" };
                let text = format!("Imported {entries} {lines} from {file}");
                self.add_notice(NoticeLevel::Info, text);
                self.begin_import(*entries, *turns);
            }
            Note::ContinuedIn { session, agent } => {
                let text = format!("Continued with {agent} in session `{}`", short(*session));
                self.add_notice(NoticeLevel::Info, text);
            }
            Note::ContinuesFrom { session, agent } => {
                let text = format!("Continues session `{}` of {agent}", short(*session));
                self.add_notice(NoticeLevel::Info, text);
            }
            Note::TakenOver { .. } | Note::Tail { .. } => self.worker_changed(note),
            Note::Notice { text } => self.add_notice(NoticeLevel::Warning, text.clone()),
            Note::Problem { text } => self.add_notice(NoticeLevel::Error, text.clone()),
            Note::SignInNeeded { text, methods } => self.ask_to_sign_in(text, methods),
        }
        Visibility::Visible
    }

    /// Another machine drives the session, or had still recorded something.
    fn worker_changed(&mut self, note: &Note) {
        let (level, text) = match note {
            Note::TakenOver { from, to, released: true } => {
                (NoticeLevel::Info, format!("Moved from worker `{from}` to `{to}`"))
            }
            Note::TakenOver { from, to, released: false } => {
                let text = format!("Worker `{to}` has taken the session over from `{from}`");
                (NoticeLevel::Warning, text)
            }
            Note::Tail { worker, text, .. } => {
                let before = format!("Worker `{worker}` had also recorded");
                let text =
                    format!("{before}, without knowing that the session was taken over:\n\n{text}");
                (NoticeLevel::Warning, text)
            }
            _ => return,
        };
        self.add_notice(level, text);
    }

    /// What is asked for stays in the status; the conversation says when it was.
    fn ask_to_sign_in(&mut self, text: &str, methods: &[String]) {
        let ways = match methods {
            [] => String::new(),
            methods => format!(" The agent offers: {}.", methods.join("; ")),
        };
        self.add_notice(NoticeLevel::Error, format!("{text}{ways}"));
        let (text, methods) = (text.to_owned(), methods.to_vec());
        self.signals.sign_in = Some(SignInNeed { text, methods });
    }

    fn rewound(&mut self, prompt: &str, what: Rewind, by: &str) {
        if what != Rewind::Files {
            self.mark_rewound(&ItemId::prompt(prompt));
        }
        let what = match what {
            Rewind::Files => "the files",
            Rewind::Conversation => "the conversation",
            Rewind::Both => "the files and the conversation",
        };
        self.add_notice(NoticeLevel::Info, format!("{by} rewound {what}"));
    }

    /// Queued prompts wait, or are sent again.
    fn queue_changed(&mut self, note: &Note) {
        match note {
            Note::QueueHeld { reason, .. } => {
                // Clients that cannot ask say at least why nothing happens.
                if let Some(spent) = budget_spent(reason) {
                    self.add_notice(NoticeLevel::Warning, format!("{spent}, so the queue waits"));
                }
                self.signals.queue_hold = Some(reason.clone());
            }
            Note::QueueResumed { .. } => self.signals.queue_hold = None,
            Note::BudgetRaised { amount, of_day, by } => {
                let budget = if *of_day { " today" } else { "" };
                let text = format!("{} allowed {} more{budget}", by.name, dollars(*amount));
                self.add_notice(NoticeLevel::Info, text);
            }
            _ => {}
        }
    }

    fn schedule_changed(&mut self, note: &Note) {
        match note {
            Note::PromptScheduled { schedule, when, next, by, zone, .. } => {
                self.signals.schedules.push((*schedule, *next));
                let text = format!("{} scheduled a prompt: {when} ({zone})", by.name);
                self.add_notice(NoticeLevel::Info, text);
            }
            Note::ScheduleDue { schedule, prompt, missed, next, .. } => {
                self.schedule_due(*schedule, prompt.is_some(), *missed, *next);
            }
            Note::ScheduleRemoved { schedule, by } => {
                self.signals.schedules.retain(|(known, _)| known != schedule);
                let text = format!("{} removed a scheduled prompt", by.name);
                self.add_notice(NoticeLevel::Info, text);
            }
            _ => {}
        }
    }

    /// A prompt that comes in time is seen by itself. What is missing is said.
    fn schedule_due(&mut self, schedule: uuid::Uuid, sent: bool, missed: u64, next: Option<u64>) {
        let known = self.signals.schedules.iter_mut().find(|(known, _)| *known == schedule);
        match (known, next) {
            (Some(known), Some(next)) => known.1 = next,
            _ => self.signals.schedules.retain(|(known, _)| *known != schedule),
        }
        if !sent {
            let text = "A scheduled prompt was left out: the last one still waits in the queue";
            self.add_notice(NoticeLevel::Info, text.to_owned());
        }
        if missed > 0 {
            let times = if missed == 1 { "time" } else { "times" };
            let text = format!(
                "A scheduled prompt was also due {missed} {times} while nothing could send it; \
                 it is sent once"
            );
            self.add_notice(NoticeLevel::Info, text);
        }
    }

    fn add_notice(&mut self, level: NoticeLevel, text: String) {
        self.add_line_item(ItemBody::Notice(NoticeItem { level, text }));
    }

    fn turn_over(&mut self, number: u64, ending: &TurnEnding) {
        let Some(turn) = self.turns.record(number).map(|record| &record.turn) else { return };
        let at = self.entry.at;
        let known = turn.end.clone();
        let measured = at.zip(turn.started).map(|(at, started)| at.saturating_sub(started));
        let end = TurnEnd {
            ending: Some(ending.clone()),
            reason: known.as_ref().and_then(|end| end.reason.clone()),
            at,
            duration_ms: known.and_then(|end| end.duration_ms).or(measured),
        };
        if self.turns.open() == Some(number) {
            self.close_turn(Some(end));
        } else {
            self.change_turn(number, |record| record.turn.end = Some(end));
        }
    }

    fn agent_started(&mut self, resumed: bool) -> Visibility {
        self.signals.process = ProcessState::Starting;
        self.signals.sign_in = None;
        self.cost.resumed = true;
        if resumed {
            self.add_line_item(ItemBody::Agent(AgentProcessEvent::Started { resumed }));
        }
        Visibility::Visible
    }

    fn agent_stopped(&mut self, cause: &ExitCause) -> Visibility {
        self.signals.process = ProcessState::Stopped(cause.clone());
        self.finish_messages();
        self.acp_process_ended();
        // A parked or closed session shows that in its status; it needs no item.
        if !matches!(cause, ExitCause::Parked | ExitCause::Closed) {
            let event = AgentProcessEvent::Stopped { cause: cause.clone() };
            self.add_line_item(ItemBody::Agent(event));
        }
        Visibility::Visible
    }

    fn setting_changed(&mut self, setting: &Setting, by: &str) {
        let rev = self.rev();
        let text = self.head.change(rev, |head| match setting {
            Setting::Model(model) => {
                head.model.clone_from(model);
                let model = model.as_deref().unwrap_or("the default");
                format!("{by} set the model to {model}")
            }
            Setting::PermissionMode(mode) => {
                head.mode = Some(mode.clone());
                format!("{by} set the permission mode to {mode}")
            }
            Setting::Effort(effort) => {
                head.effort = Some(effort.clone());
                format!("{by} set the effort to {effort}")
            }
            Setting::AgentOption { id, value } => format!("{by} set {id} to {value}"),
            Setting::Watch(WatchChoice::Own(_)) => {
                format!("{by} turned on actions on file changes")
            }
            Setting::Watch(WatchChoice::Off) => format!("{by} turned off actions on file changes"),
            Setting::Watch(WatchChoice::Inherit) => {
                format!("{by} left actions on file changes to the server")
            }
            Setting::Options(values) => {
                let text = |name: &str| Some(values.get(name)?.as_str().map(str::to_owned));
                if let Some(mode) = text("mode") {
                    head.mode = mode;
                }
                if let Some(effort) = text("effort") {
                    head.effort = effort;
                }
                format!("{by} changed {}", describe_options(values))
            }
        });
        self.add_notice(NoticeLevel::Info, text);
    }
}

/// Changed options with their values, each on at most a line.
fn describe_options(values: &BTreeMap<String, Value>) -> String {
    let changes = values.iter().map(|(name, value)| {
        let text = match value {
            Value::Null => "the default".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let mut text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((end, _)) = text.char_indices().nth(MAX_VALUE_CHARS) {
            text.truncate(end);
            text.push('…');
        }
        format!("{name} to {text}")
    });
    changes.collect::<Vec<_>>().join(", ")
}

/// The beginning of a session's id, as lists show it.
fn short(session: uuid::Uuid) -> String {
    session.simple().to_string()[..8].to_owned()
}
