//! What users do with a session, with any agent.

use std::ffi::OsString;

use journal::{Entry, Seq};
use session::{
    GrantScope, NewPrompt, RequestAnswer, RuleChoice, Session, SessionOptions, SessionSpec,
};
use wire::consent::RuleId;
use wire::note::{
    Actor, Delivery, ExitCause, Note, Outcome, PromptState, RequestKind, Rewind, Setting,
    TurnEnding,
};
use wire::outgoing::{Image, PermissionMode};

use crate::fixture::{
    DrivingFixture, JournalReader, TowpathInstance, agent_line, ann, is_turn_over, note, notes,
    prompt,
};

const BYPASS: Option<PermissionMode> = Some(PermissionMode::BypassPermissions);

/// A session and a reader of its journal.
struct TestSession {
    fixture: DrivingFixture,
    towpath: TowpathInstance,
    session: Session,
    reader: JournalReader,
}

impl TestSession {
    async fn new(agent: Vec<OsString>, replies: &str, options: SessionOptions) -> Self {
        let fixture = DrivingFixture::new(agent, replies).await;
        Self::on(fixture, options).await
    }

    async fn on(fixture: DrivingFixture, options: SessionOptions) -> Self {
        let towpath = fixture.towpath();
        let options = SessionOptions { directory: fixture.project(), ..options };
        let session = towpath.create_with(options).await;
        let reader = JournalReader::new(&session, Seq::default());
        Self { fixture, towpath, session, reader }
    }

    async fn say(&self, text: &str) -> NewPrompt {
        let prompt = prompt(text);
        self.session.prompt(prompt.clone()).await.expect("a queued prompt");
        prompt
    }

    async fn steer(&self, text: &str) -> NewPrompt {
        let prompt = NewPrompt { delivery: Delivery::Steer, ..prompt(text) };
        self.session.prompt(prompt.clone()).await.expect("a queued prompt");
        prompt
    }

    async fn turn_over(&mut self) -> Vec<Entry> {
        self.reader.until(is_turn_over).await
    }

    /// The request the agent opens next.
    async fn next_request(&mut self) -> (String, RequestKind) {
        let seen = self.reader.until(|it| opened(it).is_some()).await;
        seen.last().and_then(opened).expect("a request")
    }

    async fn end(self) {
        self.session.close().await.expect("a stopped agent");
        self.session.release().await;
    }
}

fn opened(entry: &Entry) -> Option<(String, RequestKind)> {
    match note(entry) {
        Some(Note::RequestOpened { request, kind, .. }) => Some((request, kind)),
        _ => None,
    }
}

fn became(prompt: &NewPrompt, state: PromptState) -> Note {
    Note::PromptStateChanged { prompt: prompt.id, state }
}

fn ending(seen: &[Entry]) -> TurnEnding {
    let ending = notes(seen).into_iter().find_map(|note| match note {
        Note::TurnEnded { ending, .. } => Some(ending),
        _ => None,
    });
    ending.expect("the turn is over")
}

/// Runs all of them.
pub(crate) async fn check(agent: &[OsString]) {
    steered_prompts_join_the_turn(agent.to_vec()).await;
    queued_prompts_wait_and_can_be_changed(agent.to_vec()).await;
    a_grant_spares_the_next_question(agent.to_vec()).await;
    a_question_is_answered(agent.to_vec()).await;
    settings_change_in_flight(agent.to_vec()).await;
    files_are_put_back(agent.to_vec()).await;
    a_parked_session_wakes_with_its_memory(agent.to_vec()).await;
    a_conversation_is_forked(agent.to_vec()).await;
    a_cleared_conversation_has_another_id(agent.to_vec()).await;
    a_picture_reaches_the_model(agent.to_vec()).await;
}

