//! The machine by example. What must hold whatever happens is in the simulation.

use journal::{SessionId, Status};
use uuid::Uuid;
use wire::note::{
    Actor, Cause, Delivery, Note, Outcome, PromptState, QueueFate, Rewind, Setting, TurnEnding,
    Wants,
};

use super::{
    Answer, Command, Done, Effect, Gone, Input, Limits, Machine, NewPrompt, Origins, Reach,
    Refusal, Remember, Reply, Start, Ticket,
};
use crate::heard::{Asked, Ended, Heard};
use crate::options::Options;

fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// A machine with a clock of its own, and what it did so far.
struct Stage {
    machine: Machine,
    now: u64,
    tickets: u64,
    replies: Vec<(Ticket, Reply)>,
    notes: Vec<Note>,
    said: Vec<String>,
    started: Vec<Start>,
    ended: u32,
    killed: u32,
}

impl Stage {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self::from(Origins::new(0, SessionId(id(0)), limits, Options::default()))
    }

    fn from(origins: Origins) -> Self {
        Self {
            machine: Machine::new(origins),
            now: 0,
            tickets: 0,
            replies: Vec::new(),
            notes: Vec::new(),
            said: Vec::new(),
            started: Vec::new(),
            ended: 0,
            killed: 0,
        }
    }

    fn on(&mut self, input: Input) {
        for effect in self.machine.on(self.now, input) {
            match effect {
                Effect::Note(note) => self.notes.push(note),
                Effect::Say(saying) => self.said.push(saying.as_str().to_owned()),
                Effect::Reply(ticket, reply) => self.replies.push((ticket, reply)),
                Effect::Start(start) => self.started.push(start),
                Effect::End { .. } => self.ended += 1,
                Effect::Kill => self.killed += 1,
                Effect::Prompt(_)
                | Effect::Request(_)
                | Effect::Grant(_)
                | Effect::Options(_)
                | Effect::Settle => {}
            }
        }
    }

    fn command(&mut self, command: Command) -> Option<Reply> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.on(Input::Command { ticket, command });
        self.replies.iter().find(|(it, _)| *it == ticket).map(|(_, reply)| reply.clone())
    }

    fn prompt(&mut self, number: u128, delivery: Delivery) -> Reply {
        let prompt = NewPrompt {
            id: id(number),
            text: format!("prompt {number}"),
            images: Vec::new(),
            delivery,
            by: ann(),
        };
        self.command(Command::Prompt(prompt)).expect("a reply at once")
    }

    fn hear(&mut self, heard: Heard) {
        self.on(Input::Heard(heard));
    }

    /// Time passes until a moment, with a tick at every deadline before it.
    fn wait(&mut self, millis: u64) {
        let end = self.now + millis;
        let mut ticks = 0;
        while let Some(at) = self.machine.deadline().filter(|at| *at <= end) {
            ticks += 1;
            assert!(ticks < 1000, "a deadline that is never done with");
            self.now = self.now.max(at);
            self.on(Input::Tick);
        }
        self.now = end;
        self.on(Input::Tick);
    }

    /// The id of the last request to the agent that says `subtype`.
    fn request_id(&self, subtype: &str) -> String {
        let line = self.said.iter().rev().find(|line| line.contains(subtype));
        let line = line.unwrap_or_else(|| panic!("no {subtype} in {:?}", self.said));
        let line = wire::json::Raw::parse(line).unwrap();
        line.get("request_id").unwrap().text().unwrap().into()
    }

    fn answer(&mut self, subtype: &str, answer: Result<Option<String>, String>) {
        let request = self.request_id(subtype);
        self.hear(Heard::Answered { request, answer });
    }

    /// Brings the agent up.
    fn ready(&mut self) {
        self.on(Input::AgentStarted);
        self.answer("initialize", Ok(Some(r#"{"claude_code_version":"2.1.325"}"#.to_owned())));
    }

    /// A session whose agent is at work on prompt 1.
    fn at_work() -> Self {
        let mut stage = Self::new();
        stage.prompt(1, Delivery::Queue).unwrap();
        stage.ready();
        stage.hear(Heard::TurnBegan { conversation: Some("c".to_owned()) });
        stage.hear(Heard::Accepted(id(1)));
        stage
    }

    fn states(&self, number: u128) -> Vec<PromptState> {
        let state = |note: &Note| match note {
            Note::PromptBecame { prompt, state } if *prompt == id(number) => Some(*state),
            _ => None,
        };
        self.notes.iter().filter_map(state).collect()
    }

    fn endings(&self) -> Vec<(u64, TurnEnding)> {
        let ending = |note: &Note| match note {
            Note::TurnOver { turn, ending } => Some((*turn, ending.clone())),
            _ => None,
        };
        self.notes.iter().filter_map(ending).collect()
    }

    fn outcomes(&self) -> Vec<(String, Outcome)> {
        let outcome = |note: &Note| match note {
            Note::RequestResolved { request, outcome, .. } => Some((request.clone(), *outcome)),
            _ => None,
        };
        self.notes.iter().filter_map(outcome).collect()
    }

    fn said_prompts(&self) -> usize {
        self.said.iter().filter(|line| line.contains(r#""type":"user""#)).count()
    }
}

fn ended(prompts: &[u128]) -> Heard {
    let prompts = prompts.iter().map(|number| id(*number)).collect();
    Heard::TurnEnded(Ended { failure: None, prompts, unsolicited: false })
}

fn failed() -> Heard {
    let failure = Some("it failed".to_owned());
    Heard::TurnEnded(Ended { failure, prompts: Vec::new(), unsolicited: false })
}

fn asked(request: &str, command: &str) -> Heard {
    Heard::Asked(Asked {
        request: request.to_owned(),
        wants: Wants::Permission,
        tool_name: "Bash".to_owned(),
        tool_use_id: None,
        input: serde_json::json!({ "command": command }).to_string(),
        suggestions: None,
        agent: None,
    })
}

fn allow() -> Answer {
    Answer::Allow { input: None, remember: None, mode: None }
}

fn interrupt(queue: QueueFate) -> Command {
    Command::Interrupt { queue, by: ann() }
}

use PromptState::{Accepted, Cancelled, Indeterminate, Queued, Written};

#[test]
fn a_prompt_wakes_the_agent_and_is_done_when_its_turn_is() {
    let mut stage = Stage::new();
    assert_eq!(stage.prompt(1, Delivery::Queue), Ok(Done::Prompt(Queued)));
    assert_eq!(stage.started, [Start::Fresh]);
    assert_eq!(stage.said_prompts(), 0, "nothing is said before the agent is ready");
    stage.ready();
    assert_eq!(stage.said_prompts(), 1);
    stage.hear(Heard::TurnBegan { conversation: Some("c".to_owned()) });
    stage.hear(Heard::Accepted(id(1)));
    assert_eq!(stage.machine.status(), Status::Running);
    stage.hear(ended(&[1]));
    assert_eq!(stage.states(1), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.endings(), [(1, TurnEnding::Completed)]);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn the_same_prompt_again_is_answered_and_not_run_again() {
    let mut stage = Stage::at_work();
    assert_eq!(stage.prompt(1, Delivery::Queue), Ok(Done::Prompt(Accepted)));
    stage.hear(ended(&[]));
    assert_eq!(stage.prompt(1, Delivery::Queue), Ok(Done::Prompt(PromptState::Done)));
    assert_eq!(stage.said_prompts(), 1);
}

#[test]
fn prompts_that_wait_go_one_by_one_in_their_order() {
    let mut stage = Stage::at_work();
    for number in 2..=4 {
        stage.prompt(number, Delivery::Queue).unwrap();
    }
    stage.command(Command::MovePrompt { prompt: id(4), before: Some(id(2)) }).unwrap().unwrap();
    stage.command(Command::RemovePrompt { prompt: id(3) }).unwrap().unwrap();
    let text = "changed".to_owned();
    stage.command(Command::EditPrompt { prompt: id(2), text }).unwrap().unwrap();
    assert_eq!(stage.said_prompts(), 1);
    stage.hear(ended(&[1]));
    assert!(stage.said.last().unwrap().contains("prompt 4"));
    stage.hear(ended(&[]));
    assert!(stage.said.last().unwrap().contains("changed"));
    assert_eq!(stage.states(3), [Cancelled]);
    let refusal = stage.command(Command::EditPrompt { prompt: id(4), text: "no".to_owned() });
    assert_eq!(refusal, Some(Err(Refusal::NotWaiting(PromptState::Done))));
}

#[test]
fn a_steering_prompt_that_is_folded_in_ends_with_the_turn() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    assert!(stage.said.last().unwrap().contains(r#""priority":"next""#));
    stage.hear(Heard::Accepted(id(2)));
    stage.hear(ended(&[]));
    assert_eq!(stage.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.endings().len(), 1);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn a_steering_prompt_that_came_too_late_is_a_turn_of_its_own() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    stage.prompt(3, Delivery::Queue).unwrap();
    stage.hear(ended(&[1]));
    assert_eq!(stage.machine.status(), Status::Running, "the agent still has a prompt");
    assert_eq!(stage.said_prompts(), 2, "nothing is sent that could be merged with it");
    stage.hear(Heard::TurnBegan { conversation: None });
    stage.hear(Heard::Accepted(id(2)));
    stage.hear(ended(&[2]));
    assert_eq!(stage.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.said_prompts(), 3);
}

#[test]
fn a_prompt_the_agent_never_begins_with_is_indeterminate_and_not_sent_again() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    stage.hear(ended(&[1]));
    stage.hear(Heard::Idle);
    stage.wait(5000);
    assert_eq!(stage.states(2), [Written, Indeterminate]);
    assert_eq!(stage.said_prompts(), 2);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn the_agent_may_begin_by_itself_and_our_prompt_waits_for_its_turn() {
    let mut stage = Stage::at_work();
    stage.hear(ended(&[1]));
    // A background task ends just as somebody prompts.
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.hear(Heard::TurnBegan { conversation: None });
    let unsolicited = Ended { failure: None, prompts: Vec::new(), unsolicited: true };
    stage.hear(Heard::TurnEnded(unsolicited));
    assert_eq!(stage.states(2), [Written]);
    stage.hear(Heard::TurnBegan { conversation: None });
    stage.hear(Heard::Accepted(id(2)));
    stage.hear(ended(&[2]));
    assert_eq!(stage.states(2), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.endings().len(), 3);
}

#[test]
fn an_idle_agent_ends_a_turn_that_got_no_result() {
    let mut stage = Stage::at_work();
    stage.hear(Heard::Idle);
    assert!(stage.endings().is_empty(), "a result may be on its way");
    stage.wait(3000);
    assert!(matches!(stage.endings()[..], [(1, TurnEnding::Failed { .. })]));
    // The result after all: too late.
    stage.hear(ended(&[1]));
    assert_eq!(stage.endings().len(), 1);
}

#[test]
fn a_late_idle_of_the_turn_before_ends_nothing() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.hear(ended(&[1]));
    stage.hear(Heard::Idle);
    stage.wait(10_000);
    assert_eq!(stage.endings().len(), 1);
}

#[test]
fn an_interrupt_keeps_or_clears_the_queue_as_it_was_told() {
    for (queue, after) in [(QueueFate::Keep, vec![Written]), (QueueFate::Clear, vec![Cancelled])] {
        let mut stage = Stage::at_work();
        stage.prompt(2, Delivery::Queue).unwrap();
        stage.command(interrupt(queue)).unwrap().unwrap();
        stage.hear(failed());
        assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
        assert_eq!(stage.states(2), after);
    }
}

#[test]
fn an_agent_that_does_not_obey_is_ended_and_the_session_goes_on() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.command(interrupt(QueueFate::Keep)).unwrap().unwrap();
    stage.wait(4000);
    assert_eq!((stage.ended, stage.killed), (0, 0));
    stage.wait(2000);
    assert_eq!((stage.ended, stage.killed), (1, 0));
    stage.wait(21_000);
    assert!(stage.killed >= 1);
    stage.on(Input::AgentGone(Gone::Killed(9)));
    assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
    assert_eq!(stage.started, [Start::Fresh, Start::Resume]);
    stage.ready();
    assert_eq!(stage.states(2), [Written]);
}

#[test]
fn a_death_cuts_the_turn_settles_the_prompt_and_does_not_repeat_it() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    stage.on(Input::AgentGone(Gone::Killed(9)));
    assert_eq!(stage.endings(), [(1, TurnEnding::Cut { cause: Cause::Killed { signal: 9 } })]);
    assert_eq!(stage.states(1), [Written, Accepted, PromptState::Done]);
    assert_eq!(stage.outcomes(), [("r".to_owned(), Outcome::Withdrawn)]);
    assert_eq!(stage.machine.status(), Status::Dead);
    assert_eq!(stage.started.len(), 1, "nothing is to be done");
    stage.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(stage.started, [Start::Fresh, Start::Resume]);
}

#[test]
fn a_prompt_that_was_only_written_when_the_agent_died_is_indeterminate() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.ready();
    stage.on(Input::AgentGone(Gone::Lost));
    assert_eq!(stage.states(1), [Written, Indeterminate]);
    stage.wait(60_000);
    assert_eq!(stage.started.len(), 1);
}

#[test]
fn a_cut_turn_is_taken_up_again_only_where_that_is_wanted() {
    let options = Options { continue_after_cut: true, ..Options::default() };
    let mut stage = Stage::from(Origins::new(0, SessionId(id(0)), Limits::default(), options));
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.ready();
    stage.hear(Heard::TurnBegan { conversation: Some("c".to_owned()) });
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.on(Input::AgentGone(Gone::Killed(9)));
    stage.ready();
    assert!(stage.said.last().unwrap().contains("cut off"));
    stage.hear(ended(&[]));
    assert!(stage.said.last().unwrap().contains("prompt 2"));
}

#[test]
fn an_agent_that_keeps_dying_is_not_started_for_ever() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    for _ in 0..20 {
        if stage.machine.status() == Status::Failed {
            break;
        }
        stage.on(Input::AgentGone(Gone::Exited { code: 1, stderr: String::new() }));
        stage.wait(60_000);
    }
    assert_eq!(stage.machine.status(), Status::Failed);
    assert_eq!(stage.started.len(), 4);
    assert_eq!(stage.states(1), [], "the prompt still waits");
    // A person's word is worth another try.
    stage.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(stage.started.len(), 5);
}

#[test]
fn a_conversation_the_agent_has_lost_begins_anew() {
    let mut stage = Stage::at_work();
    stage.on(Input::AgentGone(Gone::Killed(9)));
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.on(Input::AgentStarted);
    let failure = Some("No conversation found with session ID: c".to_owned());
    stage.hear(Heard::TurnEnded(Ended { failure, prompts: Vec::new(), unsolicited: false }));
    stage.on(Input::AgentGone(Gone::Exited { code: 1, stderr: String::new() }));
    stage.wait(10_000);
    assert_eq!(stage.started, [Start::Fresh, Start::Resume, Start::Fresh]);
}

#[test]
fn an_agent_that_does_not_get_ready_is_killed() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.on(Input::AgentStarted);
    stage.wait(61_000);
    assert_eq!(stage.killed, 1);
    stage.on(Input::AgentGone(Gone::Killed(9)));
    assert!(stage.notes.contains(&Note::AgentGone { cause: Cause::NotReady }));
}

