//! A session that a client has opened: the task that follows its journal, tells the client what
//! happens, asks it what the agent asks, and answers its prompts.

mod activity;
mod asks;
mod document;
mod inputs;
mod own_prompts;
mod results;
mod settings;
mod worker;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use journal::{Entry, Follower, Seq};
use session::SessionOptions;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tracing::warn;
use uuid::Uuid;
use view::{Fold, Request, Revision, SessionUsage};
use wire::acp::{AcpUpdate, AcpVersion, AgentLine, ConfigValue, RpcError, RpcId, SessionSetup};
use wire::note::{ExitCause, Note};

use crate::config::AcpRole;
use crate::connection::ConnectionShared;
use crate::prompt_content::PromptParts;
use crate::session_link::SessionLink;
use crate::translate::{TranslatedUpdate, TranslationPhase, Translator, TranslatorSettings};
use activity::ActivityTracker;
use asks::{Ask, AskMessage};
use document::{ChangedParts, DocumentState, plan_step};
use own_prompts::{OwnPrompts, PromptEnd};
use settings::SettingsState;
use worker::{SessionWorker, WorkResult};

/// How many inputs may wait for the task.
pub(crate) const INPUT_QUEUE: usize = 64;

/// After how long a journal that could not be read is read again.
const RETRY_DELAY: Duration = Duration::from_millis(500);

/// What a client does with a session that it opened.
#[derive(Debug)]
pub(crate) enum SessionInput {
    Prompt {
        rpc: RpcId,
        id: Uuid,
        content: PromptParts,
    },
    Steer {
        rpc: RpcId,
        content: PromptParts,
    },
    Cancel,
    /// The client no longer waits for the answer to this request.
    CancelRequest(String),
    /// The client answered a request of ours: with JSON, or an error.
    Answered {
        ask: u64,
        result: Result<String, RpcError>,
    },
    SetMode {
        rpc: RpcId,
        mode: String,
    },
    SetOption {
        rpc: RpcId,
        option: String,
        value: ConfigValue,
    },
    /// The client opens the session once more.
    Reopen {
        opening: SessionOpening,
    },
    /// The client closes the session.
    Close {
        rpc: RpcId,
    },
}

/// How a session is opened, and what to answer then.
#[derive(Debug)]
pub(crate) struct SessionOpening {
    pub(crate) rpc: RpcId,
    pub(crate) phase: TranslationPhase,
    /// Whether the client has to be told the id.
    pub(crate) is_new: bool,
}

/// The task of an opened session.
pub(crate) struct AttachedSession {
    shared: Arc<ConnectionShared>,
    /// The session, as the client calls it.
    name: String,
    link: SessionLink,
    version: AcpVersion,
    inputs: mpsc::Receiver<SessionInput>,
    worker: SessionWorker,
    results: mpsc::UnboundedReceiver<WorkResult>,
    /// For results of what takes long.
    slow_results: (mpsc::UnboundedSender<WorkResult>, mpsc::UnboundedReceiver<WorkResult>),
    follower: Follower,
    fold: Fold,
    revision: Revision,
    translator: Translator,
    prompts: OwnPrompts,
    settings: SettingsState,
    activity: ActivityTracker,
    document: DocumentState,
    asks: HashMap<u64, OpenAsk>,
    /// Requests whose rules are known.
    opened: HashSet<String>,
    sent_setup: SessionSetup,
    /// Why the agent exited, if that was not looked into yet.
    exit: Option<ExitCause>,
    is_live: bool,
}

/// A request of the agent that the client was asked.
struct OpenAsk {
    request: String,
    ask: Ask,
}

/// The client or the session is gone.
#[derive(Debug)]
enum Detached {
    ClientGone,
    SessionGone,
}

impl AttachedSession {
    pub(crate) fn new(
        shared: Arc<ConnectionShared>,
        name: String,
        link: SessionLink,
        options: &SessionOptions,
        inputs: mpsc::Receiver<SessionInput>,
    ) -> Self {
        let config = shared.config();
        let profile = shared.client();
        let by = shared.actor();
        let settings = TranslatorSettings {
            session: name.clone(),
            directory: options.directory.to_string_lossy().into_owned(),
            capabilities: profile.capabilities,
            own_turns_only: config.own_turns_only,
            echoes_prompts: profile.version == AcpVersion::V2,
        };
        let may_bypass = config.sessions.config().allow_bypass && config.role == AcpRole::Admin;
        let (worker, results) = SessionWorker::start(link.clone(), by);
        let follower = config.sessions.journal().follow(link.id(), Seq(0));
        Self {
            version: profile.version,
            name,
            link,
            inputs,
            worker,
            results,
            slow_results: mpsc::unbounded_channel(),
            follower,
            fold: Fold::new(),
            revision: Revision(0),
            translator: Translator::new(settings, TranslationPhase::Silent),
            prompts: OwnPrompts::default(),
            settings: SettingsState::new(options, may_bypass),
            activity: ActivityTracker::default(),
            document: DocumentState::default(),
            asks: HashMap::new(),
            opened: HashSet::new(),
            sent_setup: SessionSetup::default(),
            exit: None,
            is_live: false,
            shared,
        }
    }

