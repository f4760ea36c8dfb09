//! What the files of a project and of the user add to Claude Code: hooks, sub-agents, skills, MCP
//! servers. They are only read, and what they may contain of secrets is left out: environments,
//! headers and arguments of servers.
//!
//! The agent can write the files of its project, so a link in them must not lead elsewhere.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Longer files are not read; of a text, this much.
const MAX_JSON_BYTES: u64 = 1 << 20;
const MAX_TEXT_BYTES: u64 = 8 << 10;

/// How many files of a directory are looked at, and how many of a kind are given.
const MAX_FILES: usize = 500;
const MAX_GIVEN: usize = 200;

/// How much of a text is given, in characters.
const MAX_TEXT: usize = 500;

/// A command that the CLI runs at some event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HookFile {
    pub(crate) event: String,
    pub(crate) matcher: Option<String>,
    pub(crate) command: String,
    pub(crate) file: String,
}

/// A sub-agent, a skill, or an MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) file: String,
}

/// What the files of a project and of the user add to the CLI.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentFiles {
    pub(crate) hooks: Vec<HookFile>,
    pub(crate) agents: Vec<NamedFile>,
    pub(crate) skills: Vec<NamedFile>,
    pub(crate) servers: Vec<NamedFile>,
    /// Files that could not be read, with the reason.
    pub(crate) problems: Vec<String>,
}

impl AgentFiles {
    /// Reads the files below a project, and those of the user. Blocks.
    pub(crate) fn read(project: &Path, user: Option<&Path>) -> Self {
        let mut found = Self::default();
        if let Ok(root) = fs::canonicalize(project) {
            let folder =
                FileFolder { root: root.clone(), path: root.join(".claude"), label: ".claude" };
            found.read_folder(&folder);
            let top = FileFolder { root: root.clone(), path: root, label: "" };
            found.read_servers(&top, ".mcp.json");
        }
        if let Some(root) = user.and_then(|it| fs::canonicalize(it).ok()) {
            let folder = FileFolder { root: root.clone(), path: root, label: "~/.claude" };
            found.read_folder(&folder);
        }
        found.hooks.truncate(MAX_GIVEN);
        for list in [&mut found.agents, &mut found.skills, &mut found.servers] {
            list.truncate(MAX_GIVEN);
        }
        found.problems.truncate(MAX_GIVEN);
        found
    }

    fn read_folder(&mut self, folder: &FileFolder) {
        for name in ["settings.json", "settings.local.json"] {
            if let Some(settings) = self.json(folder, name) {
                add_hooks(&settings, &folder.named(name), &mut self.hooks);
            }
        }
        for name in folder.entries("agents", is_markdown) {
            let found = self.text(folder, &format!("agents/{name}"));
            self.agents.extend(found.map(|text| {
                describe(&text, name.trim_end_matches(".md"), folder, &format!("agents/{name}"))
            }));
        }
        for name in folder.entries("skills", |_| true) {
            let file = format!("skills/{name}/SKILL.md");
            let found = self.text(folder, &file);
            self.skills.extend(found.map(|text| describe(&text, &name, folder, &file)));
        }
    }

    fn read_servers(&mut self, folder: &FileFolder, name: &str) {
        let Some(file) = self.json(folder, name) else { return };
        let Some(servers) = file.get("mcpServers").and_then(Value::as_object) else { return };
        for (server, settings) in servers.iter().take(MAX_GIVEN) {
            let kind = settings
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or(if settings.get("url").is_some() { "http" } else { "stdio" });
            self.servers.push(NamedFile {
                name: shortened(server),
                description: Some(shortened(kind)),
                file: folder.named(name),
            });
        }
    }

    fn json(&mut self, folder: &FileFolder, name: &str) -> Option<Value> {
        match folder.read(name, MAX_JSON_BYTES + 1) {
            Ok(text) if text.len() as u64 > MAX_JSON_BYTES => {
                self.problems.push(format!("{} is too long", folder.named(name)));
                None
            }
            Ok(text) => match serde_json::from_str(&text) {
                Ok(value) => Some(value),
                Err(error) => {
                    self.problems.push(format!("{} is not JSON: {error}", folder.named(name)));
                    None
                }
            },
            Err(problem) => {
                self.problems.extend(problem.map(|it| format!("{}: {it}", folder.named(name))));
                None
            }
        }
    }

    fn text(&mut self, folder: &FileFolder, name: &str) -> Option<String> {
        match folder.read(name, MAX_TEXT_BYTES) {
            Ok(text) => Some(text),
            Err(problem) => {
                self.problems.extend(problem.map(|it| format!("{}: {it}", folder.named(name))));
                None
            }
        }
    }
}

/// A directory with files of the CLI.
struct FileFolder {
    /// Nothing outside of it is read.
    root: PathBuf,
    path: PathBuf,
    /// What it is called.
    label: &'static str,
}

impl FileFolder {
    fn named(&self, name: &str) -> String {
        if self.label.is_empty() { name.to_owned() } else { format!("{}/{name}", self.label) }
    }

    /// The beginning of a file. A file that is not there is no problem.
    fn read(&self, name: &str, limit: u64) -> Result<String, Option<String>> {
        let path = match fs::canonicalize(self.path.join(name)) {
            Ok(path) => path,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(None),
            Err(error) => return Err(Some(error.to_string())),
        };
        if !path.starts_with(&self.root) {
            return Err(Some("it is a link that leads out of the directory".to_owned()));
        }
        let read = || {
            // Opening something else than a file could wait for ever.
            if !fs::metadata(&path)?.is_file() {
                return Err(std::io::Error::other("it is not a file"));
            }
            let mut bytes = Vec::new();
            File::open(&path)?.take(limit).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|error: std::io::Error| Some(error.to_string()))
    }