async fn steered_prompts_join_the_turn(agent: Vec<OsString>) {
    let replies = "api tool Bash {\"command\":\"touch begun; until test -e gate; do true; done\",\"description\":\"wait\"}\n\
        api text \"Both done.\"";
    let options = SessionOptions { permission_mode: BYPASS, ..SessionOptions::default() };
    let mut test = TestSession::new(agent, replies, options).await;
    let first = test.say("begin").await;
    test.reader.until(agent_line("tool_use")).await;
    let second = test.steer("and mind the gap").await;
    // The command must not end before the agent has read it.
    let mut seen =
        test.reader.until(agent_line(&format!("\"command_uuid\":\"{}\"", second.id))).await;
    std::fs::write(test.fixture.project().join("gate"), "").expect("a gate");
    seen.extend(test.turn_over().await);
    assert_eq!(ending(&seen), TurnEnding::Completed);
    for prompt in [&first, &second] {
        assert!(notes(&seen).contains(&became(prompt, PromptState::Done)), "{}", prompt.text);
    }
    let asked = test.fixture.model_requests();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].matches("mind the gap").count(), 1);
    test.end().await;
}

async fn queued_prompts_wait_and_can_be_changed(agent: Vec<OsString>) {
    let replies = "api text \"one two three\" hold gate after 1\napi text \"next\"";
    let mut test = TestSession::new(agent, replies, SessionOptions::default()).await;
    test.say("first").await;
    test.reader.until(agent_line("text_delta")).await;
    let [second, third, fourth] =
        [test.say("second").await, test.say("third").await, test.say("fourth").await];
    test.session.edit_prompt(third.id, "third, but better".to_owned()).await.expect("an edit");
    test.session.move_prompt(fourth.id, Some(second.id)).await.expect("a move");
    test.session.remove_prompt(second.id).await.expect("a removal");
    test.fixture.api.open("gate");
    for _ in 0..3 {
        assert_eq!(ending(&test.turn_over().await), TurnEnding::Completed);
    }
    let asked = test.fixture.model_requests();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].contains("fourth") && !asked[1].contains("third"), "{}", asked[1]);
    assert!(asked[2].contains("third, but better") && !asked[2].contains("second"), "{}", asked[2]);
    test.end().await;
}

async fn a_grant_spares_the_next_question(agent: Vec<OsString>) {
    let replies = "api tool Bash {\"command\":\"touch a\",\"description\":\"a\"}\n\
        api tool Bash {\"command\":\"touch a\",\"description\":\"again\"}\n\
        api text \"done\"";
    let mut test = TestSession::new(agent, replies, SessionOptions::default()).await;
    test.say("touch them").await;
    let (request, wants) = test.next_request().await;
    assert_eq!(wants, RequestKind::Permission);
    let remember = RuleChoice { rule: RuleId::Exact, until: None, scope: GrantScope::Directory };
    let allow = RequestAnswer::Allow { input: None, remember: Some(remember), mode: None };
    test.session.answer(&request, allow, ann()).await.expect("an answer");
    let seen = test.turn_over().await;
    let by_rule = |note: &Note| match note {
        Note::RequestResolved {
            outcome: Outcome::Allowed, by: Some(Actor { via, .. }), ..
        } => via == "rule",
        _ => false,
    };
    assert!(notes(&seen).iter().any(by_rule), "{:?}", notes(&seen));
    assert!(test.fixture.project().join("a").exists());
    let ledger = test.towpath.sessions.journal().ledger(Some(test.session.id()), 10).await;
    assert_eq!(ledger.expect("a ledger").len(), 2);
    test.end().await;
}