    /// Runs until the client closes the session or is gone.
    pub(crate) async fn run(mut self, opening: SessionOpening) {
        let wakes = opening.is_new;
        let ended = match self.open(opening).await {
            Ok(()) => {
                self.learn_offers(wakes);
                self.serve().await
            }
            Err(error) => error,
        };
        if matches!(ended, Detached::SessionGone) {
            for prompt in self.prompts.take_all(&PromptEnd::Lost) {
                self.answer(prompt).await;
            }
            self.shared.forget(&self.name);
        }
        self.withdraw_asks(|_| true).await;
        // What the client asked for before it left is carried out.
        self.worker.finish().await;
    }

    async fn serve(&mut self) -> Detached {
        loop {
            let step = tokio::select! {
                input = self.inputs.recv() => match input {
                    Some(input) => self.input(input).await,
                    None => return Detached::ClientGone,
                },
                Some(result) = self.results.recv() => self.result(result).await,
                Some(result) = self.slow_results.1.recv() => self.result(result).await,
                entries = self.follower.next() => match entries {
                    Ok(entries) => self.entries(&entries).await,
                    Err(journal::Error::Gone) => return Detached::SessionGone,
                    Err(error) => {
                        warn!(session = %self.link.id(), %error, "a session cannot be read");
                        sleep(RETRY_DELAY).await;
                        Ok(())
                    }
                },
            };
            if let Err(detached) = step {
                return detached;
            }
        }
    }

    /// Tells the client about the past, as far as it wants to know, and answers its request.
    async fn open(&mut self, opening: SessionOpening) -> Result<(), Detached> {
        let SessionOpening { rpc, phase, is_new } = opening;
        self.withdraw_asks(|_| true).await;
        self.is_live = false;
        self.fold = Fold::new();
        self.revision = Revision(0);
        self.opened.clear();
        self.document = DocumentState::default();
        self.activity = ActivityTracker::default();
        self.translator.restart(phase);
        self.follower = self.shared.config().sessions.journal().follow(self.link.id(), Seq(0));
        loop {
            let entries = self.follower.ready().await.map_err(|_| Detached::SessionGone)?;
            if entries.is_empty() {
                break;
            }
            let updates = self.fold(&entries);
            self.send_updates(updates).await?;
        }
        let updates = self.translator.go_live(&self.fold);
        self.send_updates(updates).await?;
        self.is_live = true;
        if phase == TranslationPhase::Silent {
            // The client knows the list and the title from before, or there are none.
            self.document.changed = ChangedParts::default();
        } else {
            self.document.changed.todos &= !self.document.todos.is_empty();
            self.send_parts().await?;
        }
        self.sent_setup = self.setup();
        let session = is_new.then_some(self.name.as_str());
        let line = AgentLine::session_opened(&rpc, self.version, session, &self.sent_setup);
        self.send(line).await?;
        if !self.sent_setup.commands.is_empty() {
            let commands = AcpUpdate::Commands(self.sent_setup.commands.clone());
            self.update(&commands).await?;
        }
        self.activity.start();
        self.after_entries().await
    }

    /// Asks the agent what it offers: one that is started for it, or else one that runs.
    fn learn_offers(&self, wakes: bool) {
        if self.shared.config().role < AcpRole::Drive {
            return;
        }
        let (link, results) = (self.link.clone(), self.slow_results.0.clone());
        tokio::spawn(async move {
            let offers =
                if wakes { worker::wake(link).await } else { worker::capabilities(link).await };
            if let Some(offers) = offers {
                // The client may have gone.
                let _ = results.send(WorkResult::Offers(offers));
            }
        });
    }

    /// Folds entries and translates what they changed.
    fn fold(&mut self, entries: &[Entry]) -> Vec<TranslatedUpdate> {
        for entry in entries {
            if let Some(note) = self.fold.push_recorded(entry.line()) {
                self.note(&note);
            }
        }
        let update = self.fold.patches(self.revision);
        self.revision = self.fold.revision();
        match &update {
            Some(update) => self.document.apply(update),
            None => self.document.replace(&self.fold),
        }
        self.translator.items(&self.fold, update.as_ref())
    }

    fn note(&mut self, note: &Note) {
        if let Some(turn) = self.prompts.observe(note) {
            self.translator.add_own_turn(turn);
        }
        self.settings.observe(note);
        self.activity.observe(note);
        match note {
            Note::RequestOpened { request, .. } => {
                self.opened.insert(request.clone());
            }
            Note::RequestResolved { request, .. } => {
                self.opened.remove(request);
            }
            Note::SettingChanged { .. } => self.document.changed.settings = true,
            Note::AgentExited { cause } => self.exit = Some(cause.clone()),
            Note::AgentReady { .. } if self.is_live => self.learn_offers(false),
            _ => {}
        }
    }

