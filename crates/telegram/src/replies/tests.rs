//! Every reply, as it is sent.

use std::fmt::Write as _;
use std::path::PathBuf;

use journal::{Resolution, Seq, SessionId, SessionRecord, SessionStatus, SpoolPosition};
use session::CommandError;
use session::shim::OwnershipError;
use session::{Error, OpenError, Roots};
use uuid::Uuid;
use view::telegram::LIMIT;
use view::{Conversation, QueuedPrompt, SessionPhase, SessionUsage, TokenCounts};
use wire::note::{Actor, Delivery, Outcome, PromptState};
use wire::outgoing::PermissionMode;

use super::*;
use crate::chat::UserIntent;
use crate::inbound::{ChatCommand, RejectedContent};

const NOW: u64 = 1_794_735_000_000;

fn record(
    number: u128,
    title: Option<&str>,
    directory: PathBuf,
    status: SessionStatus,
) -> SessionRecord {
    SessionRecord {
        id: SessionId(Uuid::from_u128(0xabcd_ef00 << 96 | number)),
        title: title.map(ToOwned::to_owned),
        directory,
        status,
        options: "{}".to_owned(),
        created: 0,
        active: NOW - u64::try_from(number).unwrap() * 2_000_000,
        last: Seq(1),
        agent_ids: Vec::new(),
        spool: SpoolPosition::default(),
        writes: 0,
        turn: 3,
        turn_ended: 3,
        damage: None,
    }
}

fn waiting(number: u128, text: &str, images: usize, state: PromptState) -> QueuedPrompt {
    QueuedPrompt {
        id: Uuid::from_u128(number).to_string(),
        text: text.to_owned(),
        images,
        delivery: Delivery::Queue,
        state,
        by: Some(ann()),
        at: None,
    }
}

fn ann() -> Actor {
    Actor { name: "Ann".to_owned(), via: "browser".to_owned() }
}

fn conversation(directory: &std::path::Path) -> Conversation {
    let mut it = Conversation::default();
    it.head.title = Some("Fix the <b>flaky</b> test".to_owned());
    it.head.model = Some("claude-opus-4-6".to_owned());
    it.head.effort = Some("high".to_owned());
    it.head.mode = Some("acceptEdits".to_owned());
    it.head.cwd = Some(directory.display().to_string());
    it.status.phase = SessionPhase::Working;
    it.status.turn_since = Some(NOW - 75_000);
    it.usage = usage();
    it.queue = vec![waiting(1, "and then the docs", 0, PromptState::Queued)];
    it
}

fn usage() -> SessionUsage {
    let tokens =
        TokenCounts { input: 1_200, output: 3_400, cache_read: 98_000, cache_write: 2_000 };
    SessionUsage {
        tokens,
        cost: Some(0.4321),
        context: Some(45_000),
        window: Some(200_000),
        plan: None,
    }
}

fn refused(refusal: CommandError) -> BotReply {
    call_failed(&Error::Refused(refusal))
}

/// All replies, by what they are for.
fn all(roots: &Roots) -> Vec<(&'static str, BotReply)> {
    let root = roots.directories()[0].clone();
    let records = [
        record(
            1,
            Some("Fix the flaky test in the parser, the one that fails on Mondays only"),
            root.join("app"),
            SessionStatus::Running,
        ),
        record(2, None, root.clone(), SessionStatus::Waiting),
        record(90, Some("Docs"), "/srv/elsewhere".into(), SessionStatus::Dead),
    ];
    let offered = offered_models(
        r#"{"commands":[],"models":[{"value":"default","displayName":"Default (recommended)","description":"Sonnet 4.5"},{"value":"opus[1m]","displayName":"Opus (1M context)"}]}"#,
    );
    let resolved = |outcome| Resolution { outcome, by: Some(ann()), message: None, at: 0 };
    let queue_of = [
        waiting(1, "and then the docs\nof <everything>", 0, PromptState::Queued),
        waiting(2, "", 2, PromptState::Queued),
        waiting(3, "on its way", 0, PromptState::Written),
    ];
    vec![
        ("help", help()),
        ("unknown command", unknown_command("review")),
        ("sessions", sessions(&records, Some(records[1].id), roots, NOW)),
        ("no sessions", sessions(&[], None, roots, NOW)),
        ("begun", session_created(&root.join("app"), roots)),
        ("resumed", session_resumed(&records[0], roots)),
        ("no such session", session_not_found("abc")),
        ("ambiguous", session_ambiguous("abc")),
        ("directory not allowed", directory_not_allowed("/etc", roots)),
        ("status", status(&conversation(&root.join("app")), roots, NOW)),
        ("status of nothing", status(&Conversation::default(), roots, NOW)),
        ("cost", cost(&usage(), 3)),
        ("cost unknown", cost(&SessionUsage::default(), 1)),
        ("queue", queue(&queue_of)),
        ("queue empty", queue(&[])),
        ("queued", prompt_queued(0)),
        ("queued behind others", prompt_queued(2)),
        ("unqueued", prompt_removed()),
        ("reworded", prompt_edited()),
        ("too late to reword", too_late_to_edit()),
        ("models", models(&offered, Some("opus[1m]"))),
        ("models unknown", models(&[], None)),
        ("model set", model_set(Some("opus"))),
        ("modes", modes(Some("plan"))),
        ("mode set", mode_set(PermissionMode::AcceptEdits)),
        ("no such mode", unknown_mode("yolo")),
        ("verbosity", verbosity(1)),
        ("verbosity set", verbosity_set(0)),
        ("nothing to stop", nothing_to_stop()),
        ("stopping", stopping(0)),
        ("stopping with a queue", stopping(2)),
        ("compacting", compacting()),
        ("no changes", no_changes()),
        ("no session", no_session()),
        (
            "too large",
            rejected(&RejectedContent::TooLarge {
                name: "film.mkv".to_owned(),
                size: 30_000_000,
                limit: 20 << 20,
            }),
        ),
        ("unreadable", rejected(&RejectedContent::Unsupported("polls"))),
        ("not fetched", download_failed("a.pdf")),
        ("not sent", file_too_large("out`put.zip", 70_000_000, 50 << 20)),
        ("session deleted", session_deleted()),
        ("internal error", internal_error()),
        ("disk full", call_failed(&Error::NotStored)),
        ("closed", call_failed(&Error::Closed)),
        ("journal busy", call_failed(&Error::Journal(journal::Error::Busy))),
        ("busy", refused(CommandError::Busy)),
        ("not waiting", refused(CommandError::NotWaiting(PromptState::Written))),
        ("taken back before", refused(CommandError::NotWaiting(PromptState::Cancelled))),
        (
            "already allowed",
            refused(CommandError::AlreadyResolved(Box::new(resolved(Outcome::Allowed)))),
        ),
        ("already denied", resolution(&resolved(Outcome::Denied))),
        ("expired", resolution(&resolved(Outcome::Expired))),
        ("withdrawn", resolution(&resolved(Outcome::Withdrawn))),
        (
            "refused by the agent",
            refused(CommandError::RefusedByAgent("Cannot set permission mode".to_owned())),
        ),
        ("unfit", refused(CommandError::Invalid("a plan is approved or not"))),
        ("held", open_failed(&OpenError::Owned(OwnershipError::Owned { pid: Some(4711) }))),
        ("deleted", open_failed(&OpenError::NoSuchSession(records[0].id))),
        (
            "directory gone",
            open_failed(&OpenError::Directory {
                path: "/srv/app".into(),
                source: std::sync::Arc::new(std::io::ErrorKind::NotFound.into()),
            }),
        ),
    ]
}

