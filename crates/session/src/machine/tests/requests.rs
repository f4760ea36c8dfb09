//! Requests to a person, settings and rewinds.

use journal::SessionStatus;
use wire::consent::RuleId;
use wire::note::{Delivery, Note, Outcome, Rewind, Setting, TurnEnding, WatchChoice};

use super::{Harness, Input, allow, ann, failed_result, id, permission_request, turn_result};
use crate::agent_event::{AgentEvent, PermissionRequest};
use crate::command::{
    CommandError, CommandOutput, GrantScope, RequestAnswer, RuleChoice, SessionCommand,
};
use crate::machine::AgentExit;

#[test]
fn the_first_answer_counts() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    assert_eq!(harness.machine.status(), SessionStatus::Waiting);
    let answer = |answer| SessionCommand::Answer { request: "r".to_owned(), answer, by: ann() };
    assert_eq!(harness.command(answer(allow())), Some(Ok(CommandOutput::None)));
    let late =
        harness.command(answer(RequestAnswer::Deny { message: String::new(), interrupt: false }));
    assert_eq!(late, Some(Err(CommandError::NoSuchRequest)));
    assert_eq!(harness.outcomes(), [("r".to_owned(), Outcome::Allowed)]);
    let written = harness.written.iter().filter(|line| line.contains("control_response")).count();
    assert_eq!(written, 1);
}

#[test]
fn a_request_without_an_answer_expires_and_is_denied() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    harness.wait(25 * 60 * 60 * 1000);
    assert_eq!(harness.outcomes(), [("r".to_owned(), Outcome::Expired)]);
    assert!(harness.written.last().unwrap().contains("no answer came in time"));
}

#[test]
fn a_remembered_answer_allows_the_same_call_until_it_expires() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("1", "git diff"));
    harness.agent(permission_request("2", "git diff"));
    harness.agent(permission_request("3", "git diff --stat"));
    let remember =
        RuleChoice { rule: RuleId::Exact, until: Some(10_000), scope: GrantScope::Session };
    let answer = RequestAnswer::Allow { input: None, remember: Some(remember), mode: None };
    harness
        .command(SessionCommand::Answer { request: "1".to_owned(), answer, by: ann() })
        .unwrap()
        .unwrap();
    let settled = [("1", Outcome::AllowedAndRemembered), ("2", Outcome::Allowed)];
    assert_eq!(harness.outcomes(), settled.map(|(id, it)| (id.to_owned(), it)));
    harness.now = 10_000;
    harness.agent(permission_request("4", "git diff"));
    assert_eq!(harness.outcomes().len(), 2, "its time is over");
}

fn request_without_id() -> AgentEvent {
    let line = r#"{"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
    AgentEvent::of(&wire::read(line.as_bytes()).next().expect("a line"))
}

#[test]
fn a_request_without_an_id_needs_a_person_and_a_denial_stops_the_turn() {
    let mut harness = Harness::with_running_turn();
    let asked = request_without_id();
    let AgentEvent::RequestOpened(PermissionRequest { id: request, .. }) = asked.clone() else {
        panic!("{asked:?}")
    };
    harness.agent(asked);
    assert_eq!(harness.machine.status(), SessionStatus::Waiting);
    let before = harness.written.len();
    let answer = |answer| SessionCommand::Answer { request: request.clone(), answer, by: ann() };
    let allowed = harness.command(answer(allow()));
    assert!(matches!(allowed, Some(Err(CommandError::Invalid(_)))), "{allowed:?}");
    let deny = RequestAnswer::Deny { message: String::new(), interrupt: false };
    assert_eq!(harness.command(answer(deny)), Some(Ok(CommandOutput::None)));
    assert_eq!(harness.outcomes(), [(request, Outcome::Denied)]);
    let written = &harness.written[before..];
    assert!(written.iter().all(|line| !line.contains("control_response")), "{written:?}");
    assert!(written.iter().any(|line| line.contains("interrupt")), "{written:?}");
}

#[test]
fn a_request_without_an_id_does_not_wait_for_ever() {
    let mut harness = Harness::with_running_turn();
    harness.agent(request_without_id());
    harness.wait(25 * 60 * 60 * 1000);
    assert_eq!(harness.outcomes()[0].1, Outcome::Expired);
    let written = harness.written.iter().any(|line| line.contains("\"interrupt\""));
    assert!(written, "{:?}", harness.written);
}

