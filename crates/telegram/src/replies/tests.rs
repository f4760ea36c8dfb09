//! Every reply, as it is sent.

mod agent_menus;
mod schedules;

use std::fmt::Write as _;
use std::path::PathBuf;

use journal::{Grant, Resolution, Seq, SessionId, SessionRecord, SessionStatus, SpoolPosition};
use serde_json::{Value, json};
use session::CommandError;
use session::profiles::Profile;
use session::shim::OwnershipError;
use session::{
    AgentCatalog, Error, OpenError, OptionChanges, OptionError, OptionRole, OptionSpec, Roots,
    SessionOptions,
};
use uuid::Uuid;
use view::telegram::LIMIT;
use view::{
    AgentInfo, BoundedList, Conversation, McpServerStatus, QueuedPrompt, SessionPhase,
    SessionUsage, TokenCounts,
};
use wire::consent::RuleKind;
use wire::note::{Actor, CommitConfig, Delivery, Outcome, PromptState, WatchConfig};
use wire::outgoing::PermissionMode;

use super::*;
use crate::chat::UserIntent;
use crate::inbound::{ArgumentsError, ChatCommand, RejectedContent};

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
        imported_turns: 0,
        agent_state: None,
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

fn grant(number: u128, tool: &str, kind: RuleKind, pattern: Option<&str>) -> Grant {
    Grant {
        id: Uuid::from_u128(number),
        session: (number == 1).then(|| SessionId(Uuid::from_u128(7))),
        directory: None,
        tool: tool.to_owned(),
        kind,
        pattern: pattern.map(ToOwned::to_owned),
        until: (number == 2).then_some(NOW),
        by: ann(),
        created: 0,
    }
}

fn spec(name: &str) -> &'static OptionSpec {
    OptionSpec::find(name).unwrap()
}

/// Options with long values and with characters that are markup elsewhere.
fn huge_options() -> ShownOptions {
    let mut options = SessionOptions::default();
    let servers: serde_json::Map<_, _> = (0..500)
        .map(|number| (format!("<i>{number}</i> *x*"), json!({"command": "s3cret"})))
        .collect();
    for (name, value) in [
        ("model", json!("<b>opus</b>&_*`")),
        ("mode", json!("plan")),
        (
            "append_system_prompt",
            json!(format!("{TELEGRAM_PROMPT}\n\n{}", "<b>&`_ ".repeat(14_000))),
        ),
        ("allowed_tools", json!(["Read", "Bash(git log:*)"])),
        ("mcp_config", json!({ "mcpServers": servers })),
        ("environment", json!({"TOKEN": "s3cret"})),
    ] {
        options.set_value(spec(name), &value).unwrap();
    }
    ShownOptions::new(&options)
}

/// A conversation whose agent reports very much.
fn huge_conversation() -> Conversation {
    let names = |name: &str, count: u64| BoundedList {
        items: (0..500).map(|number| format!("{name}{number}<b>")).collect(),
        total: count,
    };
    let servers = (0..500).map(|number| McpServerStatus {
        name: format!("<i>server</i> *{number}* {}", "x".repeat(180)),
        status: if number % 2 == 0 { "failed" } else { "connected" }.to_owned(),
    });
    let agent = AgentInfo {
        version: Some("2.1.325".to_owned()),
        output_style: Some("default".to_owned()),
        tools: names("tool", 10_000),
        mcp_servers: BoundedList { items: servers.collect(), total: 500 },
        agents: names("agent", 500),
        skills: names("skill", 500),
        plugins: names("plugin", 500),
        commands: names("command", 500),
        ..AgentInfo::default()
    };
    Conversation { agent: Some(agent), ..Conversation::default() }
}

fn profile(name: &str) -> Profile {
    let values = json!({"model": "<b>opus</b>", "environment": {"KEY": "s3cret"}});
    Profile {
        name: name.to_owned(),
        description: Some("Looks <closely>".to_owned()),
        options: OptionChanges::new(values.as_object().unwrap()).unwrap(),
    }
}

fn commits() -> WatchConfig {
    let branch = Some("towpath/<x>".to_owned());
    let commit = Some(CommitConfig { branch, ..CommitConfig::default() });
    WatchConfig { commit, ..WatchConfig::default() }
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
        windows: Vec::new(),
    }
}

fn refused(refusal: CommandError) -> BotReply {
    call_failed(&Error::Refused(refusal))
}

