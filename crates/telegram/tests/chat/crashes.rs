//! Processes that end at any point: every answer is delivered, complete and in order.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::json;
use towpath_telegram::chat::NextCall;
use towpath_telegram::{BotCallError, ChatKind};
use view::telegram::markdown;
use view::{Fold, ItemBody};
use wire::note::{Note, Outcome, RequestKind, TurnEnding};

use super::harness::{
    TestChat, asks, bash, began, ended, fold, id, init, opened, over, queued, resolved, result,
    text,
};

/// A session, entry by entry.
type Lines = Vec<Vec<u8>>;

/// The answers of the session: the texts after the last call of each turn, without white space.
fn finals(lines: &Lines) -> Vec<String> {
    let mut whole = Fold::with_budget(usize::MAX);
    for (seq, line) in (1..).zip(lines) {
        fold(&mut whole, seq, seq * 1000, line);
    }
    let document = whole.conversation(usize::MAX);
    let mut finals = Vec::new();
    for turn in document.turns.iter().filter(|turn| turn.end.is_some()) {
        let own = document.items.iter().filter(|it| it.turn == turn.number && it.parent.is_none());
        let mut last = Vec::new();
        for item in own {
            match &item.body {
                ItemBody::Text { text } => last.push(letters(markdown(text).plain_text())),
                ItemBody::Call(_) => last.clear(),
                _ => {}
            }
        }
        finals.extend(last.into_iter().filter(|text| !text.is_empty()));
    }
    finals
}

fn letters(text: &str) -> String {
    text.replace(char::is_whitespace, "")
}

/// When the process ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Before Telegram received the call.
    BeforeCall,
    /// After Telegram received it and before the checkpoint was stored.
    BeforeStore,
    /// After the checkpoint was stored.
    AfterStore,
}

/// Plays a session to a chat whose process ends now and then.
fn play(lines: &Lines, kind: ChatKind, verbosity: u8, ends: &[(usize, End)]) -> TestChat {
    let mut test = TestChat::new(kind, verbosity);
    test.delay = std::time::Duration::from_millis(13);
    let (mut steps, mut ends) = (0, ends.iter().copied().peekable());
    let mut live = |test: &mut TestChat| {
        for _ in 0..2_000 {
            let NextCall::Call(call, _) = test.chat.next_call(test.now) else { return };
            let stored = test.chat.checkpoint().clone();
            steps += 1;
            if steps % 5 == 0 {
                // The network fails now and then.
                test.failing = vec![BotCallError::Unreachable("no route".to_owned())];
            }
            match ends.next_if(|(at, _)| *at <= steps).map(|(_, end)| end) {
                Some(End::BeforeCall) => {
                    test.chat.call_started(&call, test.now);
                    test.restart(stored);
                }
                Some(End::BeforeStore) => {
                    test.step();
                    test.restart(stored);
                }
                Some(End::AfterStore) => {
                    test.step();
                    let stored = test.chat.checkpoint().clone();
                    test.restart(stored);
                }
                None => {
                    test.step();
                }
            }
        }
        panic!("the calls do not end");
    };
    for (at, line) in lines.iter().enumerate() {
        test.bytes(line.clone());
        // Sometimes many lines arrive together, as after an hour without a network.
        if at % 7 != 3 {
            live(&mut test);
        }
        test.now += std::time::Duration::from_millis(400);
    }
    live(&mut test);
    test.now += std::time::Duration::from_mins(1);
    live(&mut test);
    test
}

/// Checks that every answer is in the chat in order, and exactly once if every outcome was stored.
fn check(lines: &Lines, test: &TestChat, once: bool) -> Result<(), String> {
    let transcript = letters(&test.telegram.transcript());
    let mut rest = transcript.as_str();
    for answer in finals(lines) {
        let Some(at) = rest.find(&answer) else {
            return Err(format!("`{answer}` is not in\n{}", test.telegram.transcript()));
        };
        rest = &rest[at + answer.len()..];
    }
    if once {
        let said = said(lines);
        for answer in finals(lines).iter().filter(|answer| answer.len() > 12) {
            let (found, said) = (transcript.matches(answer).count(), said.matches(answer).count());
            if found > said {
                return Err(format!(
                    "`{answer}` is {said} times in the session and {found} times in the chat"
                ));
            }
        }
        // Old recordings lack the outcome of requests, which a journal always has.
        let asked = test.fold.conversation(1).requests.len();
        let open = test.telegram.messages.values().filter(|it| it.plain.starts_with("🔐")).count();
        if open != asked {
            return Err(format!("{open} cards can be answered, and {asked} requests wait"));
        }
    }
    match test.telegram.messages.values().find(|it| super::harness::is_progress(it)) {
        Some(left) if once => Err(format!("left behind: {left:?}")),
        _ => Ok(()),
    }
}

