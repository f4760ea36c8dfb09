//! Tests of the translation: lines of an agent in, updates of the protocol out.

use view::{Fold, Revision};
use wire::acp::{AcpUpdate, CallContent, CallStatus, ClientCapabilities, Speaker};

use super::{TranslatedUpdate, TranslationPhase, Translator, TranslatorSettings};

/// A fold and a translator that are fed line by line.
struct TranslatedSession {
    fold: Fold,
    translator: Translator,
    revision: Revision,
    seq: u64,
}

impl TranslatedSession {
    fn new(capabilities: ClientCapabilities, phase: TranslationPhase) -> Self {
        let settings = TranslatorSettings {
            session: "s".to_owned(),
            directory: "/p".to_owned(),
            capabilities,
            ..TranslatorSettings::default()
        };
        let translator = Translator::new(settings, phase);
        Self { fold: Fold::new(), translator, revision: Revision(0), seq: 0 }
    }

    fn live() -> Self {
        Self::new(ClientCapabilities::default(), TranslationPhase::Live)
    }

    fn push(&mut self, line: &str) -> Vec<TranslatedUpdate> {
        self.seq += 1;
        self.fold.push_line(self.seq, line.as_bytes());
        let update = self.fold.patches(self.revision);
        self.revision = self.fold.revision();
        self.translator.items(&self.fold, update.as_ref())
    }

    fn push_all(&mut self, lines: &[String]) -> Vec<AcpUpdate> {
        lines.iter().flat_map(|line| self.push(line)).map(|it| it.update).collect()
    }
}

fn start(message: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"message_start","message":{{"id":"{message}"}}}}}}"#
    )
}

fn block(index: u32, block: &str) -> String {
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_start","index":{index},"content_block":{block}}}}}"#
    )
}

fn delta(index: u32, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        r#"{{"type":"stream_event","event":{{"type":"content_block_delta","index":{index},"delta":{{"type":"text_delta","text":{text}}}}}}}"#
    )
}

fn assistant(message: &str, block: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{message}","role":"assistant","content":[{block}]}}}}"#
    )
}

fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, serde_json::to_string(text).unwrap())
}

fn tool_use(id: &str, tool: &str, input: &str) -> String {
    format!(r#"{{"type":"tool_use","id":"{id}","name":"{tool}","input":{input}}}"#)
}

fn result(id: &str, text: &str) -> String {
    let text = serde_json::to_string(text).unwrap();
    format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{id}","content":{text}}}]}}}}"#
    )
}

fn chunks(updates: &[AcpUpdate]) -> Vec<&str> {
    let text = |update| match update {
        &AcpUpdate::Chunk { author: Speaker::Agent, ref text, .. } => Some(text.as_str()),
        _ => None,
    };
    updates.iter().filter_map(text).collect()
}

