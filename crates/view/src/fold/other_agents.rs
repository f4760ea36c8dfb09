//! Other agents' lines: each step is folded as the line in which Claude Code would say the same.
//!
//! Tools that many agents have become Claude Code's tool for the same purpose, so that commands,
//! files and diffs look the same for every agent. All other tools keep their names.

use serde_json::{Value, json};
use wire::json::Raw;
use wire::other_agents::{
    AgentCall, AgentCallEnd, AgentStep, AgentText, AgentTurnEnd, AgentUsage, CallAction,
    ChangedFile, FileContent, OtherAgentEvent, SessionFacts, TextExtent,
};
use wire::{Dialect, Reading};

use super::{Fold, Visibility};
use crate::agent_info::AgentInfo;
use crate::item::{ItemBody, ItemId};

impl Fold {
    /// Folds a line of another agent.
    pub(super) fn other_agent(&mut self, event: &OtherAgentEvent<'_>) -> Visibility {
        self.entry.at = self.entry.at.or(event.at_ms);
        let mut visibility = Visibility::Hidden;
        for step in &event.steps {
            if self.agent_step(step) == Visibility::Visible {
                visibility = Visibility::Visible;
            }
        }
        visibility
    }

    /// Names the agent whose format a line has. Claude Code is meant where there is no name, and an
    /// agent over the Agent Client Protocol says its own.
    pub(super) fn name_agent(&mut self, dialect: Dialect) {
        let program = dialect.program();
        let known = self.agent.value.as_ref().and_then(|agent| agent.name.as_deref());
        if matches!(program, "claude" | "acp") || known == Some(program) {
            return;
        }
        let agent = self.agent.value.clone().unwrap_or_default();
        self.describe_agent(AgentInfo { name: Some(program.to_owned()), ..agent });
    }

    fn agent_step(&mut self, step: &AgentStep<'_>) -> Visibility {
        match step {
            AgentStep::Session(facts) => self.session_facts(facts),
            AgentStep::TurnStarted => {
                self.working_turn();
                Visibility::Hidden
            }
            AgentStep::Prompt(text) => self
                .fold_line(&json!({"type": "user", "message": {"role": "user", "content": text}})),
            AgentStep::Text(text) => self.agent_text(text, "text"),
            AgentStep::Thinking(text) => self.agent_text(text, "thinking"),
            AgentStep::Call(call) => self.agent_call(call),
            AgentStep::CallEnded(end) => self.agent_call_end(end),
            AgentStep::Usage(usage) => self.agent_usage(usage),
            AgentStep::Compacted => {
                self.fold_line(&json!({"type": "system", "subtype": "compact_boundary"}))
            }
            AgentStep::Notice(text) => self.fold_line(&json!({
                "type": "system", "subtype": "informational", "content": text, "level": "warning",
            })),
            AgentStep::Failure(text) => {
                // It belongs to the work that failed, not to the turn before.
                self.working_turn();
                self.fold_line(&json!({"type": "error", "message": text}))
            }
            AgentStep::TurnEnded(end) => self.agent_turn_end(end),
        }
    }

    /// Folds a line that is written here.
    fn fold_line(&mut self, line: &Value) -> Visibility {
        let line = line.to_string();
        let mut visibility = Visibility::Hidden;
        for line in wire::read(line.as_bytes()) {
            if let Reading::Event(event) = &line.reading {
                visibility = self.event(event, line.bytes);
            }
        }
        visibility
    }

    fn session_facts(&mut self, facts: &SessionFacts<'_>) -> Visibility {
        let mut agent = self.agent.value.clone().unwrap_or_default();
        for (known, said) in [
            (&mut agent.model, &facts.model),
            (&mut agent.cwd, &facts.cwd),
            (&mut agent.version, &facts.version),
        ] {
            if let Some(said) = said {
                *known = Some(said.clone().into_owned());
            }
        }
        self.describe_agent(agent);
        let rev = self.rev();
        self.head.change(rev, |head| {
            for (known, said) in [
                (&mut head.model, &facts.model),
                (&mut head.cwd, &facts.cwd),
                (&mut head.version, &facts.version),
            ] {
                if let Some(said) = said {
                    *known = Some(said.clone().into_owned());
                }
            }
        });
        Visibility::Visible
    }

