//! Towpath's own notes about the session.

use wire::note::{ExitCause, Note, Rewind, Setting, TurnEnding};

use super::requests::RequestResult;
use super::status::ProcessState;
use super::{Fold, Visibility};
use crate::conversation::TurnEnd;
use crate::item::{AgentProcessEvent, ItemBody, ItemId, NoticeItem, NoticeLevel};

impl Fold {
    pub(super) fn note(&mut self, note: &Note) -> Visibility {
        self.turns.has_notes = true;
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
                self.begin_numbered_turn(*turn);
                for prompt in prompts {
                    self.prompt_opens_turn(&prompt.to_string());
                }
            }
            Note::TurnEnded { turn, ending } => self.turn_over(*turn, ending),
            Note::RequestOpened { request, expires, rules, .. } => {
                let rev = self.rev();
                self.requests.change(rev, |requests| {
                    if let Some(known) = requests.iter_mut().find(|known| known.id == *request) {
                        known.expires = *expires;
                        known.rules.clone_from(rules);
                    }
                });
            }
            Note::RequestResolved { request, outcome, by, message, answers } => {
                return self.resolve(
                    request,
                    RequestResult {
                        outcome: Some(*outcome),
                        by: by.clone(),
                        message: message.clone(),
                        answers: answers.clone(),
                    },
                );
            }
            Note::InterruptRequested { .. } => {
                self.signals.interrupting = self.turns.is_open();
                self.turn_interrupted();
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
                if *what != Rewind::Files {
                    self.mark_rewound(&ItemId::prompt(&prompt.to_string()));
                }
                let what = match what {
                    Rewind::Files => "the files",
                    Rewind::Conversation => "the conversation",
                    Rewind::Both => "the files and the conversation",
                };
                self.add_notice(NoticeLevel::Info, format!("{} rewound {what}", by.name));
            }
            Note::TitleChanged { title } => {
                let rev = self.rev();
                self.head.change(rev, |head| head.title = Some(title.clone()));
            }
            Note::Stalled { seconds } => self.signals.stalled = Some(*seconds),
            Note::Problem { text } => self.add_notice(NoticeLevel::Error, text.clone()),
        }
        Visibility::Visible
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
        self.cost.resumed = true;
        if resumed {
            self.add_line_item(ItemBody::Agent(AgentProcessEvent::Started { resumed }));
        }
        Visibility::Visible
    }

    fn agent_stopped(&mut self, cause: &ExitCause) -> Visibility {
        self.signals.process = ProcessState::Stopped(cause.clone());
        self.finish_messages();
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
            Setting::Watch(Some(_)) => format!("{by} turned on actions on file changes"),
            Setting::Watch(None) => format!("{by} turned off actions on file changes"),
        });
        self.add_notice(NoticeLevel::Info, text);
    }
}
