//! A session at the terminal: the conversation above, requests and the editor below.
//!
//! Everything on screen comes from following the journal. A key becomes a command of the session, and
//! its effect shows when it is in the journal.

mod menu_commands;

use std::io::{self, BufWriter, Stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use journal::{Entry, Seq};
use rustix::io::Errno;
use session::{Session, Sessions};
use view::terminal::{self, TerminalOptions};
use view::wording;
use wire::note::{Actor, Delivery, HoldReason, Note, PromptState, QueuePolicy, RequestKind};

use super::RunError;
use super::draft::RunPromptDraft;
use super::editor::{EditorEvent, PromptEditor};
use super::footer::{Footer, KeyFocus, help_lines};
use super::keyboard::Keyboard;
use super::preferences::RunPreferences;
use super::progress::{
    DOUBLE_PRESS, FollowEnd, RunProgress, RunSignal, RunSignals, deny_unattended,
};
use super::request_prompt::{RequestKeyEffect, RequestPrompt};
use crate::view::BottomArea;
use crate::view::printer::ConversationPrinter;
use crate::view::printer::TerminalScreen;
use menu_commands::MenuCommand;
use view::ViewDocument;

/// How often the screen is redrawn while time or progress is displayed.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// How long a new request ignores keys, so that a key pressed twice does not answer two requests.
const BLOCK_TIME: Duration = Duration::from_millis(300);

/// A user who pressed a key this recently is typing, so a new request does not take the focus.
const TYPING_TIME: Duration = Duration::from_millis(800);

/// Rows of the screen that the printer leaves free.
const FREE_ROWS: usize = 2;

/// Rows between the calls and the request: a blank line and the status.
const STATUS_ROWS: usize = 2;

/// A session at the terminal.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub(super) struct TerminalSession<'a> {
    sessions: &'a Sessions,
    session: &'a Session,
    by: Actor,
    directory: PathBuf,
    interactive: bool,
    is_acp: bool,
    preferences: RunPreferences,
    /// A command about what the agent offers, which waits until the agent has said it.
    waiting_menu: Option<MenuCommand>,
    deny_requests: bool,
    screen: TerminalScreen,
    printer: ConversationPrinter<BufWriter<Stdout>>,
    document: ViewDocument,
    editor: PromptEditor,
    prompt: Option<RequestPrompt>,
    /// Whether keys belong to the request.
    request_has_focus: bool,
    /// When the request arrived.
    request_since: Option<Instant>,
    /// A message to the user, shown until the next key.
    hint: Option<String>,
    interrupt_pressed: Option<Instant>,
    last_key: Option<Instant>,
}

pub(super) struct TerminalSessionOptions {
    pub(super) by: Actor,
    pub(super) directory: PathBuf,
    /// Whether the user can write further prompts.
    pub(super) interactive: bool,
    /// Whether the agent is driven over the Agent Client Protocol.
    pub(super) is_acp: bool,
    pub(super) preferences: RunPreferences,
    /// Whether every request is denied.
    pub(super) deny_requests: bool,
    /// Earlier prompts, oldest first.
    pub(super) history: Vec<String>,
}

enum TerminalEvent {
    Entries(Vec<Entry>),
    /// A key, paste or resize; none if the terminal is gone.
    Input(Option<Event>),
    Signal(RunSignal),
    Redraw,
}

impl<'a> TerminalSession<'a> {
    pub(super) fn new(
        sessions: &'a Sessions,
        session: &'a Session,
        options: TerminalSessionOptions,
    ) -> Self {
        let screen = TerminalScreen::of_stdout(None);
        let mut printer = ConversationPrinter::new(BufWriter::new(io::stdout()), screen, false);
        printer.enable_live_area();
        Self {
            sessions,
            session,
            by: options.by,
            directory: options.directory,
            interactive: options.interactive,
            is_acp: options.is_acp,
            preferences: options.preferences,
            waiting_menu: None,
            deny_requests: options.deny_requests,
            screen,
            printer,
            document: ViewDocument::new(false),
            editor: PromptEditor::with_history(options.history),
            prompt: None,
            request_has_focus: false,
            request_since: None,
            hint: None,
            interrupt_pressed: None,
            last_key: None,
        }
    }

