//! What must hold for every record, tried on every capture.

use std::collections::BTreeSet;

use super::{Record, captures, push};
use towpath_view::{
    Conversation, Fold, Item, ItemBody, Position, Revision, TokenCounts, Visibility,
};
use wire::event::{Body as EventBody, Stream};
use wire::note::{Note, PromptState, TurnEnding};
use wire::{Reading, read};

#[test]
fn a_fold_saved_and_restored_at_any_line_gives_the_same_document() {
    for record in captures() {
        let whole = record.document();
        let mut prefix = Fold::new();
        for (cut, (seq, line)) in record.lines.iter().enumerate() {
            let mut rest = Fold::restore(&prefix.save()).unwrap();
            assert_eq!(
                rest.conversation(usize::MAX),
                prefix.conversation(usize::MAX),
                "{} restored at {cut}",
                record.name
            );
            for (seq, line) in &record.lines[cut..] {
                push(&mut rest, *seq, line);
            }
            assert_eq!(rest.conversation(usize::MAX), whole, "{} cut at {cut}", record.name);
            push(&mut prefix, *seq, line);
        }
    }
}

/// The stream event of a line, where it is one.
fn stream_event(line: &[u8]) -> Option<Stream<'_>> {
    match read(line).next()?.reading {
        Reading::Event(event) => match event.body {
            EventBody::Stream(stream) => Some(stream),
            _ => None,
        },
        _ => None,
    }
}

/// The ids of messages that a record has whole lines of.
fn finished_messages(record: &Record) -> BTreeSet<String> {
    let lines = record.lines.iter().flat_map(|(_, line)| read(line));
    let messages = lines.filter_map(|line| match line.reading {
        Reading::Event(event) => match &event.body {
            EventBody::Assistant(assistant) => Some(assistant.message.id?.decode().into_owned()),
            _ => None,
        },
        _ => None,
    });
    messages.collect()
}

/// The record as a compacted journal: without the deltas of blocks that have their line.
fn compacted(record: &Record) -> Record {
    let finished = finished_messages(record);
    let mut drops = false;
    record.filtered(|line| match stream_event(line) {
        Some(Stream::MessageStart(message)) => {
            drops = message.id.is_some_and(|id| finished.contains(&*id.decode()));
            true
        }
        Some(Stream::BlockStart { .. } | Stream::BlockDelta { .. } | Stream::BlockStop { .. }) => {
            !drops
        }
        _ => true,
    })
}

#[test]
fn a_journal_without_the_deltas_of_finished_messages_gives_the_same_document() {
    let mut streamed = 0;
    for record in captures() {
        let compacted = compacted(&record);
        streamed += usize::from(compacted.lines.len() < record.lines.len());
        assert_eq!(compacted.document(), record.document(), "{}", record.name);
    }
    assert!(streamed > 50, "only {streamed} captures have deltas");
}

/// The content of a document, without numbers that only deltas have.
fn content(document: &Conversation) -> Vec<(String, Option<u64>, ItemBody)> {
    let item = |item: &Item| (item.id.to_string(), item.at, item.body.clone());
    document.items.iter().map(item).map(without_tokens).collect()
}

fn without_tokens(
    (id, at, mut body): (String, Option<u64>, ItemBody),
) -> (String, Option<u64>, ItemBody) {
    if let ItemBody::Call(call) = &mut body
        && let Some(agent) = &mut call.agent
    {
        agent.tokens = TokenCounts::default();
    }
    (id, at, body)
}

#[test]
fn a_stream_without_partial_messages_gives_the_same_items() {
    for record in captures() {
        let bare = record.filtered(|line| stream_event(line).is_none());
        let (bare, whole) = (bare.document(), record.document());
        assert_eq!(content(&bare), content(&whole), "{}", record.name);
        assert_eq!(bare.status, whole.status, "{}", record.name);
        let ends = |document: &Conversation| {
            let ends = document.turns.iter().map(|turn| (turn.number, turn.end.clone(), turn.cost));
            ends.collect::<Vec<_>>()
        };
        assert_eq!(ends(&bare), ends(&whole), "{}", record.name);
    }
}

