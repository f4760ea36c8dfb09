//! A session, its chat and a little Telegram in one room, with a clock that only we move.

use std::time::Duration;

use journal::SessionId;
use serde_json::Value;
use towpath_telegram::chat::{Chat, Meaning, Next};
use towpath_telegram::memory::PlaceMemory;
use towpath_telegram::{Call, Failure, Kind, MessageId, Place, Reply};
use uuid::Uuid;
use view::{Entry, Fold, Source};
use wire::note::{Actor, Note};

use super::script::{began, ended, init, over, queued};
use super::telegram::{CHAT, Telegram};

/// A session with a chat.
pub(crate) struct Room {
    pub(crate) fold: Fold,
    pub(crate) lines: Vec<(u64, Vec<u8>)>,
    seq: u64,
    pub(crate) chat: Chat,
    /// What was on the disk when the last call was made.
    pub(crate) kept: PlaceMemory,
    pub(crate) telegram: Telegram,
    pub(crate) now: Duration,
    /// How long it takes from asking what to do to doing it.
    pub(crate) slowness: Duration,
    /// What the next calls come to, before Telegram hears of them.
    pub(crate) failing: Vec<Failure>,
}

impl Room {
    pub(crate) fn of(kind: Kind, verbosity: u8) -> Self {
        let place = Place { chat: CHAT, thread: None };
        let mut memory = PlaceMemory::new(place, kind, SessionId(Uuid::from_u128(99)));
        memory.verbosity = verbosity;
        let mut chat = Chat::new(memory.clone());
        let fold = Fold::new();
        chat.begin(fold.conversation(usize::MAX), Duration::ZERO);
        Self {
            fold,
            lines: Vec::new(),
            seq: 0,
            chat,
            kept: memory,
            telegram: Telegram::default(),
            now: Duration::from_secs(1),
            slowness: Duration::ZERO,
            failing: Vec::new(),
        }
    }

    pub(crate) fn private() -> Self {
        Self::of(Kind::Private, 1)
    }

    /// A private chat whose own prompt is being answered, as turn 1.
    pub(crate) fn asked(verbosity: u8) -> Self {
        let mut room = Self::of(Kind::Private, verbosity);
        room.chat.prompted(&[MessageId(500)], Uuid::from_u128(1));
        room.note(&queued(Uuid::from_u128(1), "go"));
        room.note(&began(1, &[Uuid::from_u128(1)]));
        room.line(&init());
        room
    }

    pub(crate) fn line(&mut self, line: &Value) -> &mut Self {
        self.bytes(line.to_string().into_bytes())
    }

    pub(crate) fn note(&mut self, note: &Note) -> &mut Self {
        self.bytes(note.to_line())
    }

    /// The running turn is over, with the agent's word and with ours.
    pub(crate) fn over(&mut self, turn: u64) -> &mut Self {
        self.line(&ended()).note(&over(turn))
    }

    pub(crate) fn bytes(&mut self, line: Vec<u8>) -> &mut Self {
        self.seq += 1;
        let at = u64::try_from(self.now.as_millis()).expect("not that long");
        fold(&mut self.fold, self.seq, at, &line);
        self.lines.push((self.seq, line));
        let since = view::Revision(self.seq - 1);
        let update = self.fold.patches(since).expect("it was just now");
        self.chat.take(&update, self.now).expect("nothing lies between");
        self
    }

    /// Makes every call that the chat asks for now.
    pub(crate) fn settle(&mut self) -> &mut Self {
        for _ in 0..500 {
            if !self.step() {
                return self;
            }
        }
        panic!("it does not come to rest: {:?}", self.telegram.log.last());
    }

    /// Makes the next call, if there is one.
    pub(crate) fn step(&mut self) -> bool {
        let Next::Do(call, _) = self.chat.next(self.now) else { return false };
        self.kept = self.chat.memory().clone();
        self.now += self.slowness;
        self.chat.under_way(&call, self.now);
        assert_eq!(self.chat.next(self.now), Next::Rest, "two calls under way");
        let outcome = self.told(&call);
        self.chat.came(outcome, self.now);
        true
    }

    fn told(&mut self, call: &Call) -> Result<Reply, Failure> {
        if !self.failing.is_empty() {
            return Err(self.failing.remove(0));
        }
        self.telegram.take(call, self.now, least(self.kept.kind))
    }

    /// Lets time pass; whatever becomes due is done when it is.
    pub(crate) fn wait(&mut self, milliseconds: u64) -> &mut Self {
        let until = self.now + Duration::from_millis(milliseconds);
        self.settle();
        while let Next::Wait(moment) = self.chat.next(self.now)
            && moment <= until
        {
            assert!(moment > self.now, "it waits for what has passed");
            self.now = moment;
            self.settle();
        }
        self.now = until;
        self.settle()
    }

    pub(crate) fn tap(&mut self, label: &str) -> Meaning {
        let (message, data) = self.telegram.button(label);
        let by = Actor { name: "Bob".to_owned(), via: "telegram".to_owned() };
        self.chat.tapped(message, &data, &by)
    }

    /// The calls since it was last asked.
    pub(crate) fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.telegram.log)
    }

    /// The process ends here and begins anew with what was kept.
    pub(crate) fn restart(&mut self, kept: PlaceMemory) {
        let mut fold = Fold::new();
        let note = Note::TurnOver { turn: kept.turn, ending: wire::note::TurnEnding::Completed };
        fold.push(Entry { seq: kept.from, at: None, source: Source::Note(&note) });
        for (seq, line) in self.lines.iter().filter(|(seq, _)| *seq > kept.from) {
            self::fold(&mut fold, *seq, *seq * 1000, line);
        }
        self.chat = Chat::new(kept);
        self.chat.begin(fold.conversation(usize::MAX), self.now);
        self.fold = fold;
    }
}

/// How far edits of the progress message are apart, at least.
pub(crate) fn least(kind: Kind) -> Duration {
    match kind {
        Kind::Private => Duration::from_millis(1_100),
        Kind::Group => Duration::from_secs(3),
    }
}

pub(crate) fn fold(fold: &mut Fold, seq: u64, at: u64, line: &[u8]) {
    if let Some(note) = Note::read(line) {
        fold.push(Entry { seq, at: Some(at), source: Source::Note(&note) });
        return;
    }
    for line in wire::read(line) {
        fold.push(Entry { seq, at: Some(at), source: Source::Agent(&line) });
    }
}