    async fn entries(&mut self, entries: &[Entry]) -> Result<(), Detached> {
        let updates = self.fold(entries);
        self.send_updates(updates).await?;
        self.send_parts().await?;
        self.after_entries().await
    }

    /// What follows from the state after all updates were sent: questions, the activity of the session,
    /// and the answers to prompts.
    async fn after_entries(&mut self) -> Result<(), Detached> {
        self.ask().await?;
        let document = &self.document;
        let translator = &self.translator;
        let changes = self.activity.take(
            !document.requests.is_empty(),
            |turn| document.stop_reason(turn),
            |turn| translator.hears_of(turn),
        );
        for activity in changes {
            self.update(&AcpUpdate::Activity(activity)).await?;
        }
        for prompt in self.prompts.take_ended() {
            self.answer(prompt).await;
        }
        match self.exit.take() {
            Some(cause) => self.agent_exited(&cause).await,
            None => Ok(()),
        }
    }

    /// The parts of the document that are always sent whole.
    async fn send_parts(&mut self) -> Result<(), Detached> {
        let changed = std::mem::take(&mut self.document.changed);
        let hears = self.activity.turn().is_none_or(|turn| self.translator.hears_of(turn));
        if changed.todos && hears {
            let steps = self.document.todos.iter().map(plan_step).collect();
            self.update(&AcpUpdate::Plan(steps)).await?;
        }
        if changed.usage && hears {
            let SessionUsage { context, window, cost, .. } = self.document.usage;
            if let (Some(used), Some(size)) = (context, window) {
                self.update(&AcpUpdate::Usage { used, size, cost }).await?;
            }
        }
        if changed.title {
            let title = self.document.head.title.clone();
            self.update(&AcpUpdate::Info { title, updated_at: None }).await?;
        }
        if changed.settings {
            self.send_setup().await?;
        }
        Ok(())
    }

    fn setup(&self) -> SessionSetup {
        self.settings.setup(&self.document.head, self.document.agent.as_ref())
    }

    async fn send_setup(&mut self) -> Result<(), Detached> {
        let setup = self.setup();
        if setup.options != self.sent_setup.options {
            self.update(&AcpUpdate::Options(setup.options.clone())).await?;
        }
        if setup.commands != self.sent_setup.commands {
            self.update(&AcpUpdate::Commands(setup.commands.clone())).await?;
        }
        self.sent_setup = setup;
        Ok(())
    }

    /// Asks the client about new requests, and takes back those that were resolved elsewhere.
    async fn ask(&mut self) -> Result<(), Detached> {
        let open: HashSet<String> =
            self.document.requests.iter().map(|request| request.id.clone()).collect();
        self.withdraw_asks(|request| !open.contains(request)).await;
        let hears = self.activity.turn().is_none_or(|turn| self.translator.hears_of(turn));
        if !hears || self.shared.config().role < AcpRole::Drive {
            return Ok(());
        }
        let asked: HashSet<&str> = self.asks.values().map(|it| it.request.as_str()).collect();
        let is_new =
            |it: &&Request| self.opened.contains(&it.id) && !asked.contains(it.id.as_str());
        let new: Vec<(String, Ask)> = self
            .document
            .requests
            .iter()
            .filter(is_new)
            .map(|it| (it.id.clone(), Ask::new(it, self.translator.settings())))
            .collect();
        for (request, ask) in new {
            self.send_ask(request, ask).await?;
        }
        Ok(())
    }

    async fn send_ask(&mut self, request: String, ask: Ask) -> Result<(), Detached> {
        let id = self.shared.register_ask(&self.name);
        let line = match &ask.message {
            AskMessage::Permission(permission) => {
                AgentLine::permission(id, self.version, permission)
            }
            AskMessage::Form(form) => AgentLine::elicitation(id, form),
        };
        self.asks.insert(id, OpenAsk { request, ask });
        self.send(line).await
    }

    async fn withdraw_asks(&mut self, is_over: impl Fn(&str) -> bool) {
        let over: Vec<u64> =
            self.asks.iter().filter(|(_, it)| is_over(&it.request)).map(|(id, _)| *id).collect();
        for id in over {
            self.asks.remove(&id);
            self.shared.forget_ask(id);
            // If the client is gone, so is its question.
            let _ = self.send(AgentLine::cancel_request(id)).await;
        }
    }

    async fn send_updates(&self, updates: Vec<TranslatedUpdate>) -> Result<(), Detached> {
        for TranslatedUpdate { child, update } in updates {
            let session = child.as_deref().unwrap_or(&self.name);
            for line in AgentLine::updates(self.version, session, &update) {
                self.send(line).await?;
            }
        }
        Ok(())
    }

    async fn update(&self, update: &AcpUpdate) -> Result<(), Detached> {
        for line in AgentLine::updates(self.version, &self.name, update) {
            self.send(line).await?;
        }
        Ok(())
    }

    async fn send(&self, line: AgentLine) -> Result<(), Detached> {
        self.shared.send(line).await.map_err(|_| Detached::ClientGone)
    }
}
