//! Journals that begin with the lines of a session file.

use towpath_view::{Conversation, Fold, ItemBody, OlderItems, SessionPhase};
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note, PromptState, TurnEnding};
use wire::{Origin, RecordedLine};

use super::captures;

struct ImportedJournal {
    fold: Fold,
    follower: Conversation,
    entries: Vec<(Origin, Vec<u8>)>,
}

impl ImportedJournal {
    fn new(budget: usize) -> Self {
        let fold = Fold::with_budget(budget);
        Self { fold, follower: Conversation::default(), entries: Vec::new() }
    }

    fn push(&mut self, origin: Origin, bytes: &[u8]) {
        self.entries.push((origin, bytes.to_vec()));
        let seq = self.entries.len() as u64;
        let line = RecordedLine { seq, at: 5_000_000, origin, bytes };
        // A restored fold must have the same document. Comparing long ones often takes minutes.
        let saved =
            (seq < 80 || seq.is_multiple_of(97)).then(|| Fold::restore(&self.fold.save()).unwrap());
        self.fold.push_recorded(line);
        if let Some(mut saved) = saved {
            saved.push_recorded(line);
            assert_eq!(saved.conversation(usize::MAX), self.fold.conversation(usize::MAX));
        }
        if let Some(update) = self.fold.patches(self.follower.revision) {
            self.follower.apply(&update).unwrap();
        }
    }

    fn note(&mut self, note: &Note) {
        self.push(Origin::Towpath, &note.to_line());
    }

    fn import(&mut self, lines: &[&[u8]], turns: u64) {
        self.note(&Note::Imported {
            file: "/home/dev/.claude/projects/-p/x.jsonl".to_owned(),
            conversation: "x".to_owned(),
            entries: lines.len() as u64,
            turns,
        });
        for line in lines {
            self.push(Origin::Transcript, line);
        }
    }

    /// A turn of Towpath's.
    fn own_turn(&mut self, turn: u64) {
        let prompt = Uuid::from_u128(u128::from(turn));
        let by = Actor { name: "ann".to_owned(), via: "terminal".to_owned() };
        let text = "go on".to_owned();
        self.note(&Note::PromptQueued { prompt, text, images: 0, delivery: Delivery::Queue, by });
        self.note(&Note::TurnStarted { turn, prompts: vec![prompt] });
        let message = br#"{"type":"assistant","message":{"id":"own","role":"assistant","content":[{"type":"text","text":"yes"}],"usage":{"input_tokens":7,"output_tokens":1}}}"#;
        self.push(Origin::Agent, message);
        self.note(&Note::TurnEnded { turn, ending: TurnEnding::Completed });
        self.note(&Note::PromptStateChanged { prompt, state: PromptState::Done });
    }

    fn document(&self) -> Conversation {
        self.fold.conversation(usize::MAX)
    }
}

fn transcripts() -> Vec<(String, Vec<Vec<u8>>)> {
    let all = captures().into_iter().filter(|it| it.name.contains("/transcript/"));
    all.map(|it| (it.name, it.lines.into_iter().map(|(_, line)| line).collect())).collect()
}

#[test]
fn an_imported_session_file_shows_the_same_items_as_the_file() {
    for (name, lines) in transcripts() {
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let mut alone = Fold::new();
        for (seq, line) in (2..).zip(&lines) {
            alone.push_line(seq, line);
        }
        let alone = alone.conversation(usize::MAX);
        let turns = alone.turns.last().map_or(0, |turn| turn.number);
        let mut journal = ImportedJournal::new(32 << 20);
        journal.import(&lines, turns);
        let document = journal.document();
        assert_eq!(journal.follower, document, "{name}");
        let texts = |document: &Conversation| -> Vec<String> {
            let items = document.items.iter().filter(|it| !matches!(it.body, ItemBody::Raw(_)));
            items.map(|it| format!("{:?} {} {:?}", it.id, it.turn, it.at)).collect()
        };
        assert_eq!(texts(&document)[1..], texts(&alone), "{name}");
        assert_eq!(document.status.phase, SessionPhase::Idle, "{name}");
        assert!(document.requests.is_empty() && document.queue.is_empty(), "{name}");
        assert!(document.turns.iter().all(|it| it.number == 0 || it.imported && it.end.is_some()));
        assert_eq!((document.usage.tokens.total(), document.usage.cost), (0, None), "{name}");

        journal.own_turn(turns + 1);
        let document = journal.document();
        let own: Vec<_> =
            document.turns.iter().filter(|it| it.number > 0 && !it.imported).collect();
        assert_eq!(own.len(), 1, "{name}");
        assert_eq!(document.usage.tokens.total(), 8, "{name}");
    }
}

