//! Which process is killed in mid-turn, and what must hold afterwards.

use journal::{Seq, SessionId};
use uuid::Uuid;
use wire::note::{Note, PromptState, TurnEnding};

use super::{ClientProcess, HostedFixture, wait_for_end};
use crate::fixture::{JournalReader, format_entries, is_turn_over, note, notes, prompt};
use crate::kills::{KillPoint, KilledProcess, ending, final_state, kill};

/// The processes that are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostedVictim {
    Host,
    Client,
    HostAndClient,
    Shim,
}

/// Kills processes at some point of a turn that a client in another process started, and checks what
/// a second client sees.
pub(crate) async fn check(victim: HostedVictim, point: KillPoint) {
    let case = format!("{victim:?} killed, {point:?}");
    let fixture = HostedFixture::new(point.replies()).await;
    let id = SessionId(Uuid::new_v4());
    let mut client = ClientProcess::start(&fixture, point, id).await;
    let host = fixture.host().expect("a host");
    assert_eq!(fixture.owner(id), Some(host), "{case}");
    let kills_host = matches!(victim, HostedVictim::Host | HostedVictim::HostAndClient);
    if kills_host {
        fixture.kill_host();
    }
    match victim {
        HostedVictim::Client | HostedVictim::HostAndClient => client.kill(),
        HostedVictim::Shim => kill(fixture.setup(), id, KilledProcess::Shim),
        HostedVictim::Host => {}
    }
    if victim == HostedVictim::Host {
        // The client that is left starts the next host before anyone asks for the session.
        crate::fixture::wait_until("another host has the session", || {
            fixture.host().is_some_and(|it| it != host) && fixture.owner(id) == fixture.host()
        })
        .await;
    }

    let towpath = fixture.client();
    let session = towpath.sessions.open(id).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert!(towpath.sessions.is_remote(id), "{case}: the host drives the session");
    if kills_host {
        wait_for_end(host).await;
        assert_ne!(fixture.host(), Some(host), "{case}");
    } else {
        assert_eq!(fixture.host(), Some(host), "{case}: the host goes on");
    }
    let mut reader = JournalReader::new(&session, Seq::default());
    if victim != HostedVictim::Shim {
        if point == KillPoint::Asking {
            let open = session.journal().open_requests(Some(id)).await.expect("requests");
            assert_eq!(open.len(), 1, "{case}: the request still waits");
        }
        point.passes(&fixture.driving, &session).await;
    }
    let mut seen = reader.until(is_turn_over).await;
    let more = prompt("And now?");
    session.prompt(more.clone()).await.expect("a queued prompt");
    let done = Note::PromptStateChanged { prompt: more.id, state: PromptState::Done };
    seen.extend(reader.until(|entry| note(entry).as_ref() == Some(&done)).await);
    seen.extend(reader.until(is_turn_over).await);

    let all = notes(&seen);
    let endings: Vec<_> = all.iter().filter_map(ending).collect();
    let as_expected = match victim {
        HostedVictim::Shim => {
            matches!(endings[..], [(1, TurnEnding::Aborted { .. }), (2, TurnEnding::Completed)])
        }
        _ => matches!(endings[..], [(1, TurnEnding::Completed), (2, TurnEnding::Completed)]),
    };
    assert!(as_expected, "{case}: {endings:?}\n{}", format_entries(&seen));
    for (sort, id) in all.iter().filter_map(final_state) {
        let times = all.iter().filter_map(final_state).filter(|(_, other)| *other == id).count();
        assert_eq!(times, 1, "{case}: {sort} {id}");
    }
    let asked = fixture.driving.model_requests();
    let last = asked.last().expect("a request");
    for words in ["Are you there?", "And now?"] {
        assert_eq!(last.matches(words).count(), 1, "{case}: {words} in {last}");
    }
    session.close().await.expect("a stopped agent");
    assert_eq!(towpath.sessions.release().await, []);
}