/// The record with the notes that a session writes around its turns: a turn begins with the prompt,
/// before the CLI prints anything.
fn with_notes(record: &Record) -> Record {
    let kinds = record.lines.iter().map(|(_, line)| wire::Kind::find(line));
    let kinds: Vec<_> = kinds.map(|it| it.map(|it| it.to_string()).unwrap_or_default()).collect();
    let mut lines = Vec::new();
    let (mut turn, mut open, mut has_init) = (0, false, false);
    let over = |turn| Note::TurnEnded { turn, ending: TurnEnding::Completed }.to_line();
    for (at, (_, line)) in record.lines.iter().enumerate() {
        let init = kinds[at] == "system/init";
        if init && has_init {
            lines.push(over(turn));
            open = false;
        }
        if !open && kinds[at..].iter().any(|kind| kind == "system/init") {
            turn += 1;
            lines.push(Note::TurnStarted { turn, prompts: Vec::new() }.to_line());
            (open, has_init) = (true, false);
        }
        has_init |= init;
        lines.push(line.clone());
        if kinds[at].starts_with("result") {
            lines.push(over(turn));
            (open, has_init) = (false, false);
        }
    }
    Record { name: record.name.clone(), lines: (1..).zip(lines).collect() }
}

#[test]
fn notes_around_turns_do_not_change_the_items() {
    for record in captures().iter().filter(|record| record.name.contains("stdout")) {
        // Notes also track the states of prompts, and change the numbers of lines.
        let bodies = |document: &Conversation| {
            let bodies = document.items.iter().map(|item| item.body.clone());
            let bodies = bodies.map(|mut body| {
                match &mut body {
                    ItemBody::Prompt(prompt) => prompt.state = PromptState::Done,
                    ItemBody::Call(call) => {
                        if let Some(outcome) = &mut call.result {
                            outcome.seq = 0;
                        }
                    }
                    _ => {}
                }
                body
            });
            bodies.collect::<Vec<_>>()
        };
        let (bare, noted) = (record.document(), with_notes(record).document());
        assert_eq!(bodies(&noted), bodies(&bare), "{}", record.name);
        assert_eq!(noted.usage, bare.usage, "{}", record.name);
        let ended = |document: &Conversation| {
            document.turns.iter().filter(|turn| turn.number > 0 && turn.end.is_some()).count()
        };
        assert_eq!(ended(&noted), ended(&bare), "{}", record.name);
    }
}

#[test]
fn updates_that_come_late_or_twice_give_the_document() {
    for record in captures() {
        let mut fold = Fold::new();
        let mut each = Conversation::default();
        let mut seldom = Conversation::default();
        let mut kept = Vec::new();
        for (at, (seq, line)) in record.lines.iter().enumerate() {
            push(&mut fold, *seq, line);
            let update = fold.patches(each.revision).unwrap();
            each.apply(&update).unwrap();
            each.apply(&update).unwrap();
            assert_eq!(each, fold.conversation(usize::MAX), "{} after line {seq}", record.name);
            kept.push(update);
            // An old one, and one that overlaps what is already known.
            each.apply(&kept[at / 2]).unwrap();
            let overlapping = fold.patches(Revision(seq / 2)).unwrap();
            each.apply(&overlapping).unwrap();
            assert_eq!(each, fold.conversation(usize::MAX), "{} again at {seq}", record.name);
            if at % 7 == 3 {
                seldom.apply(&fold.patches(seldom.revision).unwrap()).unwrap();
                assert_eq!(seldom, fold.conversation(usize::MAX), "{} now and then", record.name);
                // It must also survive serialization.
                let sent = serde_json::to_string(&fold.patches(Revision(0))).unwrap();
                let mut late = Conversation::default();
                let update: Option<towpath_view::Update> = serde_json::from_str(&sent).unwrap();
                late.apply(&update.unwrap()).unwrap();
                assert_eq!(late, seldom, "{}", record.name);
            }
        }
    }
}

#[test]
fn a_line_that_is_there_twice_counts_once() {
    for mut record in captures() {
        let whole = record.document();
        let named = |line: &[u8]| {
            let assistant = |it: &wire::Event<'_>| {
                matches!(it.body, EventBody::Assistant(_)) && it.envelope.uuid.is_some()
            };
            read(line).any(|it| it.event().is_some_and(assistant))
        };
        let twice = record.lines.iter().filter(|(_, line)| named(line)).cloned();
        let twice: Vec<_> = twice.collect();
        record.lines.extend(twice);
        record.lines.sort_by_key(|(seq, _)| *seq);
        assert_eq!(content(&record.document()), content(&whole), "{}", record.name);
    }
}