#[test]
fn the_first_answer_counts() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    assert_eq!(stage.machine.status(), Status::Waiting);
    let answer = |answer| Command::Answer { request: "r".to_owned(), answer, by: ann() };
    assert_eq!(stage.command(answer(allow())), Some(Ok(Done::Well)));
    let late = stage.command(answer(Answer::Deny { message: String::new(), interrupt: false }));
    assert_eq!(late, Some(Err(Refusal::NoSuchRequest)));
    assert_eq!(stage.outcomes(), [("r".to_owned(), Outcome::Allowed)]);
    let said = stage.said.iter().filter(|line| line.contains("control_response")).count();
    assert_eq!(said, 1);
}

#[test]
fn a_request_nobody_answers_expires_and_the_agent_is_told() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    stage.wait(25 * 60 * 60 * 1000);
    assert_eq!(stage.outcomes(), [("r".to_owned(), Outcome::Expired)]);
    assert!(stage.said.last().unwrap().contains("Nobody answered in time"));
}

#[test]
fn a_remembered_answer_settles_what_is_alike_for_as_long_as_it_was_given() {
    let mut stage = Stage::at_work();
    stage.hear(asked("1", "git diff a"));
    stage.hear(asked("2", "git diff b"));
    stage.hear(asked("3", "git push"));
    let remember = Remember {
        pattern: Some("git diff:*".to_owned()),
        until: Some(10_000),
        reach: Reach::Session,
    };
    let answer = Answer::Allow { input: None, remember: Some(remember), mode: None };
    stage.command(Command::Answer { request: "1".to_owned(), answer, by: ann() }).unwrap().unwrap();
    let settled = [("1", Outcome::AllowedAndRemembered), ("2", Outcome::Allowed)];
    assert_eq!(stage.outcomes(), settled.map(|(id, it)| (id.to_owned(), it)));
    stage.now = 10_000;
    stage.hear(asked("4", "git diff c"));
    assert_eq!(stage.outcomes().len(), 2, "its time is over");
}

