//! Many sessions at once in one process.

use futures_util::future::join_all;
use journal::Seq;
use session::OpenError;
use wire::note::{Note, TurnEnding};

use crate::stage::{Reader, Stage, is_turn_over, note, notes, prompt, says};

/// Two hundred agents stream at once, and each session has its own answer, whole.
pub(crate) async fn check() {
    let stage = Stage::playing(
        "api repeat \"all the words of an answer that takes a while to come \" 20 slow 1",
    )
    .await;
    let towpath = stage.towpath();
    let mut sessions = Vec::new();
    for _ in 0..200 {
        sessions.push(towpath.create(&stage).await);
    }
    let turns = sessions.iter().map(|session| async {
        let mut reader = Reader::new(session, Seq::default());
        session.prompt(prompt("say a lot")).await.expect("a prompt is taken");
        let seen = reader.until(is_turn_over).await;
        assert!(seen.is_sorted_by(|one, two| one.seq.0 + 1 == two.seq.0), "nothing is left out");
        let over = Note::TurnOver { turn: 1, ending: TurnEnding::Completed };
        assert!(notes(&seen).contains(&over), "{:?}", notes(&seen));
        let deltas = seen.iter().filter(|entry| says("text_delta")(entry)).count();
        assert!(deltas > 100, "{deltas} deltas");
    });
    join_all(turns).await;
    assert_eq!(stage.asked().len(), 200);
    let ends = sessions.iter().map(|session| async {
        session.close().await.expect("an end");
        let mut reader = Reader::new(session, Seq::default());
        reader.until(|entry| matches!(note(entry), Some(Note::AgentGone { .. }))).await;
    });
    join_all(ends).await;
    towpath.sessions.leave().await;
    assert_eq!(stage.scene.processes(), [] as [i32; 0], "nothing is left running");
}

/// A session that is driven elsewhere is refused until it is let go of.
pub(crate) async fn one_owner() {
    let stage = Stage::playing("api text \"hello\"").await;
    let (first, second) = (stage.towpath(), stage.towpath());
    let session = first.create(&stage).await;
    let refused = second.sessions.open(session.id()).await.expect_err("it is driven already");
    assert!(matches!(refused, OpenError::Held(_)), "{refused}");
    session.leave().await;
    second.sessions.open(session.id()).await.expect("it was let go of").leave().await;
}