/// All replies, by what they are for.
fn all(roots: &Roots) -> Vec<(&'static str, BotReply)> {
    let mut all = replies_about_sessions(roots);
    all.extend(replies_about_options());
    all.extend(schedules::replies_about_schedules());
    all
}

fn replies_about_options() -> Vec<(&'static str, BotReply)> {
    let log: Vec<_> = (0..200)
        .map(|number| WatchLogEntry {
            at: NOW,
            error: number % 7 == 0,
            kind: "commit".to_owned(),
            text: format!("<b>commit</b> {number} {}", "x".repeat(10_000)),
        })
        .collect();
    vec![
        ("options", options(&ShownOptions::default())),
        ("options that are set", options(&huge_options())),
        ("a mode", option(spec("mode"), &huge_options(), OptionRole::Drive, true)),
        ("a mode for an admin", option(spec("mode"), &huge_options(), OptionRole::Admin, true)),
        ("a list", option(spec("allowed_tools"), &huge_options(), OptionRole::Drive, false)),
        (
            "a long text",
            option(spec("append_system_prompt"), &huge_options(), OptionRole::Drive, false),
        ),
        ("for admins", option(spec("mcp_config"), &huge_options(), OptionRole::Drive, false)),
        (
            "at creation",
            option(spec("session_persistence"), &huge_options(), OptionRole::Drive, false),
        ),
        ("option set", option_set(spec("max_turns"), &json!(3))),
        ("option taken back", option_set(spec("model"), &Value::Null)),
        (
            "unknown option",
            option_refused(&OptionError::Unknown {
                name: "<b>`max`</b>".repeat(9000),
                similar: vec!["max_turns", "model"],
            }),
        ),
        ("invalid option", option_refused(&spec("max_turns").parse("<many>").unwrap_err())),
        ("needs an admin", needs_admin("environment")),
        ("bypass not allowed", bypass_not_allowed()),
        ("confirm bypass", confirm_bypass()),
        ("open quote", arguments_refused(&ArgumentsError::OpenQuote("\"<x".to_owned()))),
        ("no option", arguments_refused(&ArgumentsError::NotAnOption("<and>".to_owned()))),
        ("split", arguments_refused(&ArgumentsError::Split)),
        ("no profiles", profiles(&[], None)),
        ("profiles", profiles(&[profile("review"), profile("quick")], Some("quick"))),
        ("profile failed", profile_failed("there is no profile `<x>`")),
        ("commits off", commit_status(None, &[])),
        ("commits", commit_status(Some(&commits()), &log)),
        ("commits on", commit_set(Some(&commits()))),
    ]
}