#[test]
fn a_withdrawn_request_is_settled_by_that() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    stage.hear(Heard::Withdrawn("r".to_owned()));
    assert_eq!(stage.outcomes(), [("r".to_owned(), Outcome::Withdrawn)]);
}

#[test]
fn a_refusal_that_ends_the_turn_is_an_interruption() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    let answer = Answer::Deny { message: "stop".to_owned(), interrupt: true };
    stage.command(Command::Answer { request: "r".to_owned(), answer, by: ann() }).unwrap().unwrap();
    stage.hear(failed());
    assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
}

#[test]
fn a_request_of_an_unknown_sort_is_answered_so_that_nobody_waits() {
    let mut stage = Stage::at_work();
    stage.hear(Heard::AskedInVain { request: "r".to_owned(), what: "teleport".to_owned() });
    assert!(stage.said.last().unwrap().contains("does not offer `teleport`"));
}

#[test]
fn a_silent_turn_is_called_stalled_once() {
    let mut stage = Stage::at_work();
    stage.wait(10 * 60_000);
    let stalls = |stage: &Stage| {
        stage.notes.iter().filter(|note| matches!(note, Note::Stalled { .. })).count()
    };
    assert_eq!(stalls(&stage), 1);
    stage.hear(Heard::Life);
    stage.wait(10 * 60_000);
    assert_eq!(stalls(&stage), 2);
}

