//! Replies about the options of a session, and about profiles.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use session::profiles::Profile;
use session::{
    MASK, OPTIONS, OptionEffect, OptionError, OptionKind, OptionRole, OptionSpec, SessionOptions,
};
use view::telegram::{FormattedText, TextFormat};
use wire::consent::visible;
use wire::outgoing::PermissionMode;

use super::choices::mode_label;
use super::{BUTTON_DATA_LIMIT, BotReply, formatted, shortened};
use crate::bot::BotButton;
use crate::inbound::ArgumentsError;

/// Characters of a value in a list, and where it is shown alone.
const LISTED_VALUE: usize = 80;
const SHOWN_VALUE: usize = 1500;

/// Profiles that are listed.
const PROFILES: usize = 15;

/// The values of a session's options as a chat shows them: without secrets, and without what Towpath
/// itself adds to the system prompt of sessions in Telegram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShownOptions(Map<String, Value>);

impl ShownOptions {
    pub fn new(options: &SessionOptions) -> Self {
        let mut values = options.masked_values();
        if let Some(Value::String(prompt)) = values.get("append_system_prompt") {
            let own = prompt.strip_prefix(TELEGRAM_PROMPT).map(str::trim_start);
            let own = own.map(|it| it.strip_prefix(OUTBOX_PROMPT).unwrap_or(it).trim_start());
            match own {
                Some("") => drop(values.remove("append_system_prompt")),
                Some(text) => {
                    let text = Value::String(text.to_owned());
                    values.insert("append_system_prompt".to_owned(), text);
                }
                None => {}
            }
        }
        Self(values)
    }

    fn value(&self, spec: &OptionSpec) -> Option<&Value> {
        self.0.get(spec.name).filter(|it| !it.is_null())
    }

    /// The options that are set, in the order of the table, with at most so many characters of each.
    pub(super) fn set(&self, characters: usize) -> impl Iterator<Item = (&'static str, String)> {
        OPTIONS.iter().filter_map(move |spec| {
            let value = self.value(spec)?;
            Some((spec.name, value_text(spec, value, characters)))
        })
    }
}

/// Added to the system prompt of a session that was started in Telegram.
pub const TELEGRAM_PROMPT: &str = "The user reads and writes in Telegram, often on a phone: keep \
    answers short.";

/// Added too if files of the agent can be sent.
pub const OUTBOX_PROMPT: &str = "To send the user a file, such as a picture, a document or an archive, put it or a \
    copy of it into the directory `.towpath/outbox` below your working directory before your turn \
    ends. It is sent when the turn ends. Pictures may have up to 10 MB, other files up to 50 MB.";

/// All options with their values, each with a button that shows more about it.
pub fn options(shown: &ShownOptions) -> BotReply {
    let mut reply = BotReply::default();
    reply.text.push_formatted(TextFormat::Bold, "Options of this session");
    let mut row = Vec::new();
    for spec in OPTIONS {
        reply.text.push("\n• ");
        reply.text.push_formatted(TextFormat::Code, spec.name);
        match shown.value(spec) {
            Some(value) => {
                reply.text.push(" = ");
                let value = value_text(spec, value, LISTED_VALUE);
                reply.text.push_formatted(TextFormat::Bold, &value);
            }
            None => reply.text.append(&formatted(&format!(" – {}", spec.help))),
        }
        row.push(show_button(spec));
        if row.len() == 2 {
            reply.buttons.push(std::mem::take(&mut row));
        }
    }
    reply.buttons.extend((!row.is_empty()).then_some(row));
    reply.text.append(&formatted(
        "\n\nTo change one, use `/set NAME VALUE`; `/set NAME default` takes it back.",
    ));
    reply
}

