//! What Towpath itself says of the session.

use wire::note::{Cause, Note, Rewind, Setting, TurnEnding};

use super::asking::Answer;
use super::phase::Process;
use super::{Fold, Heard};
use crate::item::{AgentNews, Body, ItemId, Level, Notice};
use crate::turn::TurnEnd;

impl Fold {
    pub(super) fn note(&mut self, note: &Note) -> Heard {
        self.turns.noted = true;
        match note {
            Note::PromptQueued { prompt, text, images, delivery, by } => {
                self.queued(prompt.to_string(), text, *images, *delivery, by);
            }
            Note::PromptEdited { prompt, text } => self.edited(&prompt.to_string(), text),
            Note::PromptMoved { prompt, before } => {
                let before = before.map(|it| it.to_string());
                self.moved(&prompt.to_string(), before.as_deref());
            }
            Note::PromptBecame { prompt, state } => self.became(&prompt.to_string(), *state),
            Note::TurnBegan { turn, prompts } => {
                self.begin_turn_called(*turn);
                for prompt in prompts {
                    self.opens_turn(&prompt.to_string());
                }
            }
            Note::TurnOver { turn, ending } => self.turn_over(*turn, ending),
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
                    Answer {
                        outcome: Some(*outcome),
                        by: by.clone(),
                        message: message.clone(),
                        answers: answers.clone(),
                    },
                );
            }
            Note::InterruptAsked { .. } => {
                self.signs.interrupting = self.turns.is_open();
                self.interrupted();
            }
            Note::AgentStarted { resumed } => return self.agent_started(*resumed),
            Note::AgentReady { version } => {
                self.signs.ready();
                if version.is_some() {
                    let rev = self.rev();
                    self.head.change(rev, |head| head.version.clone_from(version));
                }
            }
            Note::AgentGone { cause } => return self.agent_gone(cause),
            Note::SettingChanged { setting, by } => self.setting_changed(setting, &by.name),
            Note::Rewound { prompt, what, by } => {
                if *what != Rewind::Files {
                    self.forget_from(&ItemId::prompt(&prompt.to_string()));
                }
                let what = match what {
                    Rewind::Files => "the files",
                    Rewind::Conversation => "the conversation",
                    Rewind::Both => "the files and the conversation",
                };
                self.tell(Level::Info, format!("{} put back {what}", by.name));
            }
            Note::Named { title } => {
                let rev = self.rev();
                self.head.change(rev, |head| head.title = Some(title.clone()));
            }
            Note::Stalled { seconds } => self.signs.stalled = Some(*seconds),
            Note::Trouble { text } => self.tell(Level::Error, text.clone()),
        }
        Heard::Shown
    }

    fn tell(&mut self, level: Level, text: String) {
        self.put_line(Body::Notice(Notice { level, text }));
    }

    fn turn_over(&mut self, number: u64, ending: &TurnEnding) {
        let Some(turn) = self.turns.record(number).map(|record| &record.turn) else { return };
        let at = self.now.at;
        let known = turn.end.clone();
        let measured = at.zip(turn.began).map(|(at, began)| at.saturating_sub(began));
        let end = TurnEnd {
            how: Some(ending.clone()),
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

    fn agent_started(&mut self, resumed: bool) -> Heard {
        self.signs.process = Process::Starting;
        self.money.resumed = true;
        if resumed {
            self.put_line(Body::Agent(AgentNews::Started { resumed }));
        }
        Heard::Shown
    }

    fn agent_gone(&mut self, cause: &Cause) -> Heard {
        self.signs.process = Process::Gone(cause.clone());
        self.finish_speech();
        // That a session was put to rest or closed is its status, and nothing that went wrong.
        if !matches!(cause, Cause::Parked | Cause::Closed) {
            self.put_line(Body::Agent(AgentNews::Gone { cause: cause.clone() }));
        }
        Heard::Shown
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
            Setting::Watch(Some(_)) => format!("{by} has changed files acted on from here on"),
            Setting::Watch(None) => format!("{by} has changed files left alone from here on"),
        });
        self.tell(Level::Info, text);
    }
}