    fn agent_text(&mut self, text: &AgentText<'_>, kind: &str) -> Visibility {
        match text.extent {
            // The whole text follows.
            TextExtent::Delta => Visibility::Hidden,
            TextExtent::OnlyDelta => {
                let index = u64::from(kind == "text");
                self.fold_line(&json!({"type": "stream_event", "event": {
                    "type": "content_block_delta",
                    "index": index,
                    "delta": {"type": format!("{kind}_delta"), kind: text.text},
                }}))
            }
            TextExtent::Whole if text.text.is_empty() => Visibility::Hidden,
            TextExtent::Whole => self.assistant_block(&json!({"type": kind, kind: text.text})),
        }
    }

    fn assistant_block(&mut self, block: &Value) -> Visibility {
        self.fold_line(&json!({
            "type": "assistant", "message": {"role": "assistant", "content": [block]},
        }))
    }

    fn agent_call(&mut self, call: &AgentCall<'_>) -> Visibility {
        let CallAction::Change(files) = &call.action else {
            let (tool, input) = claude_call(call);
            return self.tool_use(&call.id, tool, &input);
        };
        for (number, file) in files.iter().enumerate() {
            let (tool, input) = claude_change(file);
            self.tool_use(&file_call_id(&call.id, number), tool, &input);
        }
        if files.is_empty() {
            self.tool_use(&call.id, &call.tool, &other_input(call))
        } else {
            Visibility::Visible
        }
    }

    fn tool_use(&mut self, id: &str, tool: &str, input: &Value) -> Visibility {
        let block = json!({"type": "tool_use", "id": id, "name": tool, "input": input});
        self.assistant_block(&block)
    }

    /// Ends a call, and with it the calls for the other files of the same patch.
    fn agent_call_end(&mut self, end: &AgentCallEnd<'_>) -> Visibility {
        for number in 0.. {
            let id = file_call_id(&end.id, number);
            if number > 0 && !self.items.has(&ItemId::call(&id)) {
                break;
            }
            let diff = end.diff.as_deref().map(str::to_owned).or_else(|| self.diff_of_call(&id));
            let output = if number == 0 { &*end.output } else { "" };
            let mut line = json!({"type": "user", "message": {"role": "user", "content": [{
                "type": "tool_result",
                "tool_use_id": id,
                "content": output,
                "is_error": end.failed,
            }]}});
            let hunks = diff.map(|diff| hunks_of(&diff)).unwrap_or_default();
            if !hunks.is_empty() && !end.failed {
                line["tool_use_result"] = json!({"structuredPatch": hunks});
            }
            self.fold_line(&line);
        }
        Visibility::Visible
    }

    /// The diff that came with the call.
    fn diff_of_call(&self, id: &str) -> Option<String> {
        let ItemBody::Call(call) = &self.items.get(&ItemId::call(id))?.body else { return None };
        let diff = Raw::parse(&call.input)?.get("diff")?.text()?;
        Some(diff.decode().into_owned())
    }

    fn agent_usage(&mut self, usage: &AgentUsage<'_>) -> Visibility {
        if let Some(model) = &usage.model
            && self.head.value.model.is_none()
        {
            let rev = self.rev();
            self.head.change(rev, |head| head.model = Some(model.clone().into_owned()));
        }
        let AgentUsage { usage, .. } = usage;
        self.fold_line(&json!({"type": "assistant", "message": {
            "role": "assistant",
            "content": [],
            "usage": {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cache_read_input_tokens,
                "cache_creation_input_tokens": usage.cache_creation_input_tokens,
            },
        }}))
    }

    fn agent_turn_end(&mut self, end: &AgentTurnEnd<'_>) -> Visibility {
        let failed = end.failed();
        let mut line = json!({
            "type": "result",
            "subtype": if failed { "error_during_execution" } else { "success" },
            "is_error": failed,
            "duration_ms": end.duration_ms,
            "total_cost_usd": end.total_cost,
        });
        if let Some(error) = &end.error {
            line["errors"] = json!([error]);
        }
        if let Some(usage) = end.usage {
            line["usage"] = json!({
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cache_read_input_tokens,
                "cache_creation_input_tokens": usage.cache_creation_input_tokens,
            });
        }
        self.fold_line(&line)
    }
}

/// The id of the call for one of several files that a patch changes.
fn file_call_id(call: &str, number: usize) -> String {
    if number == 0 { call.to_owned() } else { format!("{call}#{}", number + 1) }
}

