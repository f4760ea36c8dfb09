//! What people do with a session, with any agent.

use std::ffi::OsString;

use journal::{Entry, Seq};
use session::machine::{Answer, GrantScope, NewPrompt, RuleChoice};
use session::{Creation, Options, Session};
use wire::consent::RuleId;
use wire::note::{
    Actor, Cause, Delivery, Note, Outcome, PromptState, Rewind, Setting, TurnEnding, Wants,
};
use wire::say::{Image, PermissionMode};

use crate::stage::{Reader, Stage, Towpath, ann, is_turn_over, note, notes, prompt, says};

const BYPASS: Option<PermissionMode> = Some(PermissionMode::BypassPermissions);

/// A session on a stage, and somebody who reads it.
struct Talk {
    stage: Stage,
    towpath: Towpath,
    session: Session,
    reader: Reader,
}

impl Talk {
    async fn new(agent: Vec<OsString>, replies: &str, options: Options) -> Self {
        let stage = Stage::new(agent, replies).await;
        Self::on(stage, options).await
    }

    async fn on(stage: Stage, options: Options) -> Self {
        let towpath = stage.towpath();
        let options = Options { directory: stage.project(), ..options };
        let session = towpath.create_with(options).await;
        let reader = Reader::new(&session, Seq::default());
        Self { stage, towpath, session, reader }
    }

    async fn say(&self, text: &str) -> NewPrompt {
        let prompt = prompt(text);
        self.session.prompt(prompt.clone()).await.expect("a prompt is taken");
        prompt
    }

    async fn steer(&self, text: &str) -> NewPrompt {
        let prompt = NewPrompt { delivery: Delivery::Steer, ..prompt(text) };
        self.session.prompt(prompt.clone()).await.expect("a prompt is taken");
        prompt
    }

    async fn turn_over(&mut self) -> Vec<Entry> {
        self.reader.until(is_turn_over).await
    }

    /// The request the agent opens next.
    async fn asked(&mut self) -> (String, Wants) {
        let seen = self.reader.until(|it| opened(it).is_some()).await;
        seen.last().and_then(opened).expect("a request")
    }

    async fn end(self) {
        self.session.close().await.expect("an end");
        self.session.leave().await;
    }
}

fn opened(entry: &Entry) -> Option<(String, Wants)> {
    match note(entry) {
        Some(Note::RequestOpened { request, wants, .. }) => Some((request, wants)),
        _ => None,
    }
}

fn became(prompt: &NewPrompt, state: PromptState) -> Note {
    Note::PromptBecame { prompt: prompt.id, state }
}

fn ending(seen: &[Entry]) -> TurnEnding {
    let ending = notes(seen).into_iter().find_map(|note| match note {
        Note::TurnOver { ending, .. } => Some(ending),
        _ => None,
    });
    ending.expect("the turn is over")
}

/// All of them.
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
    let options = Options { permission_mode: BYPASS, ..Options::default() };
    let mut talk = Talk::new(agent, replies, options).await;
    let first = talk.say("begin").await;
    talk.reader.until(says("tool_use")).await;
    let second = talk.steer("and mind the gap").await;
    // The command must not end before the agent has read it.
    let mut seen = talk.reader.until(says(&format!("\"command_uuid\":\"{}\"", second.id))).await;
    std::fs::write(talk.stage.project().join("gate"), "").expect("a gate");
    seen.extend(talk.turn_over().await);
    assert_eq!(ending(&seen), TurnEnding::Completed);
    for prompt in [&first, &second] {
        assert!(notes(&seen).contains(&became(prompt, PromptState::Done)), "{}", prompt.text);
    }
    let asked = talk.stage.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].matches("mind the gap").count(), 1);
    talk.end().await;
}

async fn queued_prompts_wait_and_can_be_changed(agent: Vec<OsString>) {
    let replies = "api text \"one two three\" hold gate after 1\napi text \"next\"";
    let mut talk = Talk::new(agent, replies, Options::default()).await;
    talk.say("first").await;
    talk.reader.until(says("text_delta")).await;
    let [second, third, fourth] =
        [talk.say("second").await, talk.say("third").await, talk.say("fourth").await];
    talk.session.edit_prompt(third.id, "third, but better".to_owned()).await.expect("an edit");
    talk.session.move_prompt(fourth.id, Some(second.id)).await.expect("a move");
    talk.session.remove_prompt(second.id).await.expect("a removal");
    talk.stage.api.open("gate");
    for _ in 0..3 {
        assert_eq!(ending(&talk.turn_over().await), TurnEnding::Completed);
    }
    let asked = talk.stage.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[1].contains("fourth") && !asked[1].contains("third"), "{}", asked[1]);
    assert!(asked[2].contains("third, but better") && !asked[2].contains("second"), "{}", asked[2]);
    talk.end().await;
}

