//! What the agent says about itself.

use towpath_view::{Conversation, Fold, McpServerStatus, Patch};

use super::captures;

fn init(fields: &str) -> String {
    format!(r#"{{"type":"system","subtype":"init","session_id":"s"{fields}}}"#)
}

fn folded(lines: &[String]) -> Fold {
    let mut fold = Fold::new();
    for (seq, line) in (1..).zip(lines) {
        fold.push_line(seq, line.as_bytes());
    }
    fold
}

#[test]
fn the_agent_of_every_capture_with_an_init_is_described() {
    let mut with_plugins = 0;
    for record in captures() {
        let has_init = record
            .lines
            .iter()
            .any(|(_, line)| line.starts_with(br#"{"type":"system","subtype":"init""#));
        let agent = record.document().agent;
        if !has_init {
            continue;
        }
        let agent = agent.expect(&record.name);
        assert!(agent.model.is_some() && agent.cwd.is_some(), "{}", record.name);
        assert_eq!(agent.tools.items.len() as u64, agent.tools.total, "{}", record.name);
        with_plugins += usize::from(!agent.plugins.is_empty());
        if record.name.starts_with("2.1.325/stdout") {
            assert_eq!(agent.version.as_deref(), Some("2.1.325"), "{}", record.name);
            assert!(agent.skills.total > 0 && agent.commands.total > 0, "{}", record.name);
        }
    }
    assert!(with_plugins > 10, "{with_plugins}");
}

#[test]
fn the_reply_to_initialize_describes_an_agent_before_its_first_turn() {
    let reply = r#"{"type":"control_response","response":{"subtype":"success","request_id":"r","response":{"commands":[{"name":"clear","description":"…"}],"agents":[{"name":"Explore"}],"output_style":"default","account":{"apiKeySource":"none"},"claude_code_version":"2.1.325"}}}"#;
    let mut fold = folded(&[reply.to_owned()]);
    let agent = fold.agent().unwrap();
    assert_eq!(agent.commands.items, ["clear"]);
    assert_eq!(agent.agents.items, ["Explore"]);
    assert_eq!(agent.api_key_source.as_deref(), Some("none"));
    fold.push_line(2, init(r#","tools":["Bash"],"claude_code_version":"2.1.325""#).as_bytes());
    // A process that is started again has the same tools until it says otherwise.
    fold.push_line(3, reply.as_bytes());
    let agent = fold.agent().unwrap();
    assert_eq!(
        (&agent.tools.items[..], &agent.commands.items[..]),
        (&["Bash".to_owned()][..], &["clear".to_owned()][..])
    );
}

#[test]
fn only_a_change_of_the_description_is_a_patch() {
    let mut fold = folded(&[init(r#","tools":["Bash"]"#)]);
    let mut document: Conversation = fold.conversation(10);
    fold.push_line(2, init(r#","tools":["Bash"]"#).as_bytes());
    let update = fold.patches(document.revision).unwrap();
    assert!(!update.patches.iter().any(|patch| matches!(patch, Patch::Agent { .. })));
    document.apply(&update).unwrap();
    let servers = r#","tools":["Bash"],"mcp_servers":[{"name":"db","status":"failed"}]"#;
    fold.push_line(3, init(servers).as_bytes());
    let update = fold.patches(document.revision).unwrap();
    document.apply(&update).unwrap();
    assert_eq!(document.agent, fold.conversation(10).agent);
    let db = McpServerStatus { name: "db".to_owned(), status: "failed".to_owned() };
    assert_eq!(document.agent.unwrap().mcp_servers.items, [db]);
}

#[test]
fn a_new_permission_mode_is_in_the_description() {
    let status = r#"{"type":"system","subtype":"status","status":null,"permissionMode":"plan"}"#;
    let fold = folded(&[init(r#","permissionMode":"default""#), status.to_owned()]);
    assert_eq!(fold.agent().unwrap().mode.as_deref(), Some("plan"));
}

#[test]
fn an_upgraded_agent_does_not_keep_the_tools_of_the_old_one() {
    let fold = folded(&[
        init(r#","claude_code_version":"2.1.37","tools":["Glob"],"skills":["old"]"#),
        init(r#","claude_code_version":"2.1.325","tools":["Bash"]"#),
    ]);
    let agent = fold.agent().unwrap();
    assert_eq!(agent.tools.items, ["Bash"]);
    assert!(agent.skills.is_empty());
}

#[test]
fn ten_thousand_tools_with_long_names_stay_small() {
    let tools: Vec<String> =
        (0..10_000).map(|n| format!("\"mcp__{n}__{}\"", "x".repeat(5000))).collect();
    let servers: Vec<String> =
        (0..10_000).map(|n| format!(r#"{{"name":"server {n}","status":"failed"}}"#)).collect();
    let line = init(&format!(
        r#","cwd":"/{}","tools":[{}],"mcp_servers":[{}]"#,
        "d/".repeat(1 << 20),
        tools.join(","),
        servers.join(",")
    ));
    let fold = folded(&[line]);
    let agent = fold.agent().unwrap();
    assert_eq!((agent.tools.total, agent.mcp_servers.total), (10_000, 10_000));
    let saved = serde_json::to_vec(agent).unwrap();
    assert!(saved.len() < 256 << 10, "{} bytes", saved.len());
    assert!(agent.summary().len() < 6 << 10, "{}", agent.summary());
    let facts = agent.facts(3);
    let of = |label: &str| &facts.iter().find(|fact| fact.label == label).unwrap().text;
    assert!(of("MCP servers").starts_with(
        "10,000: server 0 (failed), server 1 (failed), server 2 (failed) and 9,997 more"
    ));
    assert!(of("tools").ends_with(" and 9,997 more"));
}

#[test]
fn odd_fields_of_an_init_do_not_hide_the_others() {
    let line = init(
        r#","skills":"all","plugins":{"a":1},"output_style":7,"apiKeySource":[],"tools":["Bash",7,{"name":"Named"},null]"#,
    );
    let fold = folded(&[line]);
    let agent = fold.agent().unwrap();
    assert_eq!(agent.tools.items, ["Bash", "Named"]);
    assert_eq!(agent.tools.total, 4);
    assert!(agent.output_style.is_none() && agent.skills.is_empty());
}
