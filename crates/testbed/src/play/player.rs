//! The loop around a session: inputs in, effects out.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::SystemTime;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Refusal;
use super::arguments::Arguments;
use super::beginning::beginning;
use super::effect::{Effect, RequestNumber};
use super::fault::{Fate, Fault};
use super::ids::Ids;
use super::input::Input;
use super::model::Model;
use super::printer::Printer;
use super::session::{Session, VERSION};
use super::settings::{Settings, save_rules};
use super::stdin::read_stdin;
use super::store::Store;
use super::surroundings::Surroundings;
use super::tools::{Workshop, run_hook};

/// Inputs that may wait; whoever has more waits too.
const WAITING: usize = 256;

/// Plays the CLI until it ends; its exit code.
pub async fn run(arguments: Arguments, around: Surroundings) -> u8 {
    if arguments.version {
        show(&format!("{VERSION} (towpath play)"));
        return 0;
    }
    if arguments.help {
        show(HELP);
        return 0;
    }
    match Player::start(arguments, around).await {
        Ok(player) => player.play().await,
        Err(refusal) => {
            complain(&refusal.0);
            1
        }
    }
}

const HELP: &str = "Usage: towpath play [options] [prompt]\n\nPlays `claude` 2.1.325: the same \
options, the same lines.\nBesides: --scenario FILE takes the model's replies from a scenario.";

fn show(text: &str) {
    drop(writeln!(std::io::stdout(), "{text}"));
}

fn complain(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// A session and the world around it.
struct Player {
    session: Session,
    around: Surroundings,
    printer: Printer,
    store: Store,
    model: Model,
    workshop: Workshop,
    fault: Option<Fault>,
    silent: bool,
    inputs: mpsc::Sender<Input>,
    waiting: mpsc::Receiver<Input>,
    requests: BTreeMap<RequestNumber, JoinHandle<()>>,
    /// What a session that cannot start says instead.
    missing: Option<String>,
}

impl Player {
    async fn start(arguments: Arguments, around: Surroundings) -> Result<Self, Refusal> {
        if arguments.skip_permissions && around.root && !around.sandbox {
            return Err(Refusal(
                "--dangerously-skip-permissions cannot be used with root/sudo privileges for \
                 security reasons"
                    .to_owned(),
            ));
        }
        let (id, past, missing) = beginning(&arguments, &around)?;
        let settings = Settings::load(&arguments, &around);
        let (inputs, waiting) = mpsc::channel(WAITING);
        let model = Model::choose(&arguments, &around).await?;
        let mut around = around;
        around.all_tools |= model.is_demonstration();
        let printer = Printer::new(arguments.output, arguments.verbose);
        read_stdin(&arguments, inputs.clone());
        Ok(Self {
            printer,
            store: Store::new(&around.home, &around.cwd),
            model,
            workshop: Workshop::new(&around),
            fault: around.fault.as_deref().and_then(Fault::named),
            silent: false,
            session: Session::new(arguments, around.clone(), settings, id, past, Ids::random()),
            around,
            inputs,
            waiting,
            requests: BTreeMap::new(),
            missing,
        })
    }

    async fn play(mut self) -> u8 {
        let (Ok(mut interrupts), Ok(mut terminations)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            return 1;
        };
        let mut effects = match self.missing.take() {
            Some(error) => self.session.missing(&error),
            None => Vec::new(),
        };
        loop {
            if let Some(code) = self.act(effects).await {
                self.workshop.shells().kill_all();
                self.printer.close().await;
                return code;
            }
            let input = tokio::select! {
                biased;
                _ = terminations.recv() => Input::Terminated,
                _ = interrupts.recv() => Input::Interrupted,
                input = self.waiting.recv() => match input {
                    Some(input) => input,
                    None => return 0,
                },
            };
            effects = self.session.on(SystemTime::now(), input);
        }
    }

    /// Does what the session wants; the exit code, where that is its end.
    async fn act(&mut self, effects: Vec<Effect>) -> Option<u8> {
        for effect in effects {
            match effect {
                Effect::Print(line) => {
                    if let Some(code) = self.print(line).await {
                        return Some(code);
                    }
                }
                Effect::Complain(text) => complain(&text),
                Effect::Record { session, entry } => drop(self.store.append(&session, &entry)),
                Effect::Ask { number, body } => {
                    let task = self.model.ask(number, body, self.inputs.clone());
                    self.requests.retain(|_, task| !task.is_finished());
                    self.requests.insert(number, task);
                }
                Effect::Hush(number) => {
                    if let Some(task) = self.requests.remove(&number) {
                        task.abort();
                    }
                }
                Effect::Stop(call) | Effect::Kill(call) => self.workshop.shells().kill(&call),
                Effect::Checkpoint(prompt) => self.workshop.checkpoint(&prompt),
                Effect::SaveRules(rules) => save_rules(&self.around, &rules),
                Effect::End(code) => return Some(code),
                other => self.spawn(other),
            }
        }
        None
    }

    /// Starts what takes a while, and tells the session when it is done.
    fn spawn(&self, effect: Effect) {
        let (workshop, inputs) = (self.workshop.clone(), self.inputs.clone());
        let cwd = self.around.cwd.clone();
        tokio::spawn(async move {
            let input = match effect {
                Effect::Inspect(work) => {
                    let finding = workshop.inspect(&work);
                    Input::Inspected { call: work.call, finding }
                }
                Effect::Run(work) => {
                    let outcome = workshop.run(&work).await;
                    Input::Done { call: work.call, outcome }
                }
                Effect::Background { work, task } => {
                    let code = workshop.background(&work, &task).await;
                    Input::TaskEnded { task, code }
                }
                Effect::Wake { timer, after } => {
                    tokio::time::sleep(after).await;
                    Input::Woken(timer)
                }
                Effect::Shell { command } => {
                    Input::ShellDone { output: workshop.typed(&command).await }
                }
                Effect::Hook { id, command, input, limit } => {
                    let report = run_hook(&command, &input, &cwd, limit).await;
                    Input::HookDone { id, report }
                }
                Effect::Rewind { request, prompt, dry } => {
                    let answer = workshop.rewind(&prompt, dry);
                    Input::Rewound { request, answer }
                }
                _ => return,
            };
            drop(inputs.send(input).await);
        });
    }

    async fn print(&mut self, line: Value) -> Option<u8> {
        if self.silent {
            return None;
        }
        let fate = self.fault.map_or(Fate::Written(Vec::new()), |fault| fault.fate(&line));
        match fate {
            Fate::Written(before) => {
                for bytes in before {
                    self.printer.raw(bytes).await;
                }
                let read = self.printer.print(line).await;
                (!read).then_some(1)
            }
            Fate::Death(bytes) => {
                self.printer.raw(bytes).await;
                Some(137)
            }
            Fate::Silence => {
                self.silent = true;
                None
            }
        }
    }
}