#[test]
fn an_agent_with_nothing_to_do_is_parked_and_wakes_for_the_next_prompt() {
    let mut stage = Stage::at_work();
    stage.hear(ended(&[1]));
    stage.wait(31 * 60_000);
    assert_eq!(stage.ended, 1);
    stage.on(Input::AgentGone(Gone::Exited { code: 0, stderr: String::new() }));
    assert!(stage.notes.contains(&Note::AgentGone { cause: Cause::Parked }));
    assert_eq!(stage.machine.status(), Status::Idle);
    stage.prompt(2, Delivery::Queue).unwrap();
    assert_eq!(stage.started, [Start::Fresh, Start::Resume]);
}

#[test]
fn a_setting_is_kept_for_the_next_process_and_refused_where_the_agent_refuses() {
    let mut stage = Stage::at_work();
    let setting = || Setting::Model(Some("opus".to_owned()));
    assert_eq!(stage.command(Command::Set { setting: setting(), by: ann() }), None);
    stage.answer("set_model", Err("no such model".to_owned()));
    assert_eq!(stage.machine.options().model, None);
    stage.command(Command::Set { setting: setting(), by: ann() });
    stage.answer("set_model", Ok(None));
    assert_eq!(stage.machine.options().model.as_deref(), Some("opus"));
    // Up to 2.1.37 an unknown request is not answered at all.
    stage.command(Command::Set { setting: Setting::Effort("low".to_owned()), by: ann() });
    stage.wait(30_000);
    assert!(stage.replies.iter().any(|(_, reply)| *reply == Err(Refusal::NoAnswer)));
}