/// Reproducible pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[test]
fn updates_in_any_order_with_any_gaps_never_give_a_wrong_document() {
    for (seed, record) in (1..).zip(captures()) {
        let mut dice = Dice(seed);
        let mut fold = Fold::new();
        let mut follower = Conversation::default();
        let mut states = vec![follower.clone()];
        let mut kept = Vec::new();
        for (seq, line) in &record.lines {
            push(&mut fold, *seq, line);
            states.push(fold.conversation(usize::MAX));
            let since = Revision(dice.below(states.len()) as u64);
            kept.push(fold.patches(since).unwrap());
            for _ in 0..3 {
                let update = &kept[dice.below(kept.len())];
                let before = follower.revision;
                let applied = follower.apply(update);
                assert_eq!(applied.is_err(), update.from > before && update.to > before);
                let revision = usize::try_from(follower.revision.0).unwrap();
                assert_eq!(follower, states[revision], "{} seed {seed}", record.name);
            }
        }
    }
}

/// Damaged lines of a record: lost, doubled, reordered, cut short, or mixed with those of another
/// session.
fn damaged(record: &Record, other: &Record, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for (_, line) in &record.lines {
        match dice.below(12) {
            0 => {}
            1 => lines.extend([line.clone(), line.clone()]),
            2 => lines.push(line[..dice.below(line.len())].to_vec()),
            3 => {
                let at = dice.below(lines.len() + 1);
                lines.insert(at, line.clone());
            }
            4 => {
                let (_, stranger) = &other.lines[dice.below(other.lines.len())];
                lines.extend([line.clone(), stranger.clone()]);
            }
            _ => lines.push(line.clone()),
        }
    }
    lines
}

#[test]
fn a_damaged_record_is_folded_by_the_same_rules() {
    let captures = captures();
    for (seed, record) in (1..).zip(&captures) {
        let mut dice = Dice(seed);
        let other = &captures[dice.below(captures.len())];
        let mut fold = Fold::with_budget(if seed % 2 == 0 { usize::MAX } else { 20_000 });
        let mut follower = Conversation::default();
        let lines = damaged(record, other, &mut dice);
        let cut = dice.below(lines.len() + 1);
        for (at, line) in lines.iter().enumerate() {
            if at == cut {
                fold = Fold::restore(&fold.save()).unwrap();
            }
            push(&mut fold, at as u64 + 1, line);
            if dice.below(3) > 0 {
                continue;
            }
            match fold.patches(follower.revision) {
                Some(update) => follower.apply(&update).unwrap(),
                None => follower = fold.conversation(usize::MAX),
            }
            let document = fold.conversation(usize::MAX);
            if !document.more && document.items.iter().all(|item| !item.trimmed) {
                assert_eq!(follower, document, "{} seed {seed}", record.name);
            }
            let ids: BTreeSet<_> = document.items.iter().map(|item| &item.id).collect();
            assert_eq!(ids.len(), document.items.len(), "{} seed {seed}", record.name);
            assert!(document.items.is_sorted_by_key(|item| item.position));
        }
    }
}

#[test]
fn ids_and_positions_are_unique_and_items_are_in_order() {
    for record in captures() {
        let document = record.document();
        let ids: BTreeSet<_> = document.items.iter().map(|item| &item.id).collect();
        assert_eq!(ids.len(), document.items.len(), "{}", record.name);
        assert!(document.items.is_sorted_by_key(|item| item.position), "{}", record.name);
        let turns: BTreeSet<_> = document.turns.iter().map(|turn| turn.number).collect();
        for item in &document.items {
            assert!(turns.contains(&item.turn), "{}: {item:?}", record.name);
            assert!(!item.open && item.position.0 < Position::OPEN, "{}: {item:?}", record.name);
        }
    }
}

/// Kinds of lines that are of no interest to a person, or repeat another line.
const HIDDEN: &[&str] = &[
    "atis-latch",
    "attachment",
    "command_lifecycle",
    "control_cancel_request",
    "control_request/mcp_message",
    "control_response/error",
    "control_response/success",
    "file-history-delta",
    "file-history-snapshot",
    "last-prompt",
    "mode",
    "progress",
    "queue-operation",
    "relocated",
    "stream_event",
    "system/background_tasks_changed",
    "system/commands_changed",
    "system/control_request_progress",
    "system/local_command",
    "system/model_refusal_no_fallback",
    "system/session_state_changed",
    "system/session_title_changed",
    "system/status",
    "system/stop_hook_summary",
    "system/thinking_tokens",
    "transcript_mirror",
    "worktree-state",
];