async fn a_grant_spares_the_next_question(agent: Vec<OsString>) {
    let replies = "api tool Bash {\"command\":\"touch a\",\"description\":\"a\"}\n\
        api tool Bash {\"command\":\"touch a\",\"description\":\"again\"}\n\
        api text \"done\"";
    let mut talk = Talk::new(agent, replies, Options::default()).await;
    talk.say("touch them").await;
    let (request, wants) = talk.asked().await;
    assert_eq!(wants, Wants::Permission);
    let remember = RuleChoice { rule: RuleId::Exact, until: None, scope: GrantScope::Directory };
    let allow = Answer::Allow { input: None, remember: Some(remember), mode: None };
    talk.session.answer(&request, allow, ann()).await.expect("an answer");
    let seen = talk.turn_over().await;
    let by_rule = |note: &Note| match note {
        Note::RequestResolved {
            outcome: Outcome::Allowed, by: Some(Actor { via, .. }), ..
        } => via == "rule",
        _ => false,
    };
    assert!(notes(&seen).iter().any(by_rule), "{:?}", notes(&seen));
    assert!(talk.stage.project().join("a").exists());
    let ledger = talk.towpath.sessions.journal().ledger(Some(talk.session.id()), 10).await;
    assert_eq!(ledger.expect("a ledger").len(), 2);
    talk.end().await;
}

async fn a_question_is_answered(agent: Vec<OsString>) {
    let replies = "api tool AskUserQuestion {\"questions\":[{\"question\":\"Which colour?\",\"header\":\"Colour\",\"multiSelect\":false,\
        \"options\":[{\"label\":\"Red\",\"description\":\"r\"},{\"label\":\"Blue\",\"description\":\"b\"}]}]}\n\
        api text \"Blue it is.\"";
    let mut talk = Talk::new(agent, replies, Options::default()).await;
    talk.say("choose").await;
    let (request, wants) = talk.asked().await;
    assert_eq!(wants, Wants::Answers);
    let answers = Answer::Answers(vec![("Which colour?".to_owned(), "Blue".to_owned())]);
    talk.session.answer(&request, answers, ann()).await.expect("an answer");
    assert_eq!(ending(&talk.turn_over().await), TurnEnding::Completed);
    assert!(talk.stage.asked()[1].contains("Blue"));
    talk.end().await;
}

async fn settings_change_in_flight(agent: Vec<OsString>) {
    let mut talk = Talk::new(agent, "api text \"ok\"", Options::default()).await;
    talk.say("one").await;
    talk.turn_over().await;
    let model = Setting::Model(Some("claude-other-model".to_owned()));
    talk.session.set(model, ann()).await.expect("another model");
    talk.session.set(Setting::PermissionMode("plan".to_owned()), ann()).await.expect("a mode");
    let refused = talk.session.set(Setting::PermissionMode("bogus".to_owned()), ann()).await;
    assert!(refused.is_err(), "there is no such mode");
    talk.say("two").await;
    talk.turn_over().await;
    let requests = talk.stage.api.requests();
    let models = requests.iter().filter(|it| it.kind == testbed::api::Kind::Main);
    let models: Vec<_> = models.map(|it| it.body["model"].clone()).collect();
    assert_eq!(models.last(), Some(&"claude-other-model".into()), "{models:?}");
    assert!(talk.session.query(session::machine::Query::Context).await.is_ok());
    talk.end().await;
}

async fn files_are_put_back(agent: Vec<OsString>) {
    let replies =
        "api tool Write {\"file_path\":\"$cwd/new.txt\",\"content\":\"new\"}\napi text \"written\"";
    let options = Options { permission_mode: BYPASS, ..Options::default() };
    let mut talk = Talk::new(agent, replies, options).await;
    let write = talk.say("write it").await;
    talk.turn_over().await;
    let file = talk.stage.project().join("new.txt");
    assert!(file.exists());
    talk.session.rewind(write.id, Rewind::Files, ann()).await.expect("a rewind");
    assert!(!file.exists(), "what the agent made is gone");
    talk.reader.until(|it| matches!(note(it), Some(Note::Rewound { .. }))).await;
    talk.end().await;
}

async fn a_parked_session_wakes_with_its_memory(agent: Vec<OsString>) {
    let mut stage = Stage::new(agent, "api text \"ok\"").await;
    stage.scene.park = Some(300);
    let mut talk = Talk::on(stage, Options::default()).await;
    talk.say("remember the milk").await;
    talk.turn_over().await;
    let parked = |it: &Entry| note(it) == Some(Note::AgentGone { cause: Cause::Parked });
    talk.reader.until(parked).await;
    talk.say("what was it?").await;
    assert_eq!(ending(&talk.turn_over().await), TurnEnding::Completed);
    assert!(talk.stage.asked()[1].contains("remember the milk"));
    talk.end().await;
}