    /// Runs until the user leaves, or until the turn is over in a run that is not interactive. Of the
    /// entries up to `from`, those of turn `first_turn` and later are shown.
    pub(super) async fn run(
        &mut self,
        from: Seq,
        first_turn: u64,
        progress: &mut RunProgress,
    ) -> Result<FollowEnd, RunError> {
        match self.follow(from, first_turn, progress).await {
            Err(RunError::Write(error)) if is_terminal_gone(&error) => Ok(FollowEnd::Detached),
            end => end,
        }
    }

    async fn follow(
        &mut self,
        from: Seq,
        first_turn: u64,
        progress: &mut RunProgress,
    ) -> Result<FollowEnd, RunError> {
        let mut keyboard = Keyboard::start().map_err(RunError::Keyboard)?;
        let mut follower = self.session.follow(Seq(0));
        let mut signals = RunSignals::new().map_err(RunError::Runtime)?;
        let mut interval = tokio::time::interval(REDRAW_INTERVAL);
        let mut caught_up = from == Seq(0);
        let end = loop {
            if caught_up {
                self.draw()?;
            }
            let event = tokio::select! {
                entries = follower.next() => TerminalEvent::Entries(entries?),
                () = self.session.closed() => return Err(RunError::SessionStopped),
                input = keyboard.next() => TerminalEvent::Input(input),
                signal = signals.next() => TerminalEvent::Signal(signal),
                _ = interval.tick(), if self.is_animated() => TerminalEvent::Redraw,
            };
            let end = match event {
                TerminalEvent::Entries(entries) => {
                    let first = entries.partition_point(|entry| entry.seq <= from);
                    self.replay(&entries[..first], first_turn);
                    caught_up |= first < entries.len() || follower.cursor() >= from;
                    let over = self.add_entries(&entries[first..], progress).await?;
                    over.then_some(FollowEnd::Finished)
                }
                TerminalEvent::Input(Some(event)) => self.handle_input(event).await?,
                // Without a terminal there is nothing to draw on.
                TerminalEvent::Input(None) => return Ok(FollowEnd::Detached),
                TerminalEvent::Signal(RunSignal::Interrupt) => self.interrupt().await?,
                TerminalEvent::Signal(RunSignal::Terminate) => Some(FollowEnd::Detached),
                TerminalEvent::Redraw => {
                    let expired = |at: &mut Instant| at.elapsed() >= DOUBLE_PRESS;
                    if self.interrupt_pressed.take_if(expired).is_some() {
                        self.hint = None;
                    }
                    None
                }
            };
            if let Some(end) = end {
                break end;
            }
        };
        self.printer.set_bottom_area(BottomArea::default());
        self.printer.finish(&mut self.document).map_err(RunError::Write)?;
        Ok(end)
    }

    /// Takes entries from before the run, and drops the turns before `first_turn`.
    fn replay(&mut self, entries: &[Entry], first_turn: u64) {
        for entry in entries {
            self.document.push_recorded(entry.line());
            while self
                .document
                .conversation
                .items
                .first()
                .is_some_and(|item| item.turn < first_turn)
                && self.document.next_finished().is_some()
            {}
            while self.document.conversation.turns.first().is_some_and(|it| it.number < first_turn)
                && self.document.next_ended_turn().is_some()
            {}
        }
    }