async fn a_question_is_answered(agent: Vec<OsString>) {
    let replies = "api tool AskUserQuestion {\"questions\":[{\"question\":\"Which colour?\",\"header\":\"Colour\",\"multiSelect\":false,\
        \"options\":[{\"label\":\"Red\",\"description\":\"r\"},{\"label\":\"Blue\",\"description\":\"b\"}]}]}\n\
        api text \"Blue it is.\"";
    let mut test = TestSession::new(agent, replies, SessionOptions::default()).await;
    test.say("choose").await;
    let (request, wants) = test.next_request().await;
    assert_eq!(wants, RequestKind::Question);
    let answers = RequestAnswer::Answers(vec![("Which colour?".to_owned(), "Blue".to_owned())]);
    test.session.answer(&request, answers, ann()).await.expect("an answer");
    assert_eq!(ending(&test.turn_over().await), TurnEnding::Completed);
    assert!(test.fixture.model_requests()[1].contains("Blue"));
    test.end().await;
}

async fn settings_change_in_flight(agent: Vec<OsString>) {
    let mut test = TestSession::new(agent, "api text \"ok\"", SessionOptions::default()).await;
    test.say("one").await;
    test.turn_over().await;
    let model = Setting::Model(Some("claude-other-model".to_owned()));
    test.session.set(model, ann()).await.expect("another model");
    test.session.set(Setting::PermissionMode("plan".to_owned()), ann()).await.expect("a mode");
    let refused = test.session.set(Setting::PermissionMode("bogus".to_owned()), ann()).await;
    assert!(refused.is_err(), "there is no such mode");
    test.say("two").await;
    test.turn_over().await;
    let requests = test.fixture.api.requests();
    let models = requests.iter().filter(|it| it.kind == testbed::api::ApiRequestKind::Main);
    let models: Vec<_> = models.map(|it| it.body["model"].clone()).collect();
    assert_eq!(models.last(), Some(&"claude-other-model".into()), "{models:?}");
    assert!(test.session.query(session::AgentQuery::Context).await.is_ok());
    test.end().await;
}

async fn files_are_put_back(agent: Vec<OsString>) {
    let replies =
        "api tool Write {\"file_path\":\"$cwd/new.txt\",\"content\":\"new\"}\napi text \"written\"";
    let options = SessionOptions { permission_mode: BYPASS, ..SessionOptions::default() };
    let mut test = TestSession::new(agent, replies, options).await;
    let write = test.say("write it").await;
    test.turn_over().await;
    let file = test.fixture.project().join("new.txt");
    assert!(file.exists());
    test.session.rewind(write.id, Rewind::Files, ann()).await.expect("a rewind");
    assert!(!file.exists(), "what the agent made is gone");
    test.reader.until(|it| matches!(note(it), Some(Note::Rewound { .. }))).await;
    test.end().await;
}

async fn a_parked_session_wakes_with_its_memory(agent: Vec<OsString>) {
    let mut fixture = DrivingFixture::new(agent, "api text \"ok\"").await;
    fixture.setup.park = Some(300);
    let mut test = TestSession::on(fixture, SessionOptions::default()).await;
    test.say("remember the milk").await;
    test.turn_over().await;
    let parked = |it: &Entry| note(it) == Some(Note::AgentExited { cause: ExitCause::Parked });
    test.reader.until(parked).await;
    test.say("what was it?").await;
    assert_eq!(ending(&test.turn_over().await), TurnEnding::Completed);
    assert!(test.fixture.model_requests()[1].contains("remember the milk"));
    test.end().await;
}

async fn a_conversation_is_forked(agent: Vec<OsString>) {
    let mut test = TestSession::new(agent, "api text \"ok\"", SessionOptions::default()).await;
    test.say("the trunk").await;
    test.turn_over().await;
    let record = test.towpath.sessions.journal().session(test.session.id()).await;
    let trunk = record.expect("a journal").expect("a session").agent_ids;
    let options = SessionOptions {
        directory: test.fixture.project(),
        fork: true,
        ..SessionOptions::default()
    };
    let spec = SessionSpec { options, resume: trunk.last().cloned(), ..SessionSpec::default() };
    let branch = test.towpath.sessions.create(spec).await.expect("a branch");
    let mut reader = JournalReader::new(&branch, Seq::default());
    branch.prompt(prompt("the branch")).await.expect("a queued prompt");
    reader.until(is_turn_over).await;
    let asked = test.fixture.model_requests();
    assert!(asked[1].contains("the trunk") && asked[1].contains("the branch"), "{}", asked[1]);
    let record = test.towpath.sessions.journal().session(branch.id()).await;
    let ids = record.expect("a journal").expect("a session").agent_ids;
    assert_ne!(ids.last(), trunk.last());
    branch.close().await.expect("a stopped agent");
    branch.release().await;
    test.end().await;
}