fn replies_about_sessions(roots: &Roots) -> Vec<(&'static str, BotReply)> {
    let root = roots.directories()[0].clone();
    let records = [
        record(
            1,
            Some("Fix the flaky test in the parser, the one that fails on Mondays only"),
            root.join("app"),
            SessionStatus::Running,
        ),
        record(2, None, root.clone(), SessionStatus::Waiting),
        SessionRecord {
            options: r#"{"agent":"codex"}"#.to_owned(),
            ..record(90, Some("Docs"), "/srv/elsewhere".into(), SessionStatus::Dead)
        },
    ];
    let offered = offered_models(
        r#"{"commands":[],"models":[{"value":"default","displayName":"Default (recommended)","description":"Sonnet 4.5"},{"value":"opus[1m]","displayName":"Opus (1M context)"}]}"#,
    );
    let terminal =
        [(4, Some("<b>Fix</b> *it* ".repeat(9000))), (5, None)].map(|(number, title)| {
            CliSessionSummary {
                id: Uuid::from_u128(number << 120),
                title,
                active: NOW - 90_000_000,
            }
        });
    let agents = AgentCatalog::default();
    let huge = "echo <b>&`x` ".repeat(10_000);
    let resolved = |outcome| Resolution { outcome, by: Some(ann()), message: None, at: 0 };
    let queue_of = [
        waiting(1, "and then the docs\nof <everything>", 0, PromptState::Queued),
        waiting(2, "", 2, PromptState::Queued),
        waiting(3, "on its way", 0, PromptState::Written),
    ];
    vec![
        ("help", help()),
        ("unknown command", unknown_command("review")),
        ("sessions", sessions(&records, Some(records[1].id), roots, &agents, NOW)),
        (
            "to resume",
            resumable(&records[..1], &terminal, Some(records[1].id), roots, &agents, NOW),
        ),
        ("nothing to resume", resumable(&[], &[], None, roots, &agents, NOW)),
        ("no sessions", sessions(&[], None, roots, &agents, NOW)),
        ("begun", session_created(&root.join("app"), roots, &ShownOptions::default(), None)),
        (
            "begun with options",
            session_created(&root.join("app"), roots, &huge_options(), Some("<b>Codex")),
        ),
        ("resumed", session_resumed(&records[0], roots, &agents)),
        ("no such session", session_not_found("abc")),
        ("ambiguous", session_ambiguous("abc")),
        ("directory not allowed", directory_not_allowed("/etc", roots)),
        (
            "status",
            status(
                &conversation(&root.join("app")),
                &ShownOptions::default(),
                "30 min",
                roots,
                NOW,
            ),
        ),
        ("status of much", status(&huge_conversation(), &huge_options(), "never", roots, NOW)),
        (
            "status of nothing",
            status(&Conversation::default(), &ShownOptions::default(), "30 min", roots, NOW),
        ),
        ("cost", cost(&usage(), 3)),
        ("cost unknown", cost(&SessionUsage::default(), 1)),
        ("queue", queue(&queue_of)),
        ("queue empty", queue(&[])),
        ("queued", prompt_queued(0)),
        ("queued behind others", prompt_queued(2)),
        ("unqueued", prompt_removed()),
        ("reworded", prompt_edited()),
        ("too late to reword", too_late_to_edit()),
        (
            "rules",
            rules(&[
                grant(1, "edits", RuleKind::Directory, Some("/w/.towpath/outbox")),
                grant(2, "Bash", RuleKind::Command, Some(&huge)),
                grant(4, "edits", RuleKind::File, Some("/etc/**")),
                grant(5, "WebFetch", RuleKind::Host, Some("example.org")),
            ]),
        ),
        ("no rules", rules(&[])),
        ("rule revoked", rule_revoked(&grant(3, "mcp__<b>x</b>", RuleKind::Tool, None))),
        ("rule revoked before", rule_not_found()),
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
        ("stopping with one", stopping(1)),
        ("stopping with a queue", stopping(2)),
        ("queue resumed", queue_resumed()),
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
        ("unfit", refused(CommandError::Invalid("a plan is approved or not".into()))),
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
        assert!(!messages[0].html.contains("s3cret"), "{name} shows a secret");
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
                ("q:", UserIntent::RemovePrompt(id))
                | (
                    "s:",
                    UserIntent::Command(ChatCommand::Schedule(ScheduleArguments::Remove(id))),
                )
                | ("g:", UserIntent::Command(ChatCommand::Rules(Some(id)))) => {
                    assert!(button.data.ends_with(&id.simple().to_string()));
                }
                ("m:", UserIntent::Command(ChatCommand::Model(Some(it)))) => {
                    assert!(button.data.ends_with(&it));
                }
                ("p:", UserIntent::Command(ChatCommand::Mode(Some(it)))) => {
                    assert!(find_mode(&it).is_some());
                }
                ("o:", UserIntent::Command(ChatCommand::Set(set))) => match set {
                    SetArguments::Show(name) => assert!(OptionSpec::find(&name).is_some()),
                    SetArguments::Set { name, value, confirmed: false } => {
                        assert!(spec(&name).parse(&value).is_ok(), "{name} {value}");
                    }
                    set => panic!("{name}: {set:?}"),
                },
                ("b:", UserIntent::Command(ChatCommand::Set(set))) => {
                    assert!(matches!(set, SetArguments::Set { confirmed: true, .. }));
                }
                ("n:", UserIntent::Command(ChatCommand::New(new))) => {
                    assert!(button.data.ends_with(new.profile.as_deref().unwrap()));
                }
                ("t:", UserIntent::Command(ChatCommand::Resume(Some(id)))) => {
                    assert!(button.data.ends_with(&id.replace('-', "")));
                }
                ("v:", UserIntent::Command(ChatCommand::Verbose(Some(it)))) => assert!(it <= 2),
                (data, other) => panic!("{name}: {data} means {other:?}"),
            }
            count += 1;
        }
    }
    assert!(count >= 14, "{count} buttons");
    for data in [
        "",
        "r:",
        "r:x",
        "q:1",
        "m:",
        "p:",
        "v:9",
        "v:x",
        "g:1",
        "t:1",
        "o:",
        "b:",
        "b:x",
        "n:",
        "x:1",
        "s:1",
        "a:",
        "abcdefghij.a",
    ] {
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
