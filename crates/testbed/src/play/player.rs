//! The loop around a session: inputs in, effects out.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::time::SystemTime;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::play::acp::AcpPlayerArgs;
use crate::play::args::{PlayerArgs, PlayerStartError};
use crate::play::event::{ModelRequestNumber, PlayerEffect, PlayerInput};
use crate::play::mcp_connections::McpConnections;
use crate::play::model::ModelSource;
use crate::play::session::PlayerSession;
use crate::play::settings::{PlayerEnvironment, PlayerSettings, save_rules};
use crate::play::stamps::IdGenerator;
use crate::play::start_checks::check_start;
use crate::play::stdio::{FaultAction, PlayerFault, PlayerStdout, read_stdin};
use crate::play::subcommand::run_subcommand;
use crate::play::tools::{ToolRunner, run_hook};
use crate::play::transcript::{PlayerSessionStart, TranscriptStore};

/// Capacity of the channel for inputs. Senders wait while it is full.
const INPUT_CAPACITY: usize = 256;

const HELP: &str = "Usage: towpath play [options] [prompt]\n\nStands in for `claude` 2.1.325: takes \
the same options and prints the same lines.\n\nOptions of its own:\n  --as <version>     stand in \
for 1.0.128, 2.0.60 or 2.1.37\n  --scenario <file>  take the model's replies from a scenario\n  --acp              be an agent of the Agent Client Protocol instead:";

/// Plays the CLI until it ends, and returns its exit code.
pub async fn run(args: PlayerArgs, environment: PlayerEnvironment) -> u8 {
    if args.version {
        print_line(&format!("{} (towpath play)", args.release));
        return 0;
    }
    if args.help {
        print_line(&format!("{HELP}\n\n{}", AcpPlayerArgs::help()));
        return 0;
    }
    if !args.subcommand.is_empty() {
        if !args.release.is_newest() {
            print_error_line("error: subcommands are only played as the newest release");
            return 1;
        }
        let output = run_subcommand(&args.subcommand, &environment).await;
        drop(write!(std::io::stdout(), "{}", output.stdout));
        drop(write!(std::io::stderr(), "{}", output.stderr));
        return output.code;
    }
    match Player::start(args, environment).await {
        Ok(player) => player.run().await,
        Err(error) => {
            print_error_line(&error.0);
            1
        }
    }
}

fn print_line(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}