async fn a_cleared_conversation_has_another_id(agent: Vec<OsString>) {
    let mut test = TestSession::new(agent, "api text \"ok\"", SessionOptions::default()).await;
    test.say("zebra").await;
    test.turn_over().await;
    test.say("/clear").await;
    test.turn_over().await;
    test.say("ostrich").await;
    test.turn_over().await;
    let record = test.towpath.sessions.journal().session(test.session.id()).await;
    let ids = record.expect("a journal").expect("a session").agent_ids;
    assert_eq!(ids.len(), 2, "{ids:?}");
    let asked = test.fixture.model_requests();
    assert!(!asked.last().expect("a request").contains("zebra"));
    // The next process resumes the newer conversation.
    test.session.close().await.expect("a stopped agent");
    test.reader.until(|it| matches!(note(it), Some(Note::AgentExited { .. }))).await;
    test.say("and again").await;
    test.turn_over().await;
    let asked = test.fixture.model_requests();
    let last = asked.last().expect("a request");
    assert!(last.contains("ostrich") && !last.contains("zebra"), "{last}");
    test.end().await;
}

async fn a_picture_reaches_the_model(agent: Vec<OsString>) {
    /// A PNG of one pixel.
    const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";
    let mut test = TestSession::new(agent, "api text \"a pixel\"", SessionOptions::default()).await;
    let image = Image::new(PIXEL).expect("a picture");
    let prompt = NewPrompt { images: vec![image], ..prompt("what is it?") };
    test.session.prompt(prompt).await.expect("a queued prompt");
    assert_eq!(ending(&test.turn_over().await), TurnEnding::Completed);
    assert!(test.fixture.model_requests()[0].contains("image/png"));
    test.end().await;
}

/// An agent that prints why it will not start, and exits: the text is recorded, and it is not
/// restarted for ever.
pub(crate) async fn an_agent_that_exits_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let starts = directory.path().join("starts");
    let script =
        format!("#!/bin/sh\nprintf x >> '{}'\necho 'no such luck' >&2\nexit 3\n", starts.display());
    let program = directory.path().join("agent");
    std::fs::write(&program, script).expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("a mode");
    let mut test =
        TestSession::new(vec![program.into()], "api text \"never\"", SessionOptions::default())
            .await;
    test.say("hello?").await;
    let cause = ExitCause::Exited { code: 3, stderr: "no such luck".to_owned() };
    for _ in 0..4 {
        let gone = Note::AgentExited { cause: cause.clone() };
        test.reader.until(|it| note(it) == Some(gone.clone())).await;
    }
    let waiting = test.towpath.sessions.journal().open_prompts(test.session.id()).await;
    assert_eq!(waiting.expect("prompts").len(), 1, "the prompt still waits");
    let record = test.towpath.sessions.journal().session(test.session.id()).await;
    assert_eq!(
        record.expect("a journal").expect("a session").status,
        journal::SessionStatus::Failed
    );
    test.session.release().await;
    // Deleting the session does not start the agent again, although a prompt waits.
    let starts = || std::fs::read_to_string(directory.path().join("starts")).expect("starts").len();
    let before = starts();
    test.towpath.sessions.delete(test.session.id()).await.expect("a deletion");
    assert_eq!(starts(), before, "no agent is started to be deleted");
    let gone = test.towpath.sessions.journal().session(test.session.id()).await;
    assert_eq!(gone.expect("a journal"), None);
}