    /// Takes new entries, and returns whether the run is over.
    async fn add_entries(
        &mut self,
        entries: &[Entry],
        progress: &mut RunProgress,
    ) -> Result<bool, RunError> {
        let mut may_be_over = false;
        for entry in entries {
            if let Some(note) = self.document.push_recorded(entry.line()) {
                may_be_over |= progress.observe(&note);
                if let (Note::RequestOpened { request, .. }, true) = (note, self.deny_requests) {
                    deny_unattended(self.session, &request).await;
                }
            }
        }
        self.update_prompt();
        self.run_waiting_menu().await?;
        if self.interactive || !may_be_over {
            return Ok(false);
        }
        Ok(progress.is_over(self.sessions.journal(), self.session.id()).await?)
    }

    /// Shows the first open request, if it is another one than before.
    fn update_prompt(&mut self) {
        let first = self.document.conversation.requests.first();
        let shown = self.prompt.as_ref().map(|prompt| &prompt.request.id);
        if shown == first.map(|request| &request.id) {
            return;
        }
        self.prompt = first.map(|request| RequestPrompt::new(request.clone(), &self.directory));
        self.request_since = self.prompt.is_some().then(Instant::now);
        let is_typing = self.last_key.is_some_and(|at| at.elapsed() < TYPING_TIME);
        self.request_has_focus = self.prompt.is_some() && self.editor.is_empty() && !is_typing;
    }

    fn focus(&self) -> KeyFocus {
        match self.request_since {
            _ if !self.request_has_focus => KeyFocus::Editor,
            Some(at) if at.elapsed() < BLOCK_TIME => KeyFocus::Blocked,
            _ => KeyFocus::Request,
        }
    }

    fn is_busy(&self) -> bool {
        self.document.conversation.status.phase.is_busy()
    }

    /// Whether something on the screen changes with time.
    fn is_animated(&self) -> bool {
        self.is_busy() || self.interrupt_pressed.is_some()
    }

    fn draw(&mut self) -> Result<(), RunError> {
        let rows = self.screen.height.saturating_sub(FREE_ROWS + self.footer().other_rows());
        let call_rows = self.call_rows();
        if let Some(prompt) = &mut self.prompt {
            prompt.resize(self.screen.width, rows);
            prompt.set_call_rows(call_rows);
        }
        let area = self.footer().area();
        self.printer.set_bottom_area(area);
        self.printer.update(&mut self.document).map_err(RunError::Write)
    }

    /// The rows above the request if all of its call is to be visible.
    fn call_rows(&self) -> usize {
        let request = self.prompt.as_ref().map(|prompt| &prompt.request);
        let Some(request) = request.filter(|it| it.kind == RequestKind::Plan) else { return 0 };
        let base = self.document.conversation.head.cwd.as_deref();
        let look = TerminalOptions { width: self.screen.width, base, full: false };
        let full = TerminalOptions { full: true, ..look };
        let items = &self.document.conversation.items;
        let rows = items.iter().map(|item| terminal::item(item, look).len() + 1).sum::<usize>();
        let item = items.iter().find(|item| Some(&item.id) == request.item.as_ref());
        match item {
            Some(item) if terminal::item(item, look) == terminal::item(item, full) => {
                rows + STATUS_ROWS
            }
            // It is shortened, or not shown at all.
            _ => usize::MAX / 2,
        }
    }

