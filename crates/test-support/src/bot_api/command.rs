//! The bot's menu of commands, for each scope and language.

use serde_json::{Value, json};

use super::params::Params;
use super::refusal::Refusal;

/// All menus.
#[derive(Debug, Default)]
pub(super) struct Commands(Vec<(Key, Value)>);

type Key = (Value, String);

impl Commands {
    pub(super) fn set(&mut self, params: &Params) -> Result<(), Refusal> {
        let commands = params.json("commands")?.unwrap_or_default();
        let Some(list) = commands.as_array() else {
            return Err(Refusal::bad("can't parse commands: expected an Array of BotCommand"));
        };
        if list.len() > 100 {
            return Err(Refusal::bad("BOT_COMMANDS_TOO_MUCH"));
        }
        for command in list {
            let letter = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_';
            let name = command["command"].as_str().unwrap_or_default();
            let name = name.strip_prefix('/').unwrap_or(name);
            if !(1..=32).contains(&name.len()) || !name.bytes().all(letter) {
                return Err(Refusal::bad("BOT_COMMAND_INVALID"));
            }
            let description = command["description"].as_str().unwrap_or_default();
            if !(1..=256).contains(&description.chars().count()) {
                return Err(Refusal::bad("BOT_COMMAND_DESCRIPTION_INVALID"));
            }
        }
        let key = key(params)?;
        self.0.retain(|(it, _)| *it != key);
        if !list.is_empty() {
            self.0.push((key, commands));
        }
        Ok(())
    }

    pub(super) fn get(&self, params: &Params) -> Result<Value, Refusal> {
        let key = key(params)?;
        let found = self.0.iter().find(|(it, _)| *it == key);
        Ok(found.map_or_else(|| json!([]), |(_, commands)| commands.clone()))
    }

    pub(super) fn delete(&mut self, params: &Params) -> Result<(), Refusal> {
        let key = key(params)?;
        self.0.retain(|(it, _)| *it != key);
        Ok(())
    }
}

fn key(params: &Params) -> Result<Key, Refusal> {
    let scope = params.json("scope")?.unwrap_or_else(|| json!({"type": "default"}));
    Ok((scope, params.text("language_code").into_owned()))
}