#[test]
fn requests_and_results_in_an_imported_file_are_not_acted_on() {
    let mut journal = ImportedJournal::new(32 << 20);
    let prompt = br#"{"type":"user","uuid":"00000000-0000-4000-8000-000000000001","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}"#;
    let request = br#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
    let forged = Note::TurnStarted { turn: 99, prompts: Vec::new() }.to_line();
    let result = br#"{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":9}"#;
    journal.import(&[prompt, request, &forged, result, b"noise", prompt], 1);
    let document = journal.document();
    assert!(document.requests.is_empty());
    assert_eq!(document.status.phase, SessionPhase::Idle);
    assert_eq!(document.turns.iter().map(|it| it.number).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(document.usage.cost, None);
}

#[test]
fn the_cost_before_an_import_is_not_counted_again() {
    for (version, expected) in [("2.1.325", 0.5), ("2.1.197", 6.0)] {
        let mut journal = ImportedJournal::new(32 << 20);
        let prompt = br#"{"type":"user","uuid":"00000000-0000-4000-8000-000000000001","parentUuid":null,"sessionId":"s","message":{"role":"user","content":"hi"}}"#;
        let cost = br#"{"type":"cost-state","sessionId":"s","totalCostUSD":5.5}"#;
        journal.import(&[prompt, cost], 1);
        journal.note(&Note::AgentStarted { resumed: true });
        journal.note(&Note::AgentReady { version: Some(version.to_owned()) });
        journal.note(&Note::TurnStarted { turn: 2, prompts: Vec::new() });
        journal.push(Origin::Agent, br#"{"type":"result","subtype":"success","is_error":false,"result":"x","total_cost_usd":6}"#);
        journal.note(&Note::TurnEnded { turn: 2, ending: TurnEnding::Completed });
        let document = journal.document();
        assert_eq!(document.usage.cost, Some(expected), "{version}");
        assert_eq!(document.turns.last().unwrap().cost, Some(expected), "{version}");
    }
}

#[test]
fn older_pages_of_an_import_are_the_items_that_were_evicted() {
    let lines: Vec<Vec<u8>> = (0..700)
        .map(|number| {
            let id = Uuid::from_u128(number + 10_000);
            let (kind, text) =
                if number % 2 == 0 { ("user", "ask") } else { ("assistant", "answer") };
            let text = format!("{text} {number} {}", "x".repeat(600));
            serde_json::json!({"type": kind, "uuid": id, "parentUuid": null, "sessionId": "s",
                "timestamp": "2026-11-15T09:36:40.000Z", "message": {"id": format!("m{number}"),
                "role": kind, "content": [{"type": "text", "text": text}]}})
            .to_string()
            .into_bytes()
        })
        .collect();
    let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    let mut small = ImportedJournal::new(20_000);
    let mut large = ImportedJournal::new(32 << 20);
    for journal in [&mut small, &mut large] {
        journal.import(&lines, 350);
        journal.own_turn(351);
    }
    let whole = large.document().items;
    let mut items = small.document().items;
    assert!(items.len() < whole.len());
    while items.len() < whole.len() {
        let first = items[0].position;
        let page = match small.fold.older(first, 50) {
            OlderItems::Available { items, .. } => items,
            OlderItems::Page(page) => {
                let mut fold = Fold::for_page(&page);
                for (seq, (origin, bytes)) in (1..).zip(&small.entries) {
                    if (page.first..=page.last).contains(&seq) {
                        fold.push_recorded(RecordedLine {
                            seq,
                            at: 5_000_000,
                            origin: *origin,
                            bytes,
                        });
                    }
                }
                match fold.page_items(&page) {
                    OlderItems::Available { items, .. } => items,
                    OlderItems::Page(_) => panic!("a page of a page"),
                }
            }
        };
        assert!(!page.is_empty());
        items.splice(0..0, page);
    }
    let known = |items: &[towpath_view::Item]| -> Vec<_> {
        items.iter().map(|it| (it.id.clone(), it.turn, it.position, it.at)).collect()
    };
    assert_eq!(known(&items), known(&whole));
}
