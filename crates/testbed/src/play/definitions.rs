//! Commands, skills and sub-agents that people write as Markdown files in `.claude`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A command or a skill: a text that its name stands for in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PromptDefinition {
    pub(crate) name: String,
    pub(crate) description: String,
    text: String,
    /// The directory of a skill.
    folder: Option<PathBuf>,
}

/// What the files of a user and of a project define.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlayerDefinitions {
    pub(crate) skills: Vec<PromptDefinition>,
    pub(crate) commands: Vec<PromptDefinition>,
    /// Names and descriptions of sub-agents.
    pub(crate) agents: Vec<(String, String)>,
}

impl PlayerDefinitions {
    /// Adds what a `.claude` directory defines.
    pub(crate) fn load(&mut self, folder: &Path) {
        for path in list(&folder.join("skills")) {
            if let Some(file) = MarkdownFile::read(&path.join("SKILL.md")) {
                self.skills.push(file.into_prompt(&path, Some(path.clone())));
            }
        }
        for path in list(&folder.join("commands")) {
            if let Some(file) = MarkdownFile::read(&path) {
                let mut command = file.into_prompt(&path, None);
                command.name = stem(&path);
                self.commands.push(command);
            }
        }
        for path in list(&folder.join("agents")) {
            if let Some(file) = MarkdownFile::read(&path) {
                let name = file.field("name").unwrap_or_else(|| stem(&path));
                self.agents.push((name, file.field("description").unwrap_or_default()));
            }
        }
    }

    /// The sub-agents, as a host defines them.
    pub(crate) fn agent_values(&self) -> BTreeMap<String, Value> {
        let agents = self.agents.iter();
        agents.map(|(name, text)| (name.clone(), json!({ "description": text }))).collect()
    }

    /// The names that a prompt can start with.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.skills.iter().chain(&self.commands).map(|it| it.name.as_str())
    }

    /// The command or skill with a name.
    pub(crate) fn find(&self, name: &str) -> Option<&PromptDefinition> {
        self.skills.iter().chain(&self.commands).find(|it| it.name == name)
    }
}

impl PromptDefinition {
    /// What the model reads instead of a prompt such as `/greet Ada`.
    pub(crate) fn content(&self, arguments: &str) -> Value {
        let name = &self.name;
        let mut call = format!(
            "<command-message>{name}</command-message>\n<command-name>/{name}</command-name>\n"
        );
        if !arguments.is_empty() {
            let _ = writeln!(call, "<command-args>{arguments}</command-args>");
        }
        let mut text = self.text.replace("$ARGUMENTS", arguments);
        if let Some(folder) = &self.folder {
            text = format!("Base directory for this skill: {}\n\n{text}", folder.display());
        }
        if !arguments.is_empty() && !self.text.contains("$ARGUMENTS") {
            let _ = write!(text, "\n\nARGUMENTS: {arguments}");
        }
        json!([{ "type": "text", "text": call }, { "type": "text", "text": text }])
    }
}

/// A Markdown file with fields before its text.
struct MarkdownFile {
    fields: Vec<(String, String)>,
    text: String,
}

impl MarkdownFile {
    fn read(path: &Path) -> Option<Self> {
        if path.extension().is_none_or(|extension| extension != "md") {
            return None;
        }
        Some(Self::parse(&std::fs::read_to_string(path).ok()?))
    }

    fn parse(file: &str) -> Self {
        let parts = file.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---\n"));
        let Some((head, text)) = parts else {
            return Self { fields: Vec::new(), text: file.to_owned() };
        };
        let fields = head.lines().filter_map(|line| line.split_once(':'));
        let field = |(name, value): (&str, &str)| {
            (name.trim().to_owned(), value.trim().trim_matches(['"', '\'']).to_owned())
        };
        Self { fields: fields.map(field).collect(), text: text.to_owned() }
    }

    fn field(&self, name: &str) -> Option<String> {
        self.fields.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    }

    fn into_prompt(self, path: &Path, folder: Option<PathBuf>) -> PromptDefinition {
        PromptDefinition {
            name: self.field("name").unwrap_or_else(|| stem(path)),
            description: self.field("description").unwrap_or_default(),
            text: self.text,
            folder,
        }
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The files of a directory, in the order of their names.
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