#[test]
fn a_streamed_text_is_sent_once_and_not_repeated_when_it_is_complete() {
    let mut session = TranslatedSession::live();
    let updates = session.push_all(&[
        start("m1"),
        block(0, r#"{"type":"text","text":""}"#),
        delta(0, "Grü"),
        delta(0, "ße 🦀 "),
        delta(0, "!"),
        assistant("m1", &text_block("Grüße 🦀 !")),
    ]);
    assert_eq!(chunks(&updates), ["Grü", "ße 🦀 ", "!"]);
}

#[test]
fn a_text_without_deltas_is_one_chunk_and_a_huge_one_is_several() {
    let mut session = TranslatedSession::live();
    let updates = session.push_all(&[assistant("m1", &text_block("whole"))]);
    assert_eq!(chunks(&updates), ["whole"]);
    let huge = "wörd\n".repeat(200_000);
    let updates = session.push_all(&[assistant("m2", &text_block(&huge))]);
    let chunks = chunks(&updates);
    assert!(chunks.iter().all(|it| it.len() <= 16 << 10));
    assert_eq!(chunks.concat(), huge);
}

#[test]
fn a_huge_text_that_grows_word_by_word_takes_linear_time() {
    let mut session = TranslatedSession::live();
    session.push_all(&[start("m1"), block(0, r#"{"type":"text","text":""}"#)]);
    let word = "word ".repeat(20);
    let mut sent = 0;
    let begin = std::time::Instant::now();
    for _ in 0..10_000 {
        for update in session.push(&delta(0, &word)) {
            if let AcpUpdate::Chunk { text, .. } = update.update {
                sent += text.len();
            }
        }
    }
    assert_eq!(sent, 10_000 * word.len());
    assert!(begin.elapsed().as_secs() < 30, "it took {:?}", begin.elapsed());
}

#[test]
fn a_call_is_announced_and_then_updated_by_what_has_changed() {
    let mut session = TranslatedSession::live();
    let updates = session.push_all(&[
        assistant("m1", &tool_use("t1", "Bash", r#"{"command":"ls","description":"List"}"#)),
        result("t1", "a\n```\nb"),
    ]);
    let [AcpUpdate::ToolCall(new), AcpUpdate::ToolCall(done)] = &updates[..] else {
        panic!("{updates:?}")
    };
    assert!(new.is_new && new.name.as_deref() == Some("Bash"));
    assert_eq!((new.id.as_str(), new.title.as_deref()), ("t1", Some("ls")));
    assert_eq!(
        new.raw_input.as_ref().unwrap().as_str(),
        r#"{"command":"ls","description":"List"}"#
    );
    assert_eq!(done.status, Some(CallStatus::Completed));
    assert!(!done.is_new && done.title.is_none() && done.raw_input.is_none());
    assert_eq!(
        done.content.as_deref(),
        Some(&[CallContent::Text("````console\na\n```\nb\n````".to_owned())][..])
    );
}

#[test]
fn an_edit_is_a_diff_and_a_huge_one_is_cut() {
    let mut session = TranslatedSession::live();
    let edit = r#"{"file_path":"/p/a.rs","old_string":"one","new_string":"two"}"#;
    let updates = session.push_all(&[assistant("m1", &tool_use("t1", "Edit", edit))]);
    let [AcpUpdate::ToolCall(call)] = &updates[..] else { panic!("{updates:?}") };
    let Some([CallContent::Diff(diff)]) = call.content.as_deref() else { panic!("{call:?}") };
    assert_eq!((diff.before.as_deref(), diff.after.as_str()), (Some("one"), "two"));
    assert_eq!(call.locations.as_ref().unwrap()[0].0, "/p/a.rs");
    let content = serde_json::to_string(&"line\n".repeat(400_000)).unwrap();
    let write = format!(r#"{{"file_path":"/p/b.rs","content":{content}}}"#);
    let updates = session.push_all(&[assistant("m2", &tool_use("t2", "Write", &write))]);
    let [AcpUpdate::ToolCall(call)] = &updates[..] else { panic!("{updates:?}") };
    assert!(call.raw_input.is_none());
    let Some([CallContent::Diff(diff)]) = call.content.as_deref() else { panic!() };
    assert!(diff.after.len() < 20 << 10 && diff.after.ends_with("more bytes)"));
}

#[test]
fn a_replay_has_whole_messages_and_the_open_one_follows_at_its_end() {
    let mut session =
        TranslatedSession::new(ClientCapabilities::default(), TranslationPhase::Replay);
    let updates = session.push_all(&[
        assistant("m1", &text_block("first")),
        start("m2"),
        block(0, r#"{"type":"text","text":""}"#),
        delta(0, "half"),
    ]);
    assert_eq!(chunks(&updates), ["first"]);
    let rest: Vec<AcpUpdate> =
        session.translator.go_live(&session.fold).into_iter().map(|it| it.update).collect();
    assert_eq!(chunks(&rest), ["half"]);
    let updates = session.push_all(&[delta(0, " more")]);
    assert_eq!(chunks(&updates), [" more"]);
}

#[test]
fn a_silent_past_is_known_and_not_sent() {
    let mut session =
        TranslatedSession::new(ClientCapabilities::default(), TranslationPhase::Silent);
    let updates = session.push_all(&[
        assistant("m1", &tool_use("t1", "Bash", r#"{"command":"ls"}"#)),
        start("m2"),
        block(0, r#"{"type":"text","text":""}"#),
        delta(0, "half"),
    ]);
    assert!(updates.is_empty());
    // A call that is not over is announced, so that its end can be told.
    let open = session.translator.go_live(&session.fold);
    assert!(matches!(&open[..], [TranslatedUpdate { update: AcpUpdate::ToolCall(call), .. }]
        if call.is_new && call.title.is_some()));
    let updates = session.push_all(&[delta(0, " more"), result("t1", "done")]);
    assert_eq!(chunks(&updates), [" more"]);
    assert!(matches!(updates.last(), Some(AcpUpdate::ToolCall(call)) if !call.is_new));
}

#[test]
fn what_a_sub_agent_does_has_its_call_as_parent_or_a_session_of_its_own() {
    let delegate = r#"{"description":"look","prompt":"look at it","subagent_type":"explorer"}"#;
    let inner = tool_use("t2", "Read", r#"{"file_path":"/p/a"}"#);
    let inner = format!(
        r#"{{"type":"assistant","parent_tool_use_id":"t1","message":{{"id":"m2","content":[{inner}]}}}}"#
    );
    let lines = [assistant("m1", &tool_use("t1", "Agent", delegate)), inner];
    let mut flat = TranslatedSession::live();
    let updates = flat.push_all(&lines);
    let [AcpUpdate::ToolCall(outer), AcpUpdate::ToolCall(inner)] = &updates[..] else {
        panic!("{updates:?}")
    };
    assert_eq!((outer.parent.as_deref(), inner.parent.as_deref()), (None, Some("t1")));
    let capabilities = ClientCapabilities { subagents: true, ..Default::default() };
    let mut nested = TranslatedSession::new(capabilities, TranslationPhase::Live);
    let updates: Vec<TranslatedUpdate> = lines.iter().flat_map(|it| nested.push(it)).collect();
    assert!(matches!(&updates[1].update, AcpUpdate::SubAgent { session, title: Some(title), .. }
        if session == "s:t1" && title == "look"));
    assert_eq!(updates.last().unwrap().child.as_deref(), Some("s:t1"));
}
