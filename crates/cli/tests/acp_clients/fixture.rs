//! Towpath as an agent, with everything around it: a scripted model, an agent behind it, a project.

use std::ffi::OsString;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use testbed::api::ApiRequestKind;
use tokio::time::timeout;

use crate::environment::{TIMEOUT, TestEnvironment};
use crate::records::Records;

pub(crate) struct Fixture {
    environment: TestEnvironment,
    pub(crate) records: Records,
}

impl Deref for Fixture {
    type Target = TestEnvironment;

    fn deref(&self) -> &TestEnvironment {
        &self.environment
    }
}

impl Fixture {
    /// A fixture whose model gives these replies, in the grammar of scenarios. Its agent is the
    /// player.
    pub(crate) async fn new(replies: &str) -> Self {
        let environment = TestEnvironment::new(replies).await;
        let records = Records::new(environment.path("records"));
        let fixture = Self { environment, records };
        let agent = [env!("CARGO_BIN_EXE_towpath").to_owned(), "acp".to_owned()];
        fixture.records.wrap(&fixture.wrapper(), &agent);
        fixture
    }

    /// Uses the real CLI as the agent.
    pub(crate) fn set_real_cli(&self, command: &[OsString]) {
        let quote = |word: &OsString| format!("'{}'", word.to_string_lossy());
        let command = command.iter().map(quote).collect::<Vec<_>>().join(" ");
        self.set_agent(&format!(
            "#!/bin/sh\nexport IS_SANDBOX=1 LANG=C.UTF-8 CLAUDE_CODE_MAX_RETRIES=1 \
             CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1\n\
             exec {command} \"$@\"\n"
        ));
    }

    /// The program that clients start: `towpath acp`, recorded.
    pub(crate) fn wrapper(&self) -> PathBuf {
        self.path("towpath-acp")
    }

    /// `towpath` with the environment's agent.
    pub(crate) fn towpath(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(arguments);
        command.env("TOWPATH_CLAUDE", self.path("agent"));
        command
    }

    /// Runs a client in this environment. It finds the command of the agent in `ACP_AGENT`.
    pub(crate) async fn run_client(&self, client: Command) -> ClientOutput {
        let output = timeout(3 * TIMEOUT, self.client(client).output()).await;
        ClientOutput::new(output.expect("the client ends").expect("the client starts"))
    }

    /// A client in this environment.
    pub(crate) fn client(&self, mut client: Command) -> tokio::process::Command {
        let towpath = self.towpath(&[]);
        for (name, value) in towpath.get_envs() {
            // A client has a search path of its own.
            match value {
                Some(value) => client.env(name, value),
                None => client.env_remove(name),
            };
        }
        client.env("ACP_AGENT", self.wrapper()).current_dir(self.path("project"));
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = tokio::process::Command::from(client);
        client.kill_on_drop(true);
        client
    }

    /// The messages of each request to the model, as JSON. Side requests are left out.
    pub(crate) fn model_requests(&self) -> Vec<String> {
        let requests = self.api.requests().into_iter().filter(|it| it.kind == ApiRequestKind::Main);
        requests.map(|it| it.body["messages"].to_string()).collect()
    }

    /// The newest message of each request to the model, as JSON.
    pub(crate) fn newest_messages(&self) -> Vec<String> {
        let requests = self.api.requests().into_iter().filter(|it| it.kind == ApiRequestKind::Main);
        let newest = requests.filter_map(|it| it.body["messages"].as_array()?.last().cloned());
        newest.map(|it| it.to_string()).collect()
    }
}

/// What a client printed.
#[derive(Debug)]
pub(crate) struct ClientOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ClientOutput {
    fn new(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// What the client printed if it succeeded.
    #[track_caller]
    pub(crate) fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self.stdout
    }
}