async fn a_conversation_is_forked(agent: Vec<OsString>) {
    let mut talk = Talk::new(agent, "api text \"ok\"", Options::default()).await;
    talk.say("the trunk").await;
    talk.turn_over().await;
    let record = talk.towpath.sessions.journal().session(talk.session.id()).await;
    let trunk = record.expect("a journal").expect("a session").agent_ids;
    let options = Options { directory: talk.stage.project(), fork: true, ..Options::default() };
    let creation = Creation { options, resume: trunk.last().cloned(), ..Creation::default() };
    let branch = talk.towpath.sessions.create(creation).await.expect("a branch");
    let mut reader = Reader::new(&branch, Seq::default());
    branch.prompt(prompt("the branch")).await.expect("a prompt is taken");
    reader.until(is_turn_over).await;
    let asked = talk.stage.asked();
    assert!(asked[1].contains("the trunk") && asked[1].contains("the branch"), "{}", asked[1]);
    let record = talk.towpath.sessions.journal().session(branch.id()).await;
    let ids = record.expect("a journal").expect("a session").agent_ids;
    assert_ne!(ids.last(), trunk.last());
    branch.close().await.expect("an end");
    branch.leave().await;
    talk.end().await;
}

async fn a_cleared_conversation_has_another_id(agent: Vec<OsString>) {
    let mut talk = Talk::new(agent, "api text \"ok\"", Options::default()).await;
    talk.say("zebra").await;
    talk.turn_over().await;
    talk.say("/clear").await;
    talk.turn_over().await;
    talk.say("ostrich").await;
    talk.turn_over().await;
    let record = talk.towpath.sessions.journal().session(talk.session.id()).await;
    let ids = record.expect("a journal").expect("a session").agent_ids;
    assert_eq!(ids.len(), 2, "{ids:?}");
    let asked = talk.stage.asked();
    assert!(!asked.last().expect("a request").contains("zebra"));
    // The next process goes on with the newer one.
    talk.session.close().await.expect("an end");
    talk.reader.until(|it| matches!(note(it), Some(Note::AgentGone { .. }))).await;
    talk.say("and again").await;
    talk.turn_over().await;
    let asked = talk.stage.asked();
    let last = asked.last().expect("a request");
    assert!(last.contains("ostrich") && !last.contains("zebra"), "{last}");
    talk.end().await;
}

async fn a_picture_reaches_the_model(agent: Vec<OsString>) {
    /// A PNG of one pixel.
    const PIXEL: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82";
    let mut talk = Talk::new(agent, "api text \"a pixel\"", Options::default()).await;
    let image = Image::new(PIXEL).expect("a picture");
    let prompt = NewPrompt { images: vec![image], ..prompt("what is it?") };
    talk.session.prompt(prompt).await.expect("a prompt is taken");
    assert_eq!(ending(&talk.turn_over().await), TurnEnding::Completed);
    assert!(talk.stage.asked()[0].contains("image/png"));
    talk.end().await;
}

/// An agent that says why it will not begin, and ends: the words are kept, and it is not started for
/// ever.
pub(crate) async fn an_agent_that_ends_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let starts = directory.path().join("starts");
    let script =
        format!("#!/bin/sh\nprintf x >> '{}'\necho 'no such luck' >&2\nexit 3\n", starts.display());
    let program = directory.path().join("agent");
    std::fs::write(&program, script).expect("a script");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, executable).expect("a mode");
    let mut talk = Talk::new(vec![program.into()], "api text \"never\"", Options::default()).await;
    talk.say("hello?").await;
    let cause = Cause::Exited { code: 3, stderr: "no such luck".to_owned() };
    for _ in 0..4 {
        let gone = Note::AgentGone { cause: cause.clone() };
        talk.reader.until(|it| note(it) == Some(gone.clone())).await;
    }
    let waiting = talk.towpath.sessions.journal().open_prompts(talk.session.id()).await;
    assert_eq!(waiting.expect("prompts").len(), 1, "the prompt still waits");
    let record = talk.towpath.sessions.journal().session(talk.session.id()).await;
    assert_eq!(record.expect("a journal").expect("a session").status, journal::Status::Failed);
    talk.session.leave().await;
    // Deleting it does not try again, though a prompt waits.
    let starts = || std::fs::read_to_string(directory.path().join("starts")).expect("starts").len();
    let before = starts();
    talk.towpath.sessions.delete(talk.session.id()).await.expect("a deletion");
    assert_eq!(starts(), before, "no agent is started to be deleted");
    let gone = talk.towpath.sessions.journal().session(talk.session.id()).await;
    assert_eq!(gone.expect("a journal"), None);
}