/// One option: what it does, its value, and buttons for the choices.
pub fn option(
    spec: &'static OptionSpec,
    shown: &ShownOptions,
    role: OptionRole,
    bypass_allowed: bool,
) -> BotReply {
    let mut reply = BotReply::default();
    reply.text.push_formatted(TextFormat::Bold, spec.name);
    reply.text.push(" – ");
    reply.text.append(&formatted(spec.help));
    reply.text.push(".");
    let value = shown.value(spec);
    reply.text.push("\nNow: ");
    match value {
        Some(value) => {
            let text = value_text(spec, value, SHOWN_VALUE);
            reply.text.push_formatted(TextFormat::Code, &text);
        }
        None => reply.text.push("not set"),
    }
    reply.text.push(&format!("\n{}", effect(spec)));
    if spec.effect == OptionEffect::Creation {
        reply.text.append(&formatted(&format!(" Use `/new {}={}`.", spec.name, example(spec))));
        return reply;
    }
    if spec.role > role {
        reply.text.push("\n");
        reply.text.append(&needs_admin(spec.name).text);
        return reply;
    }
    reply.text.append(&formatted(&format!(
        "\nTo change it, use `/set {} {}`.",
        spec.name,
        example(spec)
    )));
    let current = value.map(|it| spec.format(it));
    let is_set = |choice: &str| current.as_deref() == Some(choice);
    let mut row = Vec::new();
    for choice in choices(spec) {
        // The mode that asks nothing has a question of its own.
        let bypass = *choice == PermissionMode::BypassPermissions.name();
        if bypass && (!bypass_allowed || role < OptionRole::Admin) {
            continue;
        }
        let label = if spec.name == "mode" { mode_label(choice) } else { choice };
        row.extend(set_button(spec, label, choice, is_set(choice)));
        if row.len() == 3 {
            reply.buttons.push(std::mem::take(&mut row));
        }
    }
    reply.buttons.extend((!row.is_empty()).then_some(row));
    if spec.name != "mode" && value.is_some() {
        let button = set_button(spec, "default", "default", false);
        reply.buttons.extend(button.map(|it| vec![it]));
    }
    reply
}

fn choices(spec: &OptionSpec) -> &'static [&'static str] {
    match (spec.kind, spec.name) {
        (OptionKind::Choice(words), _) => words,
        (OptionKind::Switch { .. }, _) => &["on", "off"],
        (OptionKind::Duration, _) => &["5m", "30m", "2h", "never"],
        _ => &[],
    }
}

/// A value that shows how the option is written.
fn example(spec: &OptionSpec) -> &'static str {
    match spec.kind {
        OptionKind::Choice(words) => words.get(1).copied().unwrap_or("VALUE"),
        OptionKind::Agent => "codex",
        OptionKind::Integer { .. } => "20",
        OptionKind::Dollars => "2.50",
        OptionKind::Duration => "45m",
        OptionKind::Switch { default } => {
            if default {
                "off"
            } else {
                "on"
            }
        }
        OptionKind::List => "Read,Bash(git:*)",
        OptionKind::Directories => "/path/of/a/directory",
        OptionKind::Variables => "NAME=VALUE",
        OptionKind::Mcp => "{\"mcpServers\":{…}}",
        OptionKind::Text { .. } => "TEXT",
    }
}

fn effect(spec: &OptionSpec) -> &'static str {
    match spec.effect {
        OptionEffect::Live => "A change takes effect at once.",
        OptionEffect::Restart => "After a change the agent is restarted before its next turn.",
        OptionEffect::Creation => "It can only be set for a new session.",
    }
}

pub fn option_set(spec: &OptionSpec, value: &Value) -> BotReply {
    let mut text = FormattedText::default();
    text.push_formatted(TextFormat::Code, spec.name);
    if value.is_null() {
        text.push(" is the default again.");
    } else {
        text.push(" is now ");
        text.push_formatted(TextFormat::Bold, &value_text(spec, value, LISTED_VALUE));
        text.push(".");
    }
    if spec.effect == OptionEffect::Restart {
        text.push(" The agent is restarted before its next turn.");
    }
    text.into()
}

/// Why an option cannot be set.
pub fn option_refused(error: &OptionError) -> BotReply {
    match error {
        OptionError::Unknown { name, similar } => {
            let mut text = FormattedText::plain("There is no option ");
            text.push_formatted(TextFormat::Code, &shortened(&visible(name), 60));
            text.push(".");
            if !similar.is_empty() {
                text.push(" Did you mean ");
                for (index, name) in similar.iter().enumerate() {
                    text.push(if index == 0 { "" } else { " or " });
                    text.push_formatted(TextFormat::Code, name);
                }
                text.push("?");
            }
            text.push(" See /set for all options.");
            text.into()
        }
        OptionError::OnlyAtCreation { option } => formatted(&format!(
            "`{option}` can only be set for a new session: `/new {option}=VALUE`."
        ))
        .into(),
        error @ OptionError::Invalid { .. } => {
            let text = shortened(&visible(&error.to_string()), 500);
            formatted(&format!("Not set. {text}.")).into()
        }
    }
}

/// A user of the bot wants to set what only an admin may set.
pub fn needs_admin(option: &str) -> BotReply {
    formatted(&format!(
        "`{option}` can make the server run any program, so only an admin of this bot may set it. The person who runs the server can make you one with `--admin YOUR_USER_ID`."
    ))
    .into()
}

/// The server was not started for the mode that asks nothing.
pub fn bypass_not_allowed() -> BotReply {
    formatted(
        "This server does not allow the mode `bypassPermissions`. It must be started with `--allow-bypass`.",
    )
    .into()
}