fn print_error_line(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// A session and everything it has effects on.
struct Player {
    session: PlayerSession,
    environment: PlayerEnvironment,
    stdout: PlayerStdout,
    transcripts: TranscriptStore,
    model: ModelSource,
    tools: ToolRunner,
    servers: McpConnections,
    fault: Option<PlayerFault>,
    sender: mpsc::Sender<PlayerInput>,
    inputs: mpsc::Receiver<PlayerInput>,
    /// Inputs that come before anything that waits in the channel.
    ready: VecDeque<PlayerInput>,
    requests: BTreeMap<ModelRequestNumber, JoinHandle<()>>,
    /// The error to report if the session to resume does not exist.
    missing_session: Option<String>,
}

impl Player {
    async fn start(
        mut args: PlayerArgs,
        environment: PlayerEnvironment,
    ) -> Result<Self, PlayerStartError> {
        check_start(&mut args, &environment)?;
        let start = PlayerSessionStart::choose(&args, &environment)?;
        let mut settings = PlayerSettings::load(&args, &environment);
        let (sender, inputs) = mpsc::channel(INPUT_CAPACITY);
        let model = ModelSource::choose(&args, &environment).await?;
        settings.todo_list = model.is_demo();
        let stdout = PlayerStdout::new(args.output, args.verbose);
        read_stdin(&args, sender.clone());
        let ids = IdGenerator::random();
        let (session_environment, id, past) = (environment.clone(), start.id, start.conversation);
        Ok(Self {
            stdout,
            transcripts: TranscriptStore::new(&environment.home, &environment.cwd),
            model,
            tools: ToolRunner::new(&environment, args.release),
            servers: McpConnections::default(),
            fault: environment.fault.as_deref().and_then(PlayerFault::from_name),
            session: PlayerSession::new(args, session_environment, settings, id, past, ids),
            environment,
            sender,
            inputs,
            ready: VecDeque::new(),
            requests: BTreeMap::new(),
            missing_session: start.missing,
        })
    }

    async fn run(mut self) -> u8 {
        let (Ok(mut interrupts), Ok(mut terminations)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return 1;
        };
        let mut effects = match self.missing_session.take() {
            Some(error) => self.session.fail_to_resume(&error),
            None => self.session.start_mcp_servers(),
        };
        loop {
            if let Some(code) = self.apply(effects).await {
                self.tools.processes().kill_all();
                self.servers.close_all();
                self.stdout.close().await;
                return code;
            }
            if let Some(input) = self.ready.pop_front() {
                effects = self.session.on(SystemTime::now(), input);
                continue;
            }
            let input = tokio::select! {
                biased;
                _ = terminations.recv() => PlayerInput::Terminated,
                _ = interrupts.recv() => PlayerInput::Interrupted,
                input = self.inputs.recv() => match input {
                    Some(input) => input,
                    None => return 0,
                },
            };
            effects = self.session.on(SystemTime::now(), input);
        }
    }

    /// Applies effects in order, until one of them ends the process with an exit code.
    async fn apply(&mut self, effects: Vec<PlayerEffect>) -> Option<u8> {
        for effect in effects {
            match effect {
                PlayerEffect::Print(line) => {
                    if let Some(code) = self.print(line).await {
                        return Some(code);
                    }
                }
                PlayerEffect::PrintError(text) => print_error_line(&text),
                PlayerEffect::Record { session, entry } => {
                    drop(self.transcripts.append(&session, &entry));
                }
                PlayerEffect::RequestModel { number, body } => {
                    let task = self.model.request(number, body, self.sender.clone());
                    self.requests.retain(|_, task| !task.is_finished());
                    self.requests.insert(number, task);
                }
                PlayerEffect::CancelRequest(number) => {
                    if let Some(task) = self.requests.remove(&number) {
                        task.abort();
                    }
                }
                PlayerEffect::StopTool(name) | PlayerEffect::KillTask(name) => {
                    self.tools.processes().kill(&name);
                }
                PlayerEffect::StartMcpServer { server, endpoint } => {
                    let inputs = self.sender.clone();
                    self.servers.start(server, &endpoint, &self.environment.cwd, inputs);
                }
                PlayerEffect::WriteMcpServer { server, message } => {
                    self.servers.write(&server, &message).await;
                }
                // 2.1.325 has checked a call before it reads the next block of the reply.
                PlayerEffect::Inspect(invocation) => {
                    let inspection = self.tools.inspect(&invocation);
                    let call = invocation.call;
                    self.ready.push_back(PlayerInput::Inspected { call, inspection });
                }
                PlayerEffect::Checkpoint(prompt) => self.tools.checkpoint(&prompt),
                PlayerEffect::LeaveTools => self.tools.processes().forget_all(),
                PlayerEffect::SaveRules(rules) => save_rules(&self.environment, &rules),
                PlayerEffect::Exit(code) => return Some(code),
                other => self.spawn(other),
            }
        }
        None
    }

    /// Runs an effect that takes time in a task, which sends the result to the session.
    fn spawn(&self, effect: PlayerEffect) {
        let (tools, sender) = (self.tools.clone(), self.sender.clone());
        let cwd = self.environment.cwd.clone();
        tokio::spawn(async move {
            let input = match effect {
                PlayerEffect::RunTool(invocation) => {
                    let outcome = tools.run(&invocation).await;
                    PlayerInput::ToolDone { call: invocation.call, outcome }
                }
                PlayerEffect::RunInBackground { invocation, task } => {
                    let code = tools.run_in_background(&invocation, &task).await;
                    PlayerInput::TaskEnded { task, code }
                }
                PlayerEffect::StartTimer { timer, after } => {
                    tokio::time::sleep(after).await;
                    PlayerInput::Timer(timer)
                }
                PlayerEffect::RunHostShell { command } => {
                    PlayerInput::HostShellDone { output: tools.run_host_command(&command).await }
                }
                PlayerEffect::RunHook { id, command, input, timeout } => {
                    let output = run_hook(&command, &input, &cwd, timeout).await;
                    PlayerInput::HookDone { id, output }
                }
                PlayerEffect::QueryFiles { request, query } => {
                    PlayerInput::FilesQueried { request, answer: query.answer(&cwd) }
                }
                PlayerEffect::RewindFiles { request, prompt, dry_run } => {
                    let response = tools.rewind(&prompt, dry_run);
                    PlayerInput::FilesRewound { request, response }
                }
                _ => return,
            };
            drop(sender.send(input).await);
        });
    }

    async fn print(&mut self, line: Value) -> Option<u8> {
        let none = FaultAction::Write(Vec::new());
        match self.fault.map_or(none, |fault| fault.action(&line)) {
            FaultAction::Write(before) => {
                for bytes in before {
                    self.stdout.write(bytes).await;
                }
                let open = self.stdout.print(line).await;
                (!open).then_some(1)
            }
            FaultAction::Die(bytes) => {
                self.stdout.write(bytes).await;
                Some(137)
            }
        }
    }
}
