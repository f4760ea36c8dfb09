//! What the agent wants of a person.

use journal::Status;
use wire::note::{Note, Outcome, TurnEnding};

use super::{Stage, allow, ann, asked, ended, failed};
use crate::heard::{Asked, Heard};
use crate::machine::{Answer, Command, Done, GrantScope, Refusal, RuleChoice};
use wire::consent::RuleId;

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
    assert!(stage.said.last().unwrap().contains("no answer came in time"));
}

#[test]
fn a_remembered_answer_settles_what_is_alike_for_as_long_as_it_was_given() {
    let mut stage = Stage::at_work();
    stage.hear(asked("1", "git diff"));
    stage.hear(asked("2", "git diff"));
    stage.hear(asked("3", "git diff --stat"));
    let remember =
        RuleChoice { rule: RuleId::Exact, until: Some(10_000), scope: GrantScope::Session };
    let answer = Answer::Allow { input: None, remember: Some(remember), mode: None };
    stage.command(Command::Answer { request: "1".to_owned(), answer, by: ann() }).unwrap().unwrap();
    let settled = [("1", Outcome::AllowedAndRemembered), ("2", Outcome::Allowed)];
    assert_eq!(stage.outcomes(), settled.map(|(id, it)| (id.to_owned(), it)));
    stage.now = 10_000;
    stage.hear(asked("4", "git diff"));
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
fn a_turn_does_not_stall_because_a_person_took_long_to_answer() {
    let mut stage = Stage::at_work();
    stage.hear(asked("r", "id"));
    stage.wait(10 * 60_000);
    let answer = Command::Answer { request: "r".to_owned(), answer: allow(), by: ann() };
    stage.command(answer).unwrap().unwrap();
    assert!(!stage.notes.iter().any(|note| matches!(note, Note::Stalled { .. })));
}
