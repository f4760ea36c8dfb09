//! The dispatcher without a network.

use std::sync::Arc;
use std::time::Duration;

use journal::{Journal, SessionId};
use session::{
    AgentProgram, OptionRole, RequestAnswer, Roots, SessionLimits, Sessions, SessionsConfig,
    UnattendedLimits,
};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;
use view::Conversation;
use wire::note::Actor;

use super::chat_state::ChatState;
use super::job::{ChatJob, JobContext, JobKind};
use super::store::{BridgeState, StateWriter};
use super::{BridgeClock, CallOutcome, Dispatcher, DispatcherEvent};
use crate::address::{ChatAddress, ChatId, ChatKind, MessageId, TelegramUserId};
use crate::bot::{Bot, BotCall, BotError, BotResponse};
use crate::bridge::{ApiAddress, BotToken, PlainHttp};
use crate::checkpoint::ChatCheckpoint;
use crate::inbound::{ChatCommand, DOWNLOAD_LIMIT, Inbound, InboundAction, InboundConfig};
use crate::replies::BotReply;
use crate::state_store::JournalStore;

const OLD: ChatAddress = ChatAddress { chat: ChatId(-5), topic: None };
const NEW: ChatAddress = ChatAddress { chat: ChatId(-1005), topic: None };
const SESSION: SessionId = SessionId(Uuid::from_u128(1));

struct Setup {
    _directory: TempDir,
    journal: Journal,
    dispatcher: Dispatcher,
    received: mpsc::Receiver<DispatcherEvent>,
}

/// A dispatcher whose Telegram cannot be reached.
fn setup() -> Setup {
    let directory = tempfile::tempdir().unwrap();
    let journal = Journal::open(&directory.path().join("journal.db")).unwrap().journal;
    let home = SessionsConfig {
        data: directory.path().to_owned(),
        allow_bypass: false,
        config_file: None,
        runtime: directory.path().to_owned(),
        towpath: "towpath".into(),
        agent: AgentProgram { program: "agent".into(), arguments: Vec::new() },
        agents: session::AgentCatalog::default(),
        environment: Vec::new(),
        limits: SessionLimits::default(),
        unattended: UnattendedLimits::SHORT,
        takeover_delay: Duration::ZERO,
        prompt_gate: session::PromptGate::default(),
        watch: session::WatchPolicy::default(),
    };
    let api = ApiAddress::parse("http://127.0.0.1:1", PlainHttp::LoopbackOnly).unwrap();
    let context = JobContext {
        bot: Bot::new(api, BotToken::parse("1:x").unwrap()).unwrap(),
        sessions: Sessions::new(home, journal.clone()),
        roots: Roots::new(&[directory.path().to_owned()]).unwrap(),
        clock: BridgeClock::new(1),
        zone: "UTC".to_owned(),
        namespace: Uuid::nil(),
    };
    let config = InboundConfig {
        allowed_users: [TelegramUserId(11)].into(),
        admins: [].into(),
        bot: TelegramUserId(1),
        username: "bot".to_owned(),
        download_limit: DOWNLOAD_LIMIT,
    };
    let (state_writer, writing) = StateWriter::new(Arc::new(JournalStore(journal.clone())));
    let (events, received) = mpsc::channel(2_000);
    let mut dispatcher = Dispatcher::new(
        context,
        Inbound::new(config),
        state_writer,
        events,
        watch::Sender::new(true),
    );
    dispatcher.work.spawn(writing);
    Setup { _directory: directory, journal, dispatcher, received }
}

fn chat(address: ChatAddress) -> ChatState {
    let mut chat = ChatState::new(address, ChatKind::Group);
    chat.show(ChatCheckpoint::new(address, ChatKind::Group, SESSION));
    chat
}

fn ann() -> Actor {
    Actor { name: "Ann".to_owned(), via: "telegram".to_owned() }
}