    fn footer(&self) -> Footer<'_> {
        Footer {
            width: self.screen.width,
            queue: &self.document.conversation.queue,
            request: self.prompt.as_ref(),
            focus: self.focus(),
            hint: self.hint.as_deref(),
            editor: self.interactive.then_some(&self.editor),
            is_busy: self.is_busy(),
            delivery: self.delivery(),
            is_held: self.is_held(),
            budget_question: self.hold().and_then(wording::budget_question),
        }
    }

    /// What Enter does with a prompt now; none if there is nothing to choose, because no turn runs or the
    /// agent takes nothing into a running one.
    fn delivery(&self) -> Option<Delivery> {
        let says_so = || self.document.conversation.agent.as_ref().is_some_and(|it| it.can_steer);
        let can_join = !self.is_acp || says_so();
        (self.is_busy() && can_join).then(|| self.preferences.delivery())
    }

    /// Handles a key, a paste or a resize.
    async fn handle_input(&mut self, event: Event) -> Result<Option<FollowEnd>, RunError> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                return self.handle_key(key).await;
            }
            Event::Paste(text) => match &mut self.prompt {
                Some(prompt) if self.request_has_focus && prompt.takes_text() => {
                    prompt.paste(&text);
                }
                _ if self.interactive => self.editor.paste(&text),
                _ => {}
            },
            Event::Resize(..) => {
                self.screen = TerminalScreen::of_stdout(None);
                self.printer.resize(self.screen);
            }
            Event::Key(_) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {}
        }
        Ok(None)
    }

    async fn handle_key(&mut self, key: KeyEvent) -> Result<Option<FollowEnd>, RunError> {
        self.hint = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return self.interrupt().await,
            KeyCode::Esc if self.interactive && self.prompt.is_none() && self.is_busy() => {
                self.stop_turn().await?;
                return Ok(None);
            }
            KeyCode::Char('d') if control && self.editor.is_empty() => {
                return Ok(Some(FollowEnd::Detached));
            }
            KeyCode::Tab if self.interactive && self.prompt.is_some() => {
                self.request_has_focus = !self.request_has_focus;
                return Ok(None);
            }
            KeyCode::BackTab if self.interactive => {
                self.preferences.switch_delivery();
                return Ok(None);
            }
            _ => {}
        }
        match self.focus() {
            KeyFocus::Blocked if self.prompt.is_some() => {}
            KeyFocus::Request if self.prompt.is_some() => self.handle_request_key(key).await?,
            _ if self.interactive => self.handle_editor_key(key).await?,
            _ => {}
        }
        Ok(None)
    }

    async fn handle_request_key(&mut self, key: KeyEvent) -> Result<(), RunError> {
        let Some(prompt) = &mut self.prompt else { return Ok(()) };
        match prompt.key(key) {
            RequestKeyEffect::Ignored | RequestKeyEffect::Redraw => {}
            RequestKeyEffect::ShowAll => self.print_request()?,
            RequestKeyEffect::Resolve(answer) => {
                let id = prompt.request.id.clone();
                let answered = self.session.answer(&id, answer, self.by.clone()).await;
                self.hint = answered.err().map(|error| error.to_string());
            }
        }
        Ok(())
    }

    async fn handle_editor_key(&mut self, key: KeyEvent) -> Result<(), RunError> {
        self.last_key = Some(Instant::now());
        match key.code {
            KeyCode::Char('?') if self.editor.is_empty() => {
                let lines = help_lines(self.screen.width);
                self.printer.print_lines(&lines, &self.document).map_err(RunError::Write)?;
            }
            KeyCode::Up if self.editor.is_empty() && self.take_back_prompt().await => {}
            _ => {
                let event = self.editor.key(key);
                if event == EditorEvent::Submitted && self.editor.is_empty() && self.is_held() {
                    let by = self.by.clone();
                    let resumed = match self.hold() {
                        // The limit that the user saw, so that Enter pressed twice allows it once.
                        Some(HoldReason::Budget { limit, .. }) => {
                            self.session.raise_budget(*limit, by).await
                        }
                        _ => self.session.resume_queue(by).await,
                    };
                    self.hint = resumed.err().map(|error| error.to_string());
                } else if event == EditorEvent::Submitted && !self.editor.is_empty() {
                    let mut draft = self.editor.take();
                    if let Some(command) = MenuCommand::parse(&draft.text) {
                        self.run_menu(command).await?;
                    } else {
                        draft.text = MenuCommand::unescape(draft.text);
                        self.send(draft).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Prints everything about the request, unshortened, above the foot of the screen.
    fn print_request(&mut self) -> Result<(), RunError> {
        let Some(prompt) = &mut self.prompt else { return Ok(()) };
        let mut lines = prompt.full_lines();
        let items = &self.document.conversation.items;
        let item = items.iter().find(|it| Some(&it.id) == prompt.request.item.as_ref());
        if let Some(item) = item {
            let base = self.document.conversation.head.cwd.as_deref();
            let look = TerminalOptions { width: self.screen.width, base, full: true };
            lines.extend(terminal::item(item, look));
        } else {
            lines.extend(prompt.call_lines());
        }
        self.printer.print_lines(&lines, &self.document).map_err(RunError::Write)?;
        prompt.mark_reviewed();
        Ok(())
    }

    /// Sends a prompt. While a turn runs it does what is chosen, or joins the turn if it starts with `>`.
    async fn send(&mut self, mut draft: RunPromptDraft) {
        let chosen = self.delivery();
        let mut delivery = chosen.unwrap_or(Delivery::Queue);
        if self.is_busy()
            && let Some(text) = draft.text.strip_prefix('>')
        {
            draft.text = text.trim_start().to_owned();
            delivery = if chosen.is_some() { Delivery::Steer } else { Delivery::Queue };
        }
        let text = draft.text.clone();
        let prompt = draft.into_prompt(delivery, self.by.clone());
        if let Err(error) = self.session.prompt(prompt).await {
            self.hint = Some(error.to_string());
            self.editor.set_text(text);
        }
    }

    /// Moves the last queued prompt back into the editor. Returns whether there was one.
    async fn take_back_prompt(&mut self) -> bool {
        let is_queued = |it: &&view::QueuedPrompt| it.state == PromptState::Queued;
        let Some(queued) = self.document.conversation.queue.iter().rfind(is_queued) else {
            return false;
        };
        let Ok(id) = queued.id.parse() else { return false };
        let text = queued.text.clone();
        if self.session.remove_prompt(id).await.is_err() {
            return false;
        }
        self.editor.set_text(text);
        true
    }

    /// Stops the turn. Prompts that are queued wait until the user goes on, if there is an editor to do
    /// that in.
    async fn stop_turn(&mut self) -> Result<(), RunError> {
        let queue = if self.interactive { QueuePolicy::Hold } else { QueuePolicy::Keep };
        self.session.interrupt(queue, self.by.clone()).await?;
        let exits = "press Ctrl-C again to exit";
        let queued = self.document.conversation.queue.iter();
        let queued = queued.filter(|it| it.state == PromptState::Queued).count();
        self.hint = Some(match queued {
            0 => exits.to_owned(),
            _ if !self.interactive => exits.to_owned(),
            1 => format!("1 queued prompt is held: Enter sends it · {exits}"),
            _ => format!("{queued} queued prompts are held: Enter sends them · {exits}"),
        });
        Ok(())
    }

    fn is_held(&self) -> bool {
        self.hold().is_some()
    }

    /// Why queued prompts wait, if they do.
    fn hold(&self) -> Option<&HoldReason> {
        self.document.conversation.status.queue_hold.as_ref()
    }

    /// Ctrl-C: stops the turn or clears the editor; pressed twice, it leaves.
    async fn interrupt(&mut self) -> Result<Option<FollowEnd>, RunError> {
        if self.interrupt_pressed.is_some_and(|at| at.elapsed() < DOUBLE_PRESS) {
            return Ok(Some(FollowEnd::Detached));
        }
        self.interrupt_pressed = Some(Instant::now());
        if self.is_busy() {
            self.stop_turn().await?;
        } else if self.editor.is_empty() {
            self.hint = Some("press Ctrl-C again to exit; the session is saved".to_owned());
        } else {
            self.editor.clear();
        }
        Ok(None)
    }
}

/// Whether a write failed because there is no terminal any more.
fn is_terminal_gone(error: &io::Error) -> bool {
    let gone = [Errno::IO, Errno::NXIO, Errno::PIPE].map(|it| Some(it.raw_os_error()));
    gone.contains(&error.raw_os_error())
}