#[test]
fn a_request_whose_id_is_a_number_is_answered_with_the_number() {
    let mut harness = Harness::with_running_turn();
    let line = r#"{"type":"control_request","request_id":7,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
    harness.agent(AgentEvent::of(&wire::read(line.as_bytes()).next().expect("a line")));
    let request = "number:7".to_owned();
    let answer = SessionCommand::Answer { request, answer: allow(), by: ann() };
    assert_eq!(harness.command(answer), Some(Ok(CommandOutput::None)));
    let written = harness.written.last().expect("a line");
    assert!(written.contains(r#""request_id":7,"#), "{written}");
}

#[test]
fn a_withdrawn_request_is_resolved() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    harness.agent(AgentEvent::RequestWithdrawn { id: "r".to_owned() });
    assert_eq!(harness.outcomes(), [("r".to_owned(), Outcome::Withdrawn)]);
}

#[test]
fn a_denial_that_interrupts_ends_the_turn_as_interrupted() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    let answer = RequestAnswer::Deny { message: "stop".to_owned(), interrupt: true };
    harness
        .command(SessionCommand::Answer { request: "r".to_owned(), answer, by: ann() })
        .unwrap()
        .unwrap();
    harness.agent(failed_result());
    assert_eq!(harness.endings(), [(1, TurnEnding::Interrupted)]);
}

#[test]
fn an_unsupported_request_is_answered_with_an_error() {
    let mut harness = Harness::with_running_turn();
    harness.agent(AgentEvent::UnsupportedRequest {
        id: "r".to_owned(),
        subtype: "teleport".to_owned(),
    });
    assert!(harness.written.last().unwrap().contains("does not offer `teleport`"));
}

#[test]
fn requests_of_an_agent_that_is_stopping_stay_open_until_it_has_exited() {
    // The command to stop may be lost with this Towpath. The next one finds what the agent waits for.
    let mut harness = Harness::with_running_turn();
    harness.command(SessionCommand::Close).unwrap().unwrap();
    assert_eq!(harness.stops, 1);
    harness.agent(permission_request("r", "id"));
    assert_eq!(harness.outcomes(), []);
    let id = "u".to_owned();
    harness.agent(AgentEvent::UnsupportedRequest { id, subtype: "teleport".to_owned() });
    assert!(harness.written.last().unwrap().contains("does not offer `teleport`"));
    harness.on(Input::AgentGone(AgentExit::Exited { code: 0, stderr: String::new() }));
    assert_eq!(harness.outcomes(), [("r".to_owned(), Outcome::Withdrawn)]);
}

#[test]
fn a_request_of_a_background_agent_outlives_the_turn() {
    let mut harness = Harness::with_running_turn();
    let AgentEvent::RequestOpened(ask) = permission_request("r", "id") else { panic!("a request") };
    harness
        .agent(AgentEvent::RequestOpened(PermissionRequest { agent: Some("a".to_owned()), ..ask }));
    harness.agent(turn_result(&[1]));
    assert_eq!(harness.outcomes(), []);
    let answer = SessionCommand::Answer { request: "r".to_owned(), answer: allow(), by: ann() };
    assert_eq!(harness.command(answer), Some(Ok(CommandOutput::None)));
    assert_eq!(harness.outcomes(), [("r".to_owned(), Outcome::Allowed)]);
}

#[test]
fn a_turn_does_not_stall_while_a_person_decides() {
    let mut harness = Harness::with_running_turn();
    harness.agent(permission_request("r", "id"));
    harness.wait(10 * 60_000);
    let answer = SessionCommand::Answer { request: "r".to_owned(), answer: allow(), by: ann() };
    harness.command(answer).unwrap().unwrap();
    assert!(!harness.notes.iter().any(|note| matches!(note, Note::Stalled { .. })));
}

