//! Taps that arrive together, after an outage or a restart: the first one counts.

use test_support::bot_api::{BotApiChatId, BotApiNetwork};

use crate::fixture::{ANN, BOB, BridgeProcess, Fixture};
use crate::texts::{ACCEPT_EDITS, ALLOW, DENY, KEEP_PLANNING};

/// A command that needs permission, and the text after it.
const TOUCH: &str = "api tool Bash {\"command\":\"echo x >> done\",\"description\":\"make a file\"}\n\
                     api text \"So be it.\"";

/// Has two users tap in this order, and then lets the bridge have both taps at once: after an outage,
/// or after a restart.
async fn do_both(fixture: &Fixture, group: BotApiChatId, restart: bool, both: [&str; 2]) {
    let bridge = fixture.start_bridge().await;
    tap_both(fixture, group, bridge, restart, both).await;
}

async fn tap_both(
    fixture: &Fixture,
    group: BotApiChatId,
    bridge: BridgeProcess,
    restart: bool,
    both: [&str; 2],
) {
    fixture.telegram.user_sends(group, ANN, "make it");
    let first = both[0];
    let card = fixture.wait_for_button(group, first).await;
    fixture.wait_until_stored(card).await;
    let mut bridge = Some(bridge);
    if restart {
        bridge.take().expect("a bridge").kill().await;
    } else {
        fixture.telegram.set_network(BotApiNetwork::Reset);
    }
    for (user, label) in [BOB, ANN].into_iter().zip(both) {
        fixture.tap_without_waiting(group, user, label).await;
    }
    assert_eq!(fixture.telegram.pending_updates(), 2, "both arrive in one batch");
    let _bridge = match bridge {
        Some(bridge) => {
            fixture.telegram.set_network(BotApiNetwork::Up);
            bridge
        }
        None => fixture.start_bridge().await,
    };
    fixture.wait_for_text(group, "So be it.").await;
    fixture.wait_for_text(group, "Bob").await;
    fixture.assert_correct();
}

async fn made_by(restart: bool, both: [&str; 2]) -> String {
    let fixture = Fixture::new(TOUCH).await;
    let group = fixture.telegram.create_group(&[ANN, BOB]);
    do_both(&fixture, group, restart, both).await;
    std::fs::read_to_string(fixture.path("project/done")).unwrap_or_default()
}

#[tokio::test]
async fn the_first_of_two_taps_decides_after_an_outage() {
    let both = [DENY, ALLOW];
    assert_eq!(made_by(false, both).await, "", "Bob denied it first");
    let both = [ALLOW, DENY];
    assert_eq!(made_by(false, both).await, "x\n", "Bob allowed it first");
}

#[tokio::test]
async fn the_first_of_two_taps_decides_after_a_restart() {
    let both = [DENY, ALLOW];
    assert_eq!(made_by(true, both).await, "", "Bob denied it first");
    let both = [ALLOW, DENY];
    assert_eq!(made_by(true, both).await, "x\n", "Bob allowed it first");
}

#[tokio::test]
async fn the_first_of_two_answers_to_a_question_counts() {
    let question = "{\"questions\":[{\"question\":\"Which colour?\",\"header\":\"Colour\",\"multiSelect\":false,\
        \"options\":[{\"label\":\"Red\",\"description\":\"warm\"},{\"label\":\"Blue\",\"description\":\"cold\"}]}]}";
    for restart in [false, true] {
        let replies = format!("api tool AskUserQuestion {question}\napi text \"So be it.\"");
        let fixture = Fixture::new(&replies).await;
        let group = fixture.telegram.create_group(&[ANN, BOB]);
        let both = ["Blue", "Red"];
        do_both(&fixture, group, restart, both).await;
        let requests = fixture.model_requests();
        let answer = |colour: &str| {
            let said = format!("\\\"Which colour?\\\"=\\\"{colour}\\\"");
            requests.iter().any(|it| it.contains(&said))
        };
        assert!(answer("Blue") && !answer("Red"), "restart: {restart}: {requests:?}");
    }
}

#[tokio::test]
async fn the_first_of_two_decisions_about_a_plan_counts() {
    for restart in [false, true] {
        let replies = "api tool ExitPlanMode {\"plan\":\"1. Look around\"}\napi text \"So be it.\"";
        let fixture = Fixture::new(replies).await;
        let group = fixture.telegram.create_group(&[ANN, BOB]);
        let both = [KEEP_PLANNING, ACCEPT_EDITS];
        let bridge = fixture.start_bridge().await;
        // In other modes the agent is not asked about a plan.
        fixture.wait_for_reply(group, ANN, "/new").await;
        fixture.wait_for_reply(group, ANN, "/mode plan").await;
        tap_both(&fixture, group, bridge, restart, both).await;
        let requests = fixture.model_requests();
        assert!(requests.iter().any(|it| it.contains("Keep planning")), "{requests:?}");
    }
}

#[tokio::test]
async fn a_stop_before_a_tap_counts() {
    for restart in [false, true] {
        let fixture = Fixture::new(TOUCH).await;
        let group = fixture.telegram.create_group(&[ANN, BOB]);
        let bridge = fixture.start_bridge().await;
        fixture.telegram.user_sends(group, ANN, "make it");
        let card = fixture.wait_for_button(group, ALLOW).await;
        fixture.wait_until_stored(card).await;
        let mut bridge = Some(bridge);
        if restart {
            bridge.take().expect("a bridge").kill().await;
        } else {
            fixture.telegram.set_network(BotApiNetwork::Reset);
        }
        fixture.telegram.user_sends(group, BOB, "/stop");
        let tap = fixture.tap_without_waiting(group, ANN, ALLOW).await;
        let _bridge = match bridge {
            Some(bridge) => {
                fixture.telegram.set_network(BotApiNetwork::Up);
                bridge
            }
            None => fixture.start_bridge().await,
        };
        fixture.notification(&tap).await;
        fixture.wait_for_no_button(group, ALLOW).await;
        assert!(!fixture.path("project/done").exists(), "restart: {restart}");
        assert_eq!(fixture.count_texts(group, "So be it."), 0);
        fixture.assert_correct();
    }
}