/// Kinds of messages of the Agent Client Protocol that are of no interest to a person, or change nothing
/// because they repeat another one.
const ACP_HIDDEN: &[&str] = &[
    "_auth/status_update",
    "_towpath/nonsense",
    "fs/write_text_file",
    "initialize",
    "response",
    "session/close",
    "session/fork",
    "session/list",
    "session/load",
    "session/new",
    "session/prompt",
    "session/resume",
    "session/update/available_commands_update",
    "session/update/config_option_update",
    "session/update/session_info_update",
    "session/update/session_message",
    "session/update/state_update",
    "session/update/subagent_update",
    "session/update/terminal_update",
    "session/update/usage_update",
    "session/update/user_message",
    "session/update/user_message_chunk",
    "towpath/nonsense",
];

/// Whether a line of a recording of both sides may be hidden: it is no message, its kind is known to be,
/// or it repeats what happened before the session was loaded.
fn hides_acp(record: &Record, kind: &str) -> bool {
    let repeats = record.name.contains("/load") && kind.starts_with("session/update/");
    record.name.starts_with("acp/") && (kind.is_empty() || repeats || ACP_HIDDEN.contains(&kind))
}

/// Whether a record is a stream or session file of another agent, in that agent's own dialect. Those are
/// shown in part, and have tests of their own.
fn is_of_another_agent(record: &Record) -> bool {
    let folder = record.name.split('/').next().unwrap_or_default();
    folder != "acp" && !folder.starts_with(|first: char| first.is_ascii_digit())
}

#[test]
fn every_line_is_visible_or_known_to_be_hidden() {
    let mut odd = BTreeSet::new();
    for record in captures().into_iter().filter(|record| !is_of_another_agent(record)) {
        let mut fold = Fold::new();
        let mut known = BTreeSet::new();
        for (seq, line) in &record.lines {
            // A compacted session file has some of its lines twice.
            let uuid = read(line).find_map(|it| it.event()?.envelope.uuid.map(|it| it.to_string()));
            let again = uuid.is_some_and(|uuid| !known.insert(uuid));
            let caveat = String::from_utf8_lossy(line).contains("Caveat: The messages below");
            let kinds: Vec<_> = read(line).map(|it| it.kind().map(|it| it.to_string())).collect();
            for (kind, visibility) in kinds.into_iter().zip(push(&mut fold, *seq, line)) {
                let kind = kind.unwrap_or_default();
                match visibility {
                    // The CLI's message to the model about slash commands.
                    Visibility::Hidden if caveat => {}
                    Visibility::Hidden if again || HIDDEN.contains(&&*kind) => {}
                    Visibility::Hidden if hides_acp(&record, &kind) => {}
                    Visibility::Hidden => {
                        odd.insert(format!("{} line {seq}: {kind} is not shown", record.name));
                    }
                    Visibility::Visible => {
                        let before = Revision(seq - 1);
                        let patches = fold.patches(before).unwrap().patches;
                        // Repeated counts change nothing.
                        if patches.is_empty() && kind != "stream_event" {
                            odd.insert(format!("{} line {seq}: {kind} left no trace", record.name));
                        }
                    }
                }
            }
        }
    }
    assert!(odd.is_empty(), "{odd:#?}");
}

#[test]
fn tokens_are_those_that_the_protocol_crate_counts() {
    for record in captures().into_iter().filter(|record| !is_of_another_agent(record)) {
        let mut tally = wire::analysis::UsageTotals::default();
        for (_, line) in &record.lines {
            for line in read(line) {
                if let Reading::Event(event) = line.reading {
                    tally.observe(&event);
                }
            }
        }
        let (ours, theirs) = (record.document().usage.tokens, tally.total());
        assert_eq!(
            (ours.input, ours.output, ours.cache_read, ours.cache_write),
            (theirs.input, theirs.output, theirs.cache_read, theirs.cache_write),
            "{}",
            record.name
        );
    }
}