/// All texts of a session.
fn said(lines: &Lines) -> String {
    let mut whole = Fold::with_budget(usize::MAX);
    for (seq, line) in (1..).zip(lines) {
        fold(&mut whole, seq, seq * 1000, line);
    }
    let document = whole.conversation(usize::MAX);
    let texts = document.items.iter().filter_map(|item| match &item.body {
        ItemBody::Text { text } => Some(letters(markdown(text).plain_text())),
        ItemBody::Prompt(prompt) => Some(letters(&prompt.text)),
        ItemBody::Notice(notice) => Some(letters(&notice.text)),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A random session: turns with steps, texts before them, and an answer.
fn session() -> impl Strategy<Value = Lines> {
    let words = prop_oneof![
        "[a-z]{1,12}( [a-z]{1,9}){0,8}",
        (300_usize..1_500)
            .prop_map(|n| (0..n).map(|k| format!("w{k}")).collect::<Vec<_>>().join(" ")),
    ];
    let step = (proptest::option::of(words.clone()), any::<bool>(), any::<bool>());
    let turn = (proptest::collection::vec(step, 0..4), proptest::option::of(words));
    proptest::collection::vec(turn, 1..5).prop_map(|turns| {
        let mut lines: Lines = Vec::new();
        let mut add = |line: Vec<u8>| lines.push(line);
        for (turn, (steps, answer)) in (1_u64..).zip(turns) {
            let prompt = id(u128::from(turn));
            add(queued(prompt, "go on").to_line());
            add(began(turn, &[prompt]).to_line());
            add(init().to_string().into_bytes());
            for (n, (words, more, asked)) in steps.into_iter().enumerate() {
                let (message, call) = (format!("m{turn}.{n}"), format!("c{turn}.{n}"));
                if let Some(words) = words {
                    add(text(&message, &format!("S{turn}x{n} {words}")).to_string().into_bytes());
                }
                add(bash(&message, &call, "ls").to_string().into_bytes());
                if more {
                    add(bash(&message, &format!("{call}b"), "wc").to_string().into_bytes());
                    add(result(&format!("{call}b"), "y").to_string().into_bytes());
                }
                if asked {
                    let (request, input) = (format!("r{turn}.{n}"), json!({"command":"ls"}));
                    add(asks(&request, &call, "Bash", &input).to_string().into_bytes());
                    add(opened(&request, RequestKind::Permission).to_line());
                    add(resolved(&request, Outcome::Allowed).to_line());
                }
                add(result(&call, "x").to_string().into_bytes());
            }
            if let Some(answer) = answer {
                let answer = format!("F{turn}x {answer}");
                add(text(&format!("f{turn}"), &answer).to_string().into_bytes());
            }
            add(ended().to_string().into_bytes());
            add(over(turn).to_line());
        }
        lines
    })
}

fn process_ends(before_store: bool) -> impl Strategy<Value = Vec<(usize, End)>> {
    let end = if before_store {
        prop_oneof![Just(End::BeforeCall), Just(End::AfterStore), Just(End::BeforeStore)].boxed()
    } else {
        prop_oneof![Just(End::BeforeCall), Just(End::AfterStore)].boxed()
    };
    proptest::collection::vec((1_usize..60, end), 0..8).prop_map(|mut ends| {
        ends.sort_by_key(|(at, _)| *at);
        ends
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn every_answer_is_sent_once_if_every_outcome_is_stored(
        lines in session(), ends in process_ends(false), group: bool, verbosity in 0_u8..3,
    ) {
        let kind = if group { ChatKind::Group } else { ChatKind::Private };
        let test = play(&lines, kind, verbosity, &ends);
        prop_assert_eq!(check(&lines, &test, true), Ok(()));
        // No entry so far is needed again.
        prop_assert_eq!(test.chat.checkpoint().from, lines.len() as u64);
    }

    #[test]
    fn no_answer_is_lost_if_outcomes_are_not_stored(
        lines in session(), ends in process_ends(true), verbosity in 0_u8..3,
    ) {
        let test = play(&lines, ChatKind::Private, verbosity, &ends);
        prop_assert_eq!(check(&lines, &test, false), Ok(()));
    }
}

/// Every capture, with the notes that a session writes around its turns.
fn captures() -> Vec<(String, Lines)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let captures = files.into_iter().map(|path| {
        let bytes = fs::read(&path).expect("the capture can be read");
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        (path.display().to_string(), noted(lines))
    });
    captures.collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.parent().is_some_and(|folder| folder.ends_with("stdout")) {
            files.push(path);
        }
    }
}

fn noted<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Lines {
    let mut noted = Lines::new();
    let (mut turn, mut open) = (0, false);
    for line in lines {
        let kind = wire::Kind::find(line).map(|it| it.to_string()).unwrap_or_default();
        if kind == "system/init" && !open {
            turn += 1;
            open = true;
            noted.push(Note::TurnStarted { turn, prompts: Vec::new() }.to_line());
        }
        noted.push(line.to_vec());
        if kind.starts_with("result") && open {
            open = false;
            noted.push(Note::TurnEnded { turn, ending: TurnEnding::Completed }.to_line());
        }
    }
    noted
}

#[test]
fn every_capture_is_delivered_completely_despite_crashes() {
    let captures = captures();
    assert!(captures.len() > 20, "only {} captures", captures.len());
    let mut answers = 0;
    for (at, (name, lines)) in captures.iter().enumerate() {
        answers += finals(lines).len();
        let verbosity = u8::try_from(at % 3).unwrap();
        let ends = [End::BeforeCall, End::AfterStore, End::BeforeCall, End::AfterStore];
        let ends: Vec<_> =
            ends.into_iter().enumerate().map(|(n, end)| (n * 3 + at % 4, end)).collect();
        let test = play(lines, ChatKind::Private, verbosity, &ends);
        if let Err(wrong) = check(lines, &test, true) {
            panic!("{name}: {wrong}");
        }
    }
    assert!(answers > 20, "only {answers} answers");
}
