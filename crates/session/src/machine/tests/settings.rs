//! Settings, and going back.

use wire::note::{Delivery, Note, Rewind, Setting};

use super::{Stage, ann, ended, id};
use crate::machine::{Command, Done, Refusal};

#[test]
fn a_setting_is_kept_for_the_next_process_and_refused_where_the_agent_refuses() {
    let mut stage = Stage::at_work();
    let setting = || Setting::Model(Some("opus".to_owned()));
    assert_eq!(stage.command(Command::Set { setting: setting(), by: ann() }), None);
    stage.answer("set_model", Err("no such model".to_owned()));
    assert_eq!(stage.machine.options().model, None);
    stage.command(Command::Set { setting: setting(), by: ann() });
    stage.answer("set_model", Ok(None));
    assert_eq!(stage.machine.options().model.as_deref(), Some("opus"));
    // Up to 2.1.37 an unknown request is not answered at all.
    stage.command(Command::Set { setting: Setting::Effort("low".to_owned()), by: ann() });
    stage.wait(30_000);
    assert!(stage.replies.iter().any(|(_, reply)| *reply == Err(Refusal::NoAnswer)));
}

#[test]
fn going_back_is_noted_only_as_far_as_the_agent_went() {
    let mut stage = Stage::at_work();
    stage.hear(ended(&[1]));
    let yes = || Ok(Some(r#"{"canRewind":true,"rewound":true}"#.to_owned()));
    let no = || Ok(Some(r#"{"canRewind":false,"rewound":false,"error":"no copies"}"#.to_owned()));
    let refused = |stage: &Stage| {
        let (_, reply) = stage.replies.last().expect("a reply");
        *reply == Err(Refusal::ByAgent("no copies".to_owned()))
    };
    let go_back = |what| Command::Rewind { prompt: id(1), what, by: ann() };
    stage.command(go_back(Rewind::Files));
    stage.answer("rewind_files", no());
    assert!(refused(&stage));
    stage.command(go_back(Rewind::Both));
    stage.answer("rewind_files", yes());
    stage.answer("rewind_conversation", no());
    assert!(refused(&stage));
    stage.command(go_back(Rewind::Conversation));
    stage.answer("rewind_conversation", yes());
    let noted = stage.notes.iter().filter_map(|note| match note {
        Note::Rewound { what, .. } => Some(*what),
        _ => None,
    });
    let noted: Vec<_> = noted.collect();
    assert_eq!(noted, [Rewind::Files, Rewind::Conversation]);
}

#[test]
fn what_is_done_with_changes_is_kept_at_any_time_and_not_told_to_the_agent() {
    let mut starting = Stage::new();
    starting.prompt(1, Delivery::Queue).unwrap();
    for mut stage in [Stage::new(), starting, Stage::at_work()] {
        let said = stage.said.len();
        let setting = Setting::Watch(Some(Box::default()));
        let set = Command::Set { setting: setting.clone(), by: ann() };
        assert_eq!(stage.command(set), Some(Ok(Done::Well)));
        assert_eq!(stage.notes.last(), Some(&Note::SettingChanged { setting, by: ann() }));
        assert!(stage.machine.options().watch.is_some());
        stage.command(Command::Set { setting: Setting::Watch(None), by: ann() });
        assert!(stage.machine.options().watch.is_none());
        assert_eq!(stage.said.len(), said);
    }
}