/// The question before a session is switched to the mode that asks nothing.
pub fn confirm_bypass() -> BotReply {
    let mut reply = BotReply::default();
    reply.text.push("⚠️ In the mode ");
    reply.text.push_formatted(TextFormat::Bold, "Bypass permissions");
    reply.text.push(
        " the agent runs every command and changes every file without asking you. Use it only where \
         nothing can be damaged, such as in a container. The agent is restarted for it.",
    );
    let label = "Yes, stop asking in this session".to_owned();
    reply.buttons.push(vec![BotButton { label, data: CONFIRM_BYPASS.to_owned() }]);
    reply
}

/// The data of the button that confirms the mode that asks nothing.
pub(super) const CONFIRM_BYPASS: &str = "b:bypass";

pub fn arguments_refused(error: &ArgumentsError) -> BotReply {
    match error {
        ArgumentsError::OpenQuote(beginning) => {
            let mut text = FormattedText::plain("A quote is not closed: ");
            text.push_formatted(TextFormat::Code, &shortened(&visible(beginning), 60));
            text.into()
        }
        ArgumentsError::NotAnOption(word) => {
            let mut text = FormattedText::default();
            text.push_formatted(TextFormat::Code, &shortened(&visible(word), 60));
            text.append(&formatted(
                " is not an option. Use `/new DIRECTORY name=value`, and put a value with spaces in quotes.",
            ));
            text.into()
        }
        ArgumentsError::Split => {
            "This command is too long for one message of Telegram, so only its beginning arrived \
             here. Nothing was changed. Set long values in the browser or in a profile."
                .into()
        }
    }
}

/// The profiles, each with a button that starts a session with it.
pub fn profiles(profiles: &[Profile], default: Option<&str>) -> BotReply {
    if profiles.is_empty() {
        return formatted(
            "No profiles. The person who runs the server can add some to its configuration file: see `towpath config`.",
        )
        .into();
    }
    let mut reply = BotReply::default();
    reply.text.push_formatted(TextFormat::Bold, "Profiles");
    for profile in profiles.iter().take(PROFILES) {
        let name = shortened(&visible(&profile.name), 60);
        reply.text.push("\n\n• ");
        reply.text.push_formatted(TextFormat::Bold, &name);
        if default == Some(profile.name.as_str()) {
            reply.text.push(" (default)");
        }
        if let Some(description) = &profile.description {
            reply.text.push(&format!(" – {}", shortened(&visible(description), 120)));
        }
        let mut options = SessionOptions::default();
        if profile.options.apply(&mut options).is_ok() {
            let set: Vec<String> = ShownOptions(options.masked_values())
                .set(40)
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            if !set.is_empty() {
                reply.text.push(&format!("\n{}", shortened(&set.join(", "), 240)));
            }
        }
        let data = format!("n:{}", profile.name);
        if data.len() <= BUTTON_DATA_LIMIT {
            let label = format!("New session: {}", shortened(&name, 30));
            reply.buttons.push(vec![BotButton { label, data }]);
        }
    }
    if profiles.len() > PROFILES {
        reply.text.push(&format!("\n\n… and {} more", profiles.len() - PROFILES));
    }
    reply.text.append(&formatted("\n\nTo use one, tap its button or use `/new profile=NAME`."));
    reply
}

/// A profile, or the file it is in, cannot be used.
pub fn profile_failed(error: &str) -> BotReply {
    let error = shortened(&visible(error), 700);
    BotReply::from(format!("No session was started: {error}."))
}

fn value_text(spec: &OptionSpec, value: &Value, characters: usize) -> String {
    let text = match value {
        // All values of variables are secret, so their names are enough.
        Value::Object(variables) if spec.kind == OptionKind::Variables => {
            let names: Vec<String> =
                variables.keys().take(characters).map(|it| format!("{it}={MASK}")).collect();
            names.join(", ")
        }
        Value::Object(config) if spec.kind == OptionKind::Mcp => {
            let servers = config.get("mcpServers").and_then(Value::as_object);
            // Their order is not that of the file in every build.
            let names: BTreeSet<&str> =
                servers.into_iter().flat_map(Map::keys).map(String::as_str).collect();
            names.into_iter().take(characters).collect::<Vec<_>>().join(", ")
        }
        value => spec.format(value),
    };
    shortened(&visible(&text), characters)
}

fn show_button(spec: &OptionSpec) -> BotButton {
    BotButton { label: spec.name.to_owned(), data: format!("o:{}", spec.name) }
}

fn set_button(spec: &OptionSpec, label: &str, value: &str, current: bool) -> Option<BotButton> {
    let data = format!("o:{}={value}", spec.name);
    let tick = if current { "✓ " } else { "" };
    let label = format!("{tick}{}", shortened(label, 30));
    (data.len() <= BUTTON_DATA_LIMIT).then_some(BotButton { label, data })
}