#[test]
fn a_setting_is_stored_once_the_agent_has_accepted_it() {
    let mut harness = Harness::with_running_turn();
    let setting = || Setting::Model(Some("opus".to_owned()));
    assert_eq!(harness.command(SessionCommand::Set { setting: setting(), by: ann() }), None);
    harness.answer("set_model", Err("no such model".to_owned()));
    assert_eq!(harness.machine.options().model, None);
    harness.command(SessionCommand::Set { setting: setting(), by: ann() });
    harness.answer("set_model", Ok(None));
    assert_eq!(harness.machine.options().model.as_deref(), Some("opus"));
    // Up to 2.1.37 an unknown request is not answered at all.
    harness.command(SessionCommand::Set { setting: Setting::Effort("low".to_owned()), by: ann() });
    harness.wait(30_000);
    assert!(harness.replies.iter().any(|(_, reply)| *reply == Err(CommandError::NoAnswer)));
}

#[test]
fn a_rewind_is_noted_only_as_far_as_it_succeeded() {
    let mut harness = Harness::with_running_turn();
    harness.agent(turn_result(&[1]));
    let yes = || Ok(Some(r#"{"canRewind":true,"rewound":true}"#.to_owned()));
    let no = || Ok(Some(r#"{"canRewind":false,"rewound":false,"error":"no copies"}"#.to_owned()));
    let refused = |harness: &Harness| {
        let (_, reply) = harness.replies.last().expect("a reply");
        *reply == Err(CommandError::RefusedByAgent("no copies".to_owned()))
    };
    let go_back = |what| SessionCommand::Rewind { prompt: id(1), what, by: ann() };
    harness.command(go_back(Rewind::Files));
    harness.answer("rewind_files", no());
    assert!(refused(&harness));
    harness.command(go_back(Rewind::Both));
    harness.answer("rewind_files", yes());
    harness.answer("rewind_conversation", no());
    assert!(refused(&harness));
    harness.command(go_back(Rewind::Conversation));
    harness.answer("rewind_conversation", yes());
    let noted = harness.notes.iter().filter_map(|note| match note {
        Note::Rewound { what, .. } => Some(*what),
        _ => None,
    });
    let noted: Vec<_> = noted.collect();
    assert_eq!(noted, [Rewind::Files, Rewind::Conversation]);
}

#[test]
fn the_watch_setting_is_stored_at_any_time_and_not_sent_to_the_agent() {
    let mut starting = Harness::new();
    starting.prompt(1, Delivery::Queue).unwrap();
    for mut harness in [Harness::new(), starting, Harness::with_running_turn()] {
        let written = harness.written.len();
        let setting = Setting::Watch(WatchChoice::Own(Box::default()));
        let set = SessionCommand::Set { setting: setting.clone(), by: ann() };
        assert_eq!(harness.command(set), Some(Ok(CommandOutput::None)));
        assert_eq!(harness.notes.last(), Some(&Note::SettingChanged { setting, by: ann() }));
        assert_eq!(harness.machine.options().watch, WatchChoice::Own(Box::default()));
        let off = Setting::Watch(WatchChoice::Off);
        harness.command(SessionCommand::Set { setting: off, by: ann() });
        assert_eq!(harness.machine.options().watch, WatchChoice::Off);
        assert_eq!(harness.written.len(), written);
    }
}

#[test]
fn a_rule_covers_no_edit_through_a_link() {
    let mut harness = Harness::with_running_turn();
    let edit = |request: &str| {
        let AgentEvent::RequestOpened(ask) = permission_request(request, "") else { panic!() };
        AgentEvent::RequestOpened(PermissionRequest {
            tool_name: "Write".to_owned(),
            input: r#"{"file_path":"/p/out/a","content":"x"}"#.to_owned(),
            ..ask
        })
    };
    let grant = journal::Grant {
        id: id(5),
        session: None,
        directory: None,
        tool: wire::consent::ALL_EDIT_TOOLS.to_owned(),
        kind: wire::consent::RuleKind::Directory,
        pattern: Some("/p/out".to_owned()),
        until: None,
        by: ann(),
        created: 0,
    };
    let grants = || vec![grant.clone()];
    harness.on(Input::Grants { grants: grants(), linked: vec!["linked".to_owned()] });
    harness.agent(edit("linked"));
    assert_eq!(harness.outcomes(), []);
    harness.on(Input::Grants { grants: grants(), linked: Vec::new() });
    harness.agent(edit("plain"));
    assert_eq!(harness.outcomes(), [("plain".to_owned(), Outcome::Allowed)]);
    let answer =
        SessionCommand::Answer { request: "linked".to_owned(), answer: allow(), by: ann() };
    assert_eq!(harness.command(answer), Some(Ok(CommandOutput::None)));
}