#[test]
fn going_back_is_noted_only_as_far_as_the_agent_went() {
    let mut stage = Stage::at_work();
    stage.hear(ended(&[1]));
    let yes = || Ok(Some(r#"{"canRewind":true,"rewound":true}"#.to_owned()));
    let no = || Ok(Some(r#"{"canRewind":false,"rewound":false,"error":"no copies"}"#.to_owned()));
    let refused = |stage: &Stage| {
        let (_, reply) = stage.replies.last().expect("a reply");
        *reply == Err(Refusal::ByAgent("no copies".to_owned()))
    };
    let go_back = |what| Command::Rewind { prompt: id(1), what, by: ann() };
    stage.command(go_back(Rewind::Files));
    stage.answer("rewind_files", no());
    assert!(refused(&stage));
    stage.command(go_back(Rewind::Both));
    stage.answer("rewind_files", yes());
    stage.answer("rewind_conversation", no());
    assert!(refused(&stage));
    stage.command(go_back(Rewind::Conversation));
    stage.answer("rewind_conversation", yes());
    let noted = stage.notes.iter().filter_map(|note| match note {
        Note::Rewound { what, .. } => Some(*what),
        _ => None,
    });
    let noted: Vec<_> = noted.collect();
    assert_eq!(noted, [Rewind::Files, Rewind::Conversation]);
}

#[test]
fn what_is_done_with_changes_is_kept_at_any_time_and_not_told_to_the_agent() {
    let mut starting = Stage::new();
    starting.prompt(1, Delivery::Queue).unwrap();
    for mut stage in [Stage::new(), starting, Stage::at_work()] {
        let said = stage.said.len();
        let setting = Setting::Watch(Some(Box::default()));
        let set = Command::Set { setting: setting.clone(), by: ann() };
        assert_eq!(stage.command(set), Some(Ok(Done::Well)));
        assert_eq!(stage.notes.last(), Some(&Note::SettingChanged { setting, by: ann() }));
        assert!(stage.machine.options().watch.is_some());
        stage.command(Command::Set { setting: Setting::Watch(None), by: ann() });
        assert!(stage.machine.options().watch.is_none());
        assert_eq!(stage.said.len(), said);
    }
}

#[test]
fn a_session_taken_over_in_mid_turn_goes_on_where_it_was() {
    let mut origins = Origins::new(0, SessionId(id(0)), Limits::default(), Options::default());
    origins.turns = 3;
    origins.turn_is_open = true;
    origins.agent_lives = true;
    origins.resumable = true;
    let mut stage = Stage::from(origins);
    stage.on(Input::AgentMet);
    stage.prompt(7, Delivery::Queue).unwrap();
    // It is busy and does not say whether it is ready.
    stage.wait(61_000);
    assert_eq!((stage.killed, stage.said_prompts()), (0, 0));
    stage.hear(ended(&[]));
    assert_eq!(stage.endings(), [(3, TurnEnding::Completed)]);
    assert_eq!(stage.said_prompts(), 1);
}

#[test]
fn a_request_of_an_agent_in_the_background_outlives_the_turn() {
    let mut stage = Stage::at_work();
    let Heard::Asked(ask) = asked("r", "id") else { panic!("a request") };
    stage.hear(Heard::Asked(Asked { agent: Some("a".to_owned()), ..ask }));
    stage.hear(ended(&[1]));
    assert_eq!(stage.outcomes(), []);
    let answer = Command::Answer { request: "r".to_owned(), answer: allow(), by: ann() };
    assert_eq!(stage.command(answer), Some(Ok(Done::Well)));
    assert_eq!(stage.outcomes(), [("r".to_owned(), Outcome::Allowed)]);
}

#[test]
fn nothing_is_said_to_an_agent_that_only_left_its_last_words() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    let mut origins = Origins::new(0, SessionId(id(0)), Limits::default(), Options::default());
    origins.prompts = stage.machine.prompts.queued().cloned().collect();
    (origins.turns, origins.turn_is_open) = (1, true);
    (origins.agent_lives, origins.resumable) = (true, true);
    let mut stage = Stage::from(origins);
    stage.hear(asked("r", "id"));
    stage.hear(ended(&[1]));
    assert_eq!(stage.said.len(), 0);
    stage.on(Input::AgentGone(Gone::Lost));
    stage.ready();
    assert_eq!(stage.states(2), [Written], "it is sent to the next agent");
}

#[test]
fn a_prompt_that_the_agent_lets_go_of_is_cancelled_and_its_turn_is_over() {
    let mut stage = Stage::new();
    stage.prompt(1, Delivery::Queue).unwrap();
    stage.ready();
    assert_eq!(stage.command(Command::RemovePrompt { prompt: id(1) }), None);
    stage.answer("cancel_async_message", Ok(Some(r#"{"cancelled":true}"#.to_owned())));
    assert_eq!(stage.states(1), [Written, Cancelled]);
    assert_eq!(stage.endings(), [(1, TurnEnding::Interrupted)]);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn what_is_said_late_of_the_turn_before_is_no_sign_of_this_one() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Queue).unwrap();
    stage.hear(ended(&[1]));
    stage.hear(Heard::Accepted(id(1)));
    stage.hear(Heard::Idle);
    stage.wait(10_000);
    assert_eq!(stage.states(2), [Written]);
    // An agent that never begins with it must not keep the session busy for ever.
    stage.wait(30_000);
    assert_eq!(stage.states(2), [Written, Indeterminate]);
    assert_eq!(stage.machine.status(), Status::Idle);
}

#[test]
fn a_turn_does_not_stall_because_a_person_took_long_to_answer() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    stage.wait(10 * 60_000);
    let answer = Command::Answer { request: "r".to_owned(), answer: allow(), by: ann() };
    stage.command(answer).unwrap().unwrap();
    assert!(!stage.notes.iter().any(|note| matches!(note, Note::Stalled { .. })));
}

#[test]
fn a_carried_prompt_is_watched_over_by_the_next_towpath_too() {
    let mut stage = Stage::at_work();
    stage.prompt(2, Delivery::Steer).unwrap();
    stage.hear(ended(&[1]));
    let mut origins = Origins::new(0, SessionId(id(0)), Limits::default(), Options::default());
    origins.prompts = stage.machine.prompts.in_flight().cloned().collect();
    (origins.turns, origins.agent_lives, origins.resumable) = (1, true, true);
    let mut stage = Stage::from(origins);
    stage.on(Input::AgentMet);
    assert_eq!(stage.machine.status(), Status::Running);
    stage.wait(31_000);
    assert_eq!(stage.states(2), [Indeterminate]);
}
