//! `auth status`, `auth login` and `auth logout`.

use serde_json::json;

use super::{SubcommandOutput, unavailable, unknown_option};
use crate::play::settings::PlayerEnvironment;

pub(super) fn run(
    command: &str,
    options: &[String],
    environment: &PlayerEnvironment,
) -> SubcommandOutput {
    match command {
        "status" => status(options, environment),
        "logout" => {
            SubcommandOutput::printed("Successfully logged out from your Anthropic account.\n")
        }
        _ => unavailable(&format!("auth {command}")),
    }
}

/// The exit code is 1 if there is no key.
fn status(options: &[String], environment: &PlayerEnvironment) -> SubcommandOutput {
    if let Some(error) = unknown_option(options, &["--json", "--text"]) {
        return error;
    }
    let method = match (&environment.auth_token, &environment.api_key) {
        (Some(_), _) => "oauth_token",
        (None, Some(_)) => "api_key",
        (None, None) => "none",
    };
    let code = u8::from(method == "none");
    if options.iter().any(|it| it == "--text") {
        return SubcommandOutput { stdout: text(method, environment), code, ..Default::default() };
    }
    let folder = environment.home.join(".claude");
    let mut status = json!({
        "loggedIn": method != "none",
        "authMethod": method,
        "apiProvider": "firstParty",
        "analyticsDisabled": environment.analytics_disabled,
        "projectsDirectory": folder.join("projects"),
        "configDirectory": folder,
        "loginExpiresAt": null,
        "consoleProfileSignInOffered": true,
    });
    if method == "api_key" {
        status["apiKeySource"] = "ANTHROPIC_API_KEY".into();
    }
    SubcommandOutput { stdout: format!("{status:#}\n"), code, ..SubcommandOutput::default() }
}

fn text(method: &str, environment: &PlayerEnvironment) -> String {
    let mut lines = Vec::new();
    match method {
        "api_key" => lines.push("API key: ANTHROPIC_API_KEY".to_owned()),
        "oauth_token" => lines.push("Auth token: ANTHROPIC_AUTH_TOKEN".to_owned()),
        _ => {}
    }
    if let Some(url) = &environment.base_url {
        lines.push(format!("Anthropic base URL: {url}"));
    }
    if method == "none" {
        lines.push("Not logged in. Run claude auth login to authenticate.".to_owned());
    }
    lines.join("\n") + "\n"
}