async fn stored_state(journal: &Journal) -> BridgeState {
    // The state writer works in the background.
    for _ in 0..100 {
        let state = BridgeState::read(&JournalStore(journal.clone())).await.unwrap();
        if !state.chats.is_empty() {
            return state;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    BridgeState::default()
}

#[tokio::test]
async fn a_group_that_becomes_a_supergroup_is_the_same_chat() {
    let Setup { journal, mut dispatcher, _directory, .. } = setup();
    let mut group = chat(OLD);
    group.replies.add(OLD, &BotReply::from("one"), None);
    group.replies.add(OLD, &BotReply::from("two"), None);
    dispatcher.chats.insert(OLD, group);
    dispatcher.make_calls().await;
    assert!(dispatcher.chats[&OLD].is_calling());
    // Telegram reports the new id in a message while a call to the old one is in flight.
    dispatcher.migrate(OLD.chat, NEW.chat).await;
    assert!(!dispatcher.chats.contains_key(&OLD) && dispatcher.chats[&NEW].is_calling());
    let outcome = CallOutcome::Made(Err(BotError::ChatMigrated(NEW.chat)));
    dispatcher.call_finished(OLD, outcome).await;
    let group = dispatcher.chats.get_mut(&NEW).unwrap();
    assert!(!group.is_calling());
    let Some(BotCall::Send(next)) = group.replies.next() else { panic!("no reply") };
    assert_eq!((next.address, next.text.plain.as_str()), (NEW, "one"), "it goes to the new id");
    let chats = stored_state(&journal).await.chats;
    assert_eq!(chats.into_iter().map(|it| it.address).collect::<Vec<_>>(), [NEW]);
}

#[tokio::test]
async fn a_call_that_fails_is_repeated_later() {
    let Setup { mut dispatcher, mut received, _directory, .. } = setup();
    let mut group = ChatState::new(OLD, ChatKind::Group);
    group.replies.add(OLD, &BotReply::from("one"), None);
    group.changed();
    dispatcher.chats.insert(OLD, group);
    dispatcher.make_calls().await;
    let event = received.recv().await;
    let Some(DispatcherEvent::CallFinished { address, outcome }) = event else { panic!("no call") };
    dispatcher.call_finished(address, outcome).await;
    let next = dispatcher.make_calls().await.expect("a retry");
    assert!(next > dispatcher.now() + Duration::from_millis(500), "{next:?}");
    assert!(!dispatcher.chats[&OLD].is_calling());
    tokio::time::sleep_until(dispatcher.context.clock.instant(next)).await;
    dispatcher.make_calls().await;
    assert!(dispatcher.chats[&OLD].is_calling());
    let outcome = CallOutcome::Made(Ok(BotResponse::Sent(MessageId(1))));
    dispatcher.call_finished(OLD, outcome).await;
    assert_eq!(dispatcher.chats[&OLD].replies.next(), None);
}

#[tokio::test]
async fn no_call_is_made_if_its_checkpoint_could_not_be_stored() {
    let Setup { journal, mut dispatcher, mut received, _directory } = setup();
    let mut group = chat(OLD);
    group.replies.add(OLD, &BotReply::from("one"), None);
    dispatcher.chats.insert(OLD, group);
    journal.close().await.unwrap();
    dispatcher.make_calls().await;
    let event = received.recv().await;
    let Some(DispatcherEvent::CallFinished { outcome, .. }) = event else { panic!("no call") };
    assert!(matches!(outcome, CallOutcome::NotStored), "{outcome:?}");
    dispatcher.call_finished(OLD, outcome).await;
    assert!(dispatcher.chats[&OLD].replies.next().is_some(), "it is still to be sent");
}

/// Many taps in one batch of updates, as after an outage: each answers when the one before is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_reach_the_session_in_the_order_of_their_updates() {
    let Setup { mut dispatcher, mut received, _directory, .. } = setup();
    let addresses = [OLD, NEW];
    for address in addresses {
        dispatcher.chats.insert(address, chat(address));
    }
    for number in 0..1_000 {
        let answer = RequestAnswer::Deny { message: "no".to_owned(), interrupt: false };
        let kind = JobKind::Answer { request: "r1".to_owned(), answer };
        let address = addresses[number % 2];
        let (message, updates) = (None, vec![i64::try_from(number).unwrap()]);
        let job = ChatJob { kind, address, message, by: ann(), role: OptionRole::Drive, updates };
        dispatcher.start_now(job, None).await;
    }
    for number in 0..1_000 {
        let event = received.recv().await;
        let Some(DispatcherEvent::JobFinished { receipt, .. }) = event else { panic!("no job") };
        assert_eq!(receipt.updates, [number]);
    }
}

#[tokio::test]
async fn a_flood_of_messages_stops_the_poller_and_loses_nothing() {
    let Setup { mut dispatcher, mut received, _directory, .. } = setup();
    let address = OLD;
    dispatcher.chats.insert(address, ChatState::new(address, ChatKind::Group));
    let count = 1_000;
    for number in 1..=count {
        let (kind, message, by) = (ChatKind::Group, MessageId(number), ann());
        let command = ChatCommand::Queue;
        let action =
            InboundAction::Command { address, kind, message, command, by, role: OptionRole::Drive };
        dispatcher.act(action, vec![number]).await;
    }
    dispatcher.update_room();
    assert!(!*dispatcher.has_room.borrow());
    let mut done = Vec::new();
    let mut replies = 0;
    while done.len() < usize::try_from(count).unwrap() {
        while let Some(chat) = dispatcher.chats.get_mut(&address)
            && chat.replies.next().is_some()
        {
            chat.replies.call_finished(&Ok(BotResponse::Sent(MessageId(1))));
            replies += 1;
        }
        dispatcher.start_next_job(address).await;
        if let Some(DispatcherEvent::JobFinished { address, receipt, result }) =
            received.recv().await
        {
            done.extend(receipt.message.map(|it| it.0));
            dispatcher.job_finished(address, receipt, *result).await;
        }
        assert!(dispatcher.chats[&address].reply_count() <= 21, "replies are limited");
    }
    assert!(done.iter().copied().eq(1..=count), "every message is handled, in order");
    replies += dispatcher.chats[&address].reply_count();
    assert_eq!(replies, done.len(), "every message is answered");
    dispatcher.update_room();
    assert!(*dispatcher.has_room.borrow());
}

#[tokio::test]
async fn actions_that_waited_for_the_document_are_done_in_the_order_they_came() {
    let Setup { mut dispatcher, mut received, _directory, .. } = setup();
    for address in [OLD, NEW] {
        dispatcher.chats.insert(address, chat(address));
    }
    // Chats are visited by their address, so the new one would be first.
    for (number, address) in [(1, OLD), (2, NEW), (3, OLD)] {
        let (kind, message, by) = (ChatKind::Group, MessageId(number), ann());
        let command = ChatCommand::Stop;
        let action =
            InboundAction::Command { address, kind, message, command, by, role: OptionRole::Drive };
        dispatcher.act(action, vec![number]).await;
    }
    let document = Box::new(Conversation::default());
    let event = super::follower::FollowerEvent::Loaded(document);
    dispatcher.session_changed(SESSION, event).await;
    let mut order = Vec::new();
    while order.len() < 3 {
        if let Some(DispatcherEvent::JobFinished { receipt, .. }) = received.recv().await {
            order.push(receipt.message.unwrap().0);
        }
    }
    assert_eq!(order, [1, 2, 3]);
}