#[test]
fn replies() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("work");
    std::fs::create_dir(&root).unwrap();
    let roots = Roots::new(&[root]).unwrap();
    let mut table = String::new();
    for (name, reply) in all(&roots) {
        let messages = reply.text.messages(LIMIT);
        assert_eq!(messages.len(), 1, "{name} is one message");
        writeln!(table, "── {name}\n{}", messages[0].html).unwrap();
        for row in &reply.buttons {
            let row: Vec<_> = row.iter().map(|it| format!("[{}]({})", it.label, it.data)).collect();
            writeln!(table, "{}", row.join(" ")).unwrap();
        }
    }
    let real = roots.directories()[0].parent().unwrap().display().to_string();
    insta::assert_snapshot!(table.replace(&real, "/home/ann"));
}

#[test]
fn every_button_fits_and_means_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let roots = Roots::new(&[directory.path().to_owned()]).unwrap();
    let mut count = 0;
    for (name, reply) in all(&roots) {
        for button in reply.buttons.iter().flatten() {
            assert!((1..=64).contains(&button.data.len()), "{name}: {}", button.data);
            let meant = intent_of(&button.data).expect("a meaning");
            match (&button.data[..2], meant) {
                ("r:", UserIntent::Resume(id)) => {
                    assert!(button.data.ends_with(&id.0.simple().to_string()));
                }
                ("q:", UserIntent::RemovePrompt(id)) => {
                    assert!(button.data.ends_with(&id.simple().to_string()));
                }
                ("m:", UserIntent::Command(ChatCommand::Model(Some(it)))) => {
                    assert!(button.data.ends_with(&it));
                }
                ("p:", UserIntent::Command(ChatCommand::Mode(Some(it)))) => {
                    assert!(find_mode(&it).is_some());
                }
                ("v:", UserIntent::Command(ChatCommand::Verbose(Some(it)))) => assert!(it <= 2),
                (data, other) => panic!("{name}: {data} means {other:?}"),
            }
            count += 1;
        }
    }
    assert!(count >= 14, "{count} buttons");
    for data in ["", "r:", "r:x", "q:1", "m:", "p:", "v:9", "v:x", "x:1", "abcdefghij.a"] {
        assert_eq!(intent_of(data), None, "{data}");
    }
}

#[test]
fn what_is_registered_is_what_is_understood() {
    for (name, line) in commands() {
        assert!(name.chars().all(|c| c.is_ascii_lowercase()) && (3..=256).contains(&line.len()));
        let command = ChatCommand::new(name, "");
        assert!(!matches!(command, ChatCommand::Unknown(_)), "/{name}");
    }
    assert!(commands().len() <= 100);
}

#[test]
fn modes_have_the_names_people_would_give_them() {
    for (name, mode) in [
        ("plan", PermissionMode::Plan),
        ("acceptEdits", PermissionMode::AcceptEdits),
        ("accept edits", PermissionMode::AcceptEdits),
        ("ACCEPT-EDITS", PermissionMode::AcceptEdits),
        ("ask", PermissionMode::Default),
        ("default", PermissionMode::Default),
        ("bypasspermissions", PermissionMode::BypassPermissions),
    ] {
        assert_eq!(find_mode(name), Some(mode), "{name}");
    }
    assert_eq!(find_mode("yolo"), None);
}
