//! `TeamCreate`, `TeamDelete` and messages to the members of a team, which 2.1.37 has.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::play::event::ToolOutcome;
use crate::play::private_files;
use crate::play::tools::ToolRunner;

impl ToolRunner {
    fn team_directory(&self, team: &str) -> PathBuf {
        // The name becomes a path, so it must not lead elsewhere.
        let name: String = team
            .chars()
            .map(|it| if it.is_alphanumeric() || it == '-' { it } else { '-' })
            .collect();
        self.environment.home.join(".claude/teams").join(name)
    }

    pub(crate) fn create_team(&self, input: &Value) -> ToolOutcome {
        let team = input["team_name"].as_str().unwrap_or_default();
        if team.is_empty() {
            return ToolOutcome::invalid_call("InputValidationError: team_name must not be empty");
        }
        let lead = format!("team-lead@{team}");
        let directory = self.team_directory(team);
        let path = directory.join("config.json");
        let config = json!({
            "name": team, "description": input["description"], "leadAgentId": lead,
            "members": [{ "agentId": lead, "name": "team-lead", "agentType": "team-lead" }],
        });
        let text = serde_json::to_string_pretty(&config).unwrap_or_default();
        let written = private_files::create_directory(&directory)
            .and_then(|()| private_files::write(&path, &text));
        if let Err(error) = written {
            return ToolOutcome::failure(&error.to_string());
        }
        self.state().team = Some(team.to_owned());
        let path = path.display().to_string();
        text_outcome(&json!({ "team_name": team, "team_file_path": path, "lead_agent_id": lead }))
    }

    pub(crate) fn delete_team(&self) -> ToolOutcome {
        let Some(team) = self.state().team.take() else {
            return text_outcome(&json!({
                "success": true, "message": "No team name found, nothing to clean up",
            }));
        };
        if let Err(error) = std::fs::remove_dir_all(self.team_directory(&team)) {
            return ToolOutcome::failure(&error.to_string());
        }
        let message = format!("Cleaned up directories and worktrees for team \"{team}\"");
        text_outcome(&json!({ "success": true, "message": message, "team_name": team }))
    }

    /// Accepts a message, also to someone who does not exist.
    pub(crate) fn send_to_inbox(input: &Value) -> ToolOutcome {
        let to = input["recipient"].as_str().or(input["to"].as_str()).unwrap_or_default();
        text_outcome(
            &json!({ "success": true, "message": format!("Message sent to {to}'s inbox") }),
        )
    }
}

/// An outcome whose text is its report as JSON.
fn text_outcome(report: &Value) -> ToolOutcome {
    let content = json!([{ "type": "text", "text": report.to_string() }]);
    ToolOutcome::plain(content, report.clone())
}
