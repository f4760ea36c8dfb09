//! Budgets of the session and of the day.

use journal::{SessionId, SessionStatus};
use serde_json::json;
use wire::TurnResult;
use wire::note::{Delivery, HoldReason, Note, PromptState, Setting};

use super::{Harness, ann, at, id};
use crate::agent_event::AgentEvent;
use crate::command::SessionCommand;
use crate::config::SessionLimits;
use crate::machine::{AgentExit, Input, MachineSnapshot};
use crate::options::SessionOptions;

use PromptState::Written;

const DAY: u64 = 24 * 60 * 60 * 1000;

fn with_budget(budget_usd: Option<f64>, budget_per_day: Option<f64>) -> Harness {
    let limits = SessionLimits { budget_per_day, park: None, ..SessionLimits::default() };
    let options = SessionOptions { budget_usd, ..SessionOptions::default() };
    Harness::from(MachineSnapshot::new(at(0), SessionId(id(0)), limits, options))
}

/// The result of a turn, with what the conversation has cost so far.
fn result(prompt: u128, total_cost: f64) -> AgentEvent {
    let prompts = vec![id(prompt)];
    AgentEvent::TurnEnded(TurnResult {
        prompts,
        total_cost: Some(total_cost),
        ..TurnResult::default()
    })
}

fn resume(limit: Option<f64>) -> SessionCommand {
    SessionCommand::ResumeQueue { by: ann(), limit }
}

fn set_budget(budget: serde_json::Value) -> SessionCommand {
    let setting = Setting::Options([("budget_usd".to_owned(), budget)].into());
    SessionCommand::Set { setting, by: ann() }
}

fn spent(spent: f64, limit: f64) -> HoldReason {
    HoldReason::Budget { spent, limit, day: None }
}

