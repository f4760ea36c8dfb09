//! The desk without a network: what it does with what is reported to it.

use std::collections::HashMap;
use std::time::Duration;

use journal::{Journal, SessionId};
use session::machine::Limits;
use session::{AgentProgram, Alone, Home, Roots, Sessions};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::booth::Booth;
use super::clock::Clock;
use super::drawer::Kept;
use super::errand::Means;
use super::keeper::Keeper;
use super::{Desk, Input, Outcome};
use crate::bot::{Bot, Trouble};
use crate::call::Reply;
use crate::front::{DOWNLOAD, Front, Rules};
use crate::memory::PlaceMemory;
use crate::pace::Pace;
use crate::place::{ChatId, Kind, MessageId, Place, UserId};
use crate::replies::Said;
use crate::settings::{Api, Plain, Token};

const OLD: Place = Place { chat: ChatId(-5), thread: None };
const NEW: Place = Place { chat: ChatId(-1005), thread: None };

struct Office {
    _place: TempDir,
    journal: Journal,
    desk: Desk,
    told: mpsc::Receiver<Input>,
}

/// A desk whose Telegram is not there.
fn office() -> Office {
    let place = tempfile::tempdir().unwrap();
    let journal = Journal::open(&place.path().join("journal.db")).unwrap().journal;
    let home = Home {
        data: place.path().to_owned(),
        runtime: place.path().to_owned(),
        towpath: "towpath".into(),
        agent: AgentProgram { program: "agent".into(), arguments: Vec::new() },
        environment: Vec::new(),
        limits: Limits::default(),
        alone: Alone::BRIEF,
    };
    let api = Api::at("http://127.0.0.1:1", Plain::Refused).unwrap();
    let means = Means {
        bot: Bot::new(api, Token::new("1:x").unwrap()).unwrap(),
        sessions: Sessions::new(home, journal.clone()),
        roots: Roots::new(&[place.path().to_owned()]).unwrap(),
        clock: Clock::new(1),
        namespace: Uuid::nil(),
    };
    let rules = Rules {
        allow: [UserId(11)].into(),
        bot: UserId(1),
        username: "bot".to_owned(),
        download: DOWNLOAD,
    };
    let (keeper, keeping) = Keeper::new(journal.clone());
    let (tell, told) = mpsc::channel(64);
    let mut work = JoinSet::new();
    work.spawn(keeping);
    let desk = Desk {
        means,
        front: Front::new(rules),
        pace: Pace::new(1),
        keeper,
        booths: HashMap::new(),
        followings: HashMap::new(),
        number: 0,
        renamed: HashMap::new(),
        tell,
        work,
    };
    Office { _place: place, journal, desk, told }
}

async fn kept(journal: &Journal) -> Kept {
    // What the keeper was given is on its way.
    for _ in 0..100 {
        let kept = Kept::read(journal).await.unwrap();
        if !kept.places.is_empty() {
            return kept;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Kept::default()
}

#[tokio::test]
async fn a_group_that_goes_by_another_number_is_the_same_place() {
    let Office { journal, mut desk, _place, .. } = office();
    let mut booth = Booth::new(OLD, Kind::Group);
    booth.show(PlaceMemory::new(OLD, Kind::Group, SessionId(Uuid::from_u128(1))));
    booth.asides.say(OLD, &Said::from("one"), None);
    booth.asides.say(OLD, &Said::from("two"), None);
    desk.booths.insert(OLD, booth);
    desk.speak().await;
    assert!(desk.booths[&OLD].is_calling());
    // Telegram says so in a message while a call is still under way to the old number.
    desk.moved(OLD.chat, NEW.chat).await;
    assert!(!desk.booths.contains_key(&OLD) && desk.booths[&NEW].is_calling());
    let made = Outcome::Made(Err(Trouble::Moved(NEW.chat)));
    desk.called(OLD, made).await;
    let booth = desk.booths.get_mut(&NEW).unwrap();
    assert!(!booth.is_calling());
    let Some(crate::call::Call::Send(next)) = booth.asides.next() else { panic!("it is said") };
    assert_eq!((next.place, next.words.plain.as_str()), (NEW, "one"), "to the new number");
    let places: Vec<_> = kept(&journal).await.places.into_iter().map(|it| it.place).collect();
    assert_eq!(places, [NEW]);
}

#[tokio::test]
async fn what_cannot_be_said_now_is_said_later_and_a_desk_without_network_is_at_rest() {
    let Office { mut desk, mut told, _place, .. } = office();
    let mut booth = Booth::new(OLD, Kind::Group);
    booth.asides.say(OLD, &Said::from("one"), None);
    booth.stir();
    desk.booths.insert(OLD, booth);
    desk.speak().await;
    let Some(Input::Called { place, outcome }) = told.recv().await else { panic!("a call") };
    desk.called(place, outcome).await;
    let wakes = desk.speak().await.expect("it is tried again");
    assert!(wakes > desk.now() + Duration::from_millis(500), "{wakes:?}");
    assert!(!desk.booths[&OLD].is_calling());
    tokio::time::sleep_until(desk.means.clock.instant(wakes)).await;
    desk.speak().await;
    assert!(desk.booths[&OLD].is_calling());
    desk.called(OLD, Outcome::Made(Ok(Reply::Sent(MessageId(1))))).await;
    assert_eq!(desk.booths[&OLD].asides.next(), None);
}

#[tokio::test]
async fn what_is_not_written_down_is_not_acted_on() {
    let Office { journal, mut desk, mut told, _place } = office();
    let mut booth = Booth::new(OLD, Kind::Group);
    booth.show(PlaceMemory::new(OLD, Kind::Group, SessionId(Uuid::from_u128(1))));
    booth.asides.say(OLD, &Said::from("one"), None);
    desk.booths.insert(OLD, booth);
    journal.close().await.unwrap();
    desk.speak().await;
    let Some(Input::Called { outcome, .. }) = told.recv().await else { panic!("a call") };
    assert!(matches!(outcome, Outcome::NotKept), "{outcome:?}");
    desk.called(OLD, outcome).await;
    assert!(desk.booths[&OLD].asides.next().is_some(), "it is still to be said");
}
