//! Menus of agents.

use session::AgentCatalog;
use view::telegram::LIMIT;
use view::{AgentInfo, AgentMenu, MenuValue};

use super::super::*;

fn menu(id: &str, count: usize, text: &str) -> AgentMenu {
    let value = |number| MenuValue {
        id: format!("{id}/{number}"),
        name: format!("{text}{number}"),
        description: (number % 2 == 0).then(|| format!("{text} – {number}")),
    };
    AgentMenu {
        id: id.to_owned(),
        name: format!("{text}{id}"),
        description: Some(text.to_owned()),
        current: Some(format!("{id}/1")),
        values: (0..count).map(value).collect(),
    }
}

#[test]
fn menus_of_agents_are_one_message_and_their_buttons_mean_what_they_say() {
    let huge = "<b>&`_* ".repeat(50);
    for (count, text) in [(3, "Value "), (1000, huge.as_str())] {
        let model = menu("model", count, text);
        let info = AgentInfo {
            efforts: Some(menu("effort", count, text)),
            options: (0..count.min(100)).map(|it| menu(&format!("o{it}"), count, text)).collect(),
            ..AgentInfo::default()
        };
        let all: Vec<_> = model.values.iter().collect();
        for reply in [
            agent_menu(&model, MenuUse::Mode, &all),
            agent_menu(&model, MenuUse::Model, &all),
            agent_menu(&model, MenuUse::Option, &all[..2]),
            no_menu_value(&model, MenuUse::Model, &huge),
            menu_value_set(&model, all[0]),
            agent_options(text, &info),
            no_agent_option(&huge, text, &info),
            no_menu(text, MenuUse::Mode),
        ] {
            let messages = reply.text.messages(LIMIT);
            assert_eq!(messages.len(), 1, "{}", reply.plain_text());
            // The text begins like markup, which is `&lt;b&gt;` if it is escaped.
            assert!(!messages[0].html.contains("<b>&amp;"), "{}", messages[0].html);
            let buttons: Vec<_> = reply.buttons.iter().flatten().collect();
            assert!(buttons.len() <= 100, "{}", buttons.len());
            for button in buttons {
                let (_, id) = button.data.split_once(':').unwrap();
                match intent_of(&button.data).expect("a meaning") {
                    UserIntent::Command(
                        ChatCommand::Mode(Some(it))
                        | ChatCommand::Model(Some(it))
                        | ChatCommand::AgentOptions(it),
                    ) => assert_eq!(it, id),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    let long = AgentMenu {
        values: vec![MenuValue { id: "x".repeat(70), ..MenuValue::default() }],
        ..AgentMenu::default()
    };
    assert!(agent_menu(&long, MenuUse::Model, &[&long.values[0]]).buttons.is_empty());
}

#[test]
fn a_session_with_another_agent_is_one_tap_away() {
    let agents: Vec<_> = AgentCatalog::default().iter().cloned().collect();
    let buttons = agent_buttons(&agents, "codex");
    assert!(!buttons.is_empty());
    for button in buttons.iter().flatten() {
        match intent_of(&button.data) {
            Some(UserIntent::Command(ChatCommand::New(new))) => {
                assert!(new.same_directory);
                assert_ne!(new.options[0].1, "codex");
            }
            other => panic!("{other:?}"),
        }
    }
}