/// Claude Code's tool for what a call does, and its input.
fn claude_call<'a>(call: &'a AgentCall<'_>) -> (&'a str, Value) {
    match &call.action {
        CallAction::Run { command } => {
            let description = Raw::parse(&call.input).and_then(|it| it.get("description")?.text());
            let description = description.map(|it| it.decode().into_owned());
            ("Bash", json!({"command": command, "description": description}))
        }
        CallAction::Read { path } => ("Read", json!({"file_path": path})),
        CallAction::Search { pattern, path } => ("Grep", json!({"pattern": pattern, "path": path})),
        CallAction::Fetch { url } => ("WebFetch", json!({"url": url})),
        CallAction::SearchWeb { query } => ("WebSearch", json!({"query": query})),
        CallAction::Track(todos) => {
            let todos: Vec<_> = todos
                .iter()
                .map(|todo| json!({"content": todo.text, "status": todo.state}))
                .collect();
            ("TodoWrite", json!({"todos": todos}))
        }
        CallAction::Change(_) | CallAction::Other => (&call.tool, other_input(call)),
    }
}

fn claude_change<'a>(file: &ChangedFile<'_>) -> (&'a str, Value) {
    let path = &file.path;
    match &file.change {
        FileContent::Written(content) => match content {
            Some(content) => ("Write", json!({"file_path": path, "content": content})),
            None => ("Write", json!({"file_path": path})),
        },
        FileContent::Replaced(texts) => {
            let edits: Vec<_> = texts
                .iter()
                .map(|(before, after)| json!({"old_string": before, "new_string": after}))
                .collect();
            if edits.is_empty() {
                ("Edit", json!({"file_path": path}))
            } else {
                ("MultiEdit", json!({"file_path": path, "edits": edits}))
            }
        }
        FileContent::Patched(Some(diff)) => ("Edit", json!({"file_path": path, "diff": diff})),
        FileContent::Patched(None) => ("Edit", json!({"file_path": path})),
        FileContent::Deleted => ("Delete", json!({"file_path": path})),
    }
}

/// The input of a tool of the agent's own.
fn other_input(call: &AgentCall<'_>) -> Value {
    match serde_json::from_str::<Value>(&call.input) {
        Ok(input @ Value::Object(_)) => input,
        Ok(other) => json!({"input": other}),
        Err(_) => json!({"input": call.input}),
    }
}

/// The hunks of a unified diff, in Claude Code's form.
fn hunks_of(diff: &str) -> Vec<Value> {
    let mut hunks: Vec<Value> = Vec::new();
    for line in diff.lines() {
        if let Some((old, new)) = hunk_header(line) {
            hunks.push(json!({
                "oldStart": old.0, "oldLines": old.1, "newStart": new.0, "newLines": new.1,
                "lines": [],
            }));
        } else if line.starts_with("diff --git ") || line.starts_with("Index: ") {
            // The hunks of another file do not belong to this call.
            if !hunks.is_empty() {
                break;
            }
        } else if let Some(Value::Array(lines)) =
            hunks.last_mut().and_then(|hunk| hunk.get_mut("lines"))
            && matches!(line.as_bytes().first(), Some(b' ' | b'+' | b'-'))
        {
            lines.push(line.into());
        }
    }
    hunks
}

/// The ranges of `@@ -1,3 +1,4 @@`: first line and number of lines, before and after.
fn hunk_header(line: &str) -> Option<((u64, u64), (u64, u64))> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(u64, u64)> {
        match text.split_once(',') {
            Some((start, lines)) => Some((start.parse().ok()?, lines.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    Some((range(old)?, range(new)?))
}

#[cfg(test)]
mod tests {
    use super::hunks_of;

    #[test]
    fn a_unified_diff_becomes_hunks_of_its_first_file() {
        let diff = "\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@ fn\n one\n-two\n+TWO\n+2\n\
                    @@ -9 +10 @@\n-a\n+b\n\\ No newline at end of file\ndiff --git a/y b/y\n@@ -1 +1 @@\n-c\n+d\n";
        let hunks = hunks_of(diff);
        assert_eq!(hunks.len(), 2);
        assert_eq!(hunks[0]["lines"].as_array().unwrap().len(), 4);
        assert_eq!((&hunks[1]["oldStart"], &hunks[1]["newLines"]), (&9.into(), &1.into()));
        assert!(hunks_of("no diff").is_empty());
        assert!(hunks_of("@@ -x +y @@\n+a").is_empty());
    }
}