impl Harness {
    fn holds(&self) -> Vec<HoldReason> {
        let hold = |note: &Note| match note {
            Note::QueueHeld { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        self.notes.iter().filter_map(hold).collect()
    }
}

/// A session that has spent 5.02 of 5 dollars, with two prompts in its queue.
fn held() -> Harness {
    let mut harness = with_budget(Some(5.0), None);
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.prompt(3, Delivery::Queue).unwrap();
    harness.agent(result(1, 5.02));
    assert_eq!(harness.holds(), [spent(5.02, 5.0)]);
    harness
}

#[test]
fn a_prompt_waits_when_the_budget_is_spent_until_someone_allows_the_same_amount_again() {
    let mut harness = held();
    harness.wait(2 * DAY);
    harness.prompt(4, Delivery::Steer).unwrap();
    assert_eq!(harness.written_prompts(), 1, "another prompt does not allow more");
    assert_eq!(harness.machine.status(), SessionStatus::Idle);
    harness.command(resume(None)).unwrap().unwrap();
    assert_eq!(harness.states(2), [Written]);
    assert!(harness.notes.contains(&Note::BudgetRaised { amount: 5.0, of_day: false, by: ann() }));
    harness.agent(result(2, 10.0));
    assert_eq!(harness.states(3), [Written], "10.02 is allowed");
    harness.agent(result(3, 10.5));
    assert_eq!(harness.holds()[1..], [spent(10.5, 10.02)]);
    assert!((harness.cost - 10.5).abs() < 1e-9, "{}", harness.cost);
}

#[test]
fn a_budget_that_is_spent_to_the_cent_is_spent() {
    // 1.09 + 0.8 is 1.8900000000000001.
    let mut harness = with_budget(Some(0.8), None);
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.prompt(3, Delivery::Queue).unwrap();
    harness.agent(result(1, 1.09));
    harness.command(resume(None)).unwrap().unwrap();
    assert_eq!(harness.states(2), [Written]);
    harness.agent(result(2, 1.89));
    assert_eq!((harness.holds().len(), harness.states(3)), (2, vec![]));
}

#[test]
fn only_the_first_of_two_people_who_go_on_counts() {
    let mut harness = held();
    for _ in 0..3 {
        harness.command(resume(Some(5.0))).unwrap().unwrap();
        harness.command(resume(None)).unwrap().unwrap();
    }
    harness.agent(result(2, 10.5));
    assert_eq!(harness.holds()[1..], [spent(10.5, 10.02)]);
    // Someone still looks at the first question.
    harness.command(resume(Some(5.0))).unwrap().unwrap();
    harness.command(resume(Some(f64::NAN))).unwrap().unwrap();
    assert!(harness.machine.is_queue_held());
    harness.command(resume(Some(10.020_000_000_1))).unwrap().unwrap();
    assert_eq!(harness.states(3), [Written]);
}

#[test]
fn a_budget_stops_no_turn_and_lets_prompts_join_it() {
    let mut harness = with_budget(Some(5.0), None);
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    harness.agent(AgentEvent::TurnStarted { conversation: Some("c".to_owned()) });
    harness.agent(AgentEvent::CostReported(7.0));
    harness.prompt(2, Delivery::Steer).unwrap();
    assert_eq!((harness.states(2), harness.stops, harness.holds()), (vec![Written], 0, vec![]));
    harness.prompt(3, Delivery::Queue).unwrap();
    harness.agent(AgentEvent::TurnEnded(TurnResult {
        prompts: vec![id(1), id(2)],
        ..TurnResult::default()
    }));
    assert_eq!(harness.holds(), [spent(7.0, 5.0)]);
}

#[test]
fn no_agent_is_started_for_a_prompt_that_waits() {
    let mut harness = held();
    harness.command(SessionCommand::Close).unwrap().unwrap();
    harness.on(Input::AgentGone(AgentExit::Exited { code: 0, stderr: String::new() }));
    let starts = harness.starts.len();
    harness.prompt(4, Delivery::Queue).unwrap();
    harness.wait(60_000);
    assert_eq!(harness.starts.len(), starts);
    harness.command(resume(None)).unwrap().unwrap();
    assert_eq!(harness.starts.len(), starts + 1);
}

#[test]
fn another_budget_counts_from_the_start_of_the_session() {
    let mut harness = held();
    harness.command(set_budget(json!(5.01))).unwrap().unwrap();
    assert!(harness.machine.is_queue_held());
    harness.command(set_budget(json!(5.5))).unwrap().unwrap();
    assert_eq!(harness.states(2), [Written]);
    harness.agent(result(2, 5.6));
    assert_eq!(harness.holds()[1..], [spent(5.6, 5.5)]);
    harness.command(set_budget(json!(null))).unwrap().unwrap();
    assert_eq!(harness.states(3), [Written]);
    for budget in [json!(0), json!(-1), json!(1e300), json!("NaN")] {
        assert!(harness.command(set_budget(budget)).unwrap().is_err());
    }
    assert_eq!(harness.machine.options().budget_usd, None);
}

#[test]
fn what_was_spent_survives_a_restart_and_a_resumed_process_goes_on_counting() {
    let before = held();
    let options = before.machine.options().to_json();
    let options = SessionOptions::from_json(&options, "/p".into()).unwrap();
    let limits = SessionLimits::default();
    let mut snapshot = MachineSnapshot::new(at(0), SessionId(id(0)), limits, options);
    snapshot.prompts = before.machine.prompts.queued().cloned().collect();
    snapshot.resumable = true;
    let mut harness = Harness::from(snapshot);
    harness.wait(60_000);
    assert_eq!(harness.starts, []);
    harness.command(resume(Some(5.0))).unwrap().unwrap();
    harness.ready();
    assert_eq!(harness.states(2), [Written]);
    // 2.1.325 reports the total of the conversation.
    harness.agent(result(2, 6.02));
    assert_eq!(harness.states(3), [Written]);
    let total = harness.machine.options().spending.total;
    assert!((total - 6.02).abs() < 1e-9, "{total}");
    // Older versions start again at zero.
    harness.on(Input::AgentGone(AgentExit::Unknown));
    harness.prompt(9, Delivery::Queue).unwrap();
    harness.wait(60_000);
    harness.on(Input::AgentStarted);
    let version = r#"{"claude_code_version":"2.1.197"}"#.to_owned();
    harness.answer("initialize", Ok(Some(version)));
    harness.agent(result(9, 6.5));
    let total = harness.machine.options().spending.total;
    assert!((total - 12.52).abs() < 1e-9, "{total}");
}

#[test]
fn numbers_that_are_no_amounts_change_nothing() {
    let mut harness = with_budget(Some(5.0), None);
    harness.prompt(1, Delivery::Queue).unwrap();
    harness.ready();
    for total in [f64::NAN, f64::INFINITY, -1e300, 1e308, -0.0] {
        harness.agent(AgentEvent::CostReported(total));
    }
    assert_eq!((harness.cost, harness.machine.options().spending.total), (0.0, 0.0));
    assert!(SessionOptions::from_json(&harness.machine.options().to_json(), "/".into()).is_ok());
}

/// A machine with a prompt, whose day budget is 20 dollars.
fn with_day_budget() -> Harness {
    let mut harness = with_budget(None, Some(20.0));
    harness.now = 3 * DAY;
    harness.prompt(1, Delivery::Queue).unwrap();
    assert_eq!((harness.starts.len(), &harness.day_loads[..]), (0, &[3][..]));
    harness
}

#[test]
fn a_prompt_waits_when_the_budget_of_the_day_is_spent_by_all_sessions() {
    let mut harness = with_day_budget();
    harness.wait(10_000);
    assert_eq!(harness.day_loads, [3], "it is asked for once");
    harness.on(Input::DayCost(19.99));
    assert_eq!(harness.starts.len(), 1);
    harness.ready();
    assert_eq!((harness.written_prompts(), harness.day_loads.len()), (0, 2));
    harness.on(Input::DayCost(20.0));
    let hold = HoldReason::Budget { spent: 20.0, limit: 20.0, day: Some(3) };
    assert_eq!(harness.holds(), [hold]);
    harness.command(resume(Some(20.0))).unwrap().unwrap();
    assert!(harness.notes.contains(&Note::BudgetRaised { amount: 20.0, of_day: true, by: ann() }));
    harness.on(Input::DayCost(33.0));
    assert_eq!(harness.states(1), [Written], "what others spent meanwhile does not count");
    harness.agent(result(1, 1.0));
    harness.prompt(2, Delivery::Queue).unwrap();
    harness.on(Input::DayCost(52.0));
    assert_eq!(harness.states(2), [Written]);
    harness.agent(result(2, 2.0));
    harness.prompt(3, Delivery::Queue).unwrap();
    harness.on(Input::DayCost(53.0));
    let hold = HoldReason::Budget { spent: 53.0, limit: 53.0, day: Some(3) };
    assert_eq!(harness.holds()[1..], [hold]);
}

#[test]
fn another_day_has_a_budget_of_its_own() {
    let mut harness = with_day_budget();
    harness.on(Input::DayCost(21.0));
    assert!(harness.machine.is_queue_held());
    harness.now = 4 * DAY;
    harness.command(resume(None)).unwrap().unwrap();
    assert_eq!(harness.day_loads, [3, 4]);
    assert!(!harness.notes.iter().any(|it| matches!(it, Note::BudgetRaised { .. })));
    harness.on(Input::DayCost(0.0));
    assert_eq!(harness.starts.len(), 1);
}