    /// The names in a directory of it, in order.
    fn entries(&self, name: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let Ok(path) = fs::canonicalize(self.path.join(name)) else { return Vec::new() };
        if !path.starts_with(&self.root) {
            return Vec::new();
        }
        let entries = fs::read_dir(path).into_iter().flatten().flatten().take(MAX_FILES);
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| wanted(name))
            .collect();
        names.sort();
        names
    }
}

fn add_hooks(settings: &Value, file: &str, hooks: &mut Vec<HookFile>) {
    let Some(events) = settings.get("hooks").and_then(Value::as_object) else { return };
    for (event, groups) in events {
        for group in groups.as_array().into_iter().flatten() {
            let matcher = group.get("matcher").and_then(Value::as_str).filter(|it| !it.is_empty());
            let commands = group.get("hooks").and_then(Value::as_array);
            for hook in commands.into_iter().flatten().take(MAX_GIVEN) {
                let text =
                    ["command", "prompt", "url"].iter().find_map(|key| hook.get(key)?.as_str());
                hooks.push(HookFile {
                    event: shortened(event),
                    matcher: matcher.map(shortened),
                    command: shortened(text.unwrap_or_default()),
                    file: file.to_owned(),
                });
            }
        }
    }
}

/// What a Markdown file says about itself in the lines between `---`.
fn describe(text: &str, fallback: &str, folder: &FileFolder, file: &str) -> NamedFile {
    let mut found =
        NamedFile { name: shortened(fallback), description: None, file: folder.named(file) };
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some("---") {
        return found;
    }
    for line in lines.take_while(|line| line.trim() != "---") {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim().trim_matches(['"', '\'']);
        match key {
            "name" if !value.is_empty() => found.name = shortened(value),
            "description" if !value.is_empty() => found.description = Some(shortened(value)),
            _ => {}
        }
    }
    found
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

/// The agent reads files whose names end with exactly this.
fn is_markdown(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "md")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::AgentFiles;

    #[test]
    fn hooks_agents_skills_and_servers_of_a_project_and_of_the_user_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (project, user) = (folder.path().join("project"), folder.path().join("user"));
        for directory in
            [project.join(".claude/agents"), project.join(".claude/skills/pdf"), user.clone()]
        {
            fs::create_dir_all(directory).unwrap();
        }
        let hooks = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "check.sh"}]}]}}"#;
        fs::write(project.join(".claude/settings.json"), hooks).unwrap();
        fs::write(user.join("settings.json"), hooks.replace("check.sh", "user.sh")).unwrap();
        fs::write(project.join(".claude/settings.local.json"), "{").unwrap();
        fs::write(
            project.join(".claude/agents/reviewer.md"),
            "---\nname: reviewer\ndescription: \"Reviews changes\"\n---\nYou review.",
        )
        .unwrap();
        fs::write(project.join(".claude/skills/pdf/SKILL.md"), "no front matter").unwrap();
        fs::write(
            project.join(".mcp.json"),
            r#"{"mcpServers": {"issues": {"command": "node", "args": ["--token", "secret"], "env": {"KEY": "secret"}}, "web": {"url": "https://a?key=secret"}}}"#,
        )
        .unwrap();
        let found = AgentFiles::read(&project, Some(&user));
        let commands: Vec<_> =
            found.hooks.iter().map(|it| (it.command.as_str(), it.file.as_str())).collect();
        assert_eq!(
            commands,
            [("check.sh", ".claude/settings.json"), ("user.sh", "~/.claude/settings.json")]
        );
        assert_eq!(found.hooks[0].matcher.as_deref(), Some("Bash"));
        assert_eq!(found.agents[0].description.as_deref(), Some("Reviews changes"));
        assert_eq!(found.skills[0].name, "pdf");
        let servers: Vec<_> =
            found.servers.iter().map(|it| (it.name.as_str(), it.description.as_deref())).collect();
        assert_eq!(servers, [("issues", Some("stdio")), ("web", Some("http"))]);
        assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
        assert!(!format!("{found:?}").contains("secret"));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_out_of_the_project_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        fs::create_dir_all(project.join(".claude/agents")).unwrap();
        fs::write(
            folder.path().join("secret.json"),
            r#"{"hooks": {"Stop": [{"hooks": [{"command": "secret"}]}]}}"#,
        )
        .unwrap();
        std::os::unix::fs::symlink("../../secret.json", project.join(".claude/settings.json"))
            .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", project.join(".claude/agents/a.md")).unwrap();
        std::os::unix::fs::symlink("/", project.join(".claude/skills")).unwrap();
        let found = AgentFiles::read(&project, None);
        assert_eq!((found.hooks.len(), found.agents.len(), found.skills.len()), (0, 0, 0));
        assert_eq!(found.problems.len(), 2, "{:?}", found.problems);
    }

    #[test]
    fn files_of_any_content_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let claude = folder.path().join(".claude");
        fs::create_dir_all(claude.join("agents")).unwrap();
        for text in [
            "",
            "null",
            "[]",
            r#"{"hooks": 1}"#,
            r#"{"hooks": {"Stop": {"a": 1}}}"#,
            r#"{"hooks": {"Stop": [1, {"hooks": 2}, {"hooks": [3]}]}}"#,
        ] {
            fs::write(claude.join("settings.json"), text).unwrap();
            AgentFiles::read(folder.path(), None);
        }
        fs::write(claude.join("settings.json"), "x".repeat(3 << 20)).unwrap();
        fs::write(claude.join("agents/a.md"), [0xff, 0xfe, 0]).unwrap();
        let found = AgentFiles::read(folder.path(), None);
        assert_eq!((found.problems.len(), found.agents.len()), (1, 1), "{found:?}");
    }
}
