//! A hundred kills at random moments: the relay, the host, the shim, the agent, and pairs of them.
//!
//! Several lanes run side by side, each with an environment and a session of its own. A client sends
//! prompts, answers every question, and connects again whenever it lost its agent. It sends a prompt
//! again that was not answered, with the same id, as a client must be able to.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::client::{AcpClient, Disconnected, text_of};
use crate::fixture::Fixture;
use crate::processes::{self, ProcessKind};

const LANES: u64 = 5;
/// More than a hundred in all: a process may be gone when its turn comes, and is not counted then.
const KILLS_PER_LANE: u64 = 25;

/// The longest time in milliseconds from a [`Moment`] to the kill.
const LONGEST_PAUSE: u64 = 60;

/// How often a prompt may lose its agent.
const MAX_ATTEMPTS: usize = 10;

const VICTIMS: [&[ProcessKind]; 7] = [
    &[ProcessKind::Relay],
    &[ProcessKind::Host],
    &[ProcessKind::Agent],
    &[ProcessKind::Relay, ProcessKind::Host],
    &[ProcessKind::Relay, ProcessKind::Agent],
    &[ProcessKind::Host, ProcessKind::Agent],
    &[ProcessKind::Host, ProcessKind::Shim],
];

/// What a client has seen when a process is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    PromptSent,
    Text,
    Question,
    Answer,
}

const MOMENTS: [Moment; 4] = [Moment::PromptSent, Moment::Text, Moment::Question, Moment::Answer];

#[derive(Default)]
struct Counts {
    kills: u64,
    processes_killed: usize,
    connections: usize,
    completed: usize,
    failed: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_answered_once_whatever_is_killed_100_times() {
    let start = std::time::Instant::now();
    let lanes = join_all((0..LANES).map(run_lane)).await;
    let sum = |count: fn(&Counts) -> usize| lanes.iter().map(count).sum::<usize>();
    let kills: u64 = lanes.iter().map(|it| it.kills).sum();
    println!(
        "{kills} kills of {} processes in {:.0} s; {} connections; {} prompts completed, {} cut; \
         0 lost, 0 doubled",
        sum(|it| it.processes_killed),
        start.elapsed().as_secs_f64(),
        sum(|it| it.connections),
        sum(|it| it.completed),
        sum(|it| it.failed),
    );
    assert!(kills >= 100, "{kills} kills");
    assert!(sum(|it| it.completed) > 0, "no prompt was completed");
}

fn prompt_text(number: u64) -> String {
    let tool = if number % 2 == 1 { " with a tool" } else { "" };
    format!("Prompt number {number}{tool}.")
}

/// A command for every second prompt, which appends its number to a file, and words for the rest.
fn replies() -> String {
    let mut replies = String::new();
    // A request has the prompts of cut turns too, before the new one, so the newest comes first here.
    // The last prompt of all is number 0.
    for number in std::iter::once(0).chain((1..=KILLS_PER_LANE).rev()) {
        let text = prompt_text(number);
        let reply = if number % 2 == 1 {
            format!(
                r#"tool Bash {{"command":"echo {number} >> $cwd/commands","description":"count"}}"#
            )
        } else {
            format!("text \"reply number {number} in some words\" slow 5")
        };
        let _ = writeln!(replies, "api for \"{text}\" always {reply}");
    }
    replies + "api text \"the command has run\" slow 5"
}

async fn run_lane(lane: u64) -> Counts {
    let fixture = Fixture::new(&replies()).await;
    let mut random = SplitMix(lane);
    let mut counts = Counts::default();
    let mut client = Some(AcpClient::start(&fixture).await);
    let session = client.as_mut().expect("a client").new_session().await;
    for number in 1..=KILLS_PER_LANE {
        let (moment, victims) = (random.choose(&MOMENTS), random.choose(&VICTIMS));
        let pause = Duration::from_millis(random.next() % LONGEST_PAUSE);
        let mut killing = Some((moment, victims, pause));
        let id = Uuid::from_u64_pair(lane + 1, number);
        let mut answered = None;
        for _ in 0..MAX_ATTEMPTS {
            let mut current = if let Some(client) = client.take() {
                client
            } else {
                counts.connections += 1;
                let Ok(client) = connect(&fixture, &session).await else { continue };
                client
            };
            let answer =
                send(&fixture, &mut current, &session, number, id, &mut killing, &mut counts).await;
            if let Ok(answer) = answer {
                answered = Some(answer);
                client = Some(current);
                break;
            }
        }
        let answer = answered.unwrap_or_else(|| panic!("no answer: {}", fixture.log()));
        match answer["result"]["stopReason"].as_str() {
            Some("end_turn") => counts.completed += 1,
            // The agent died.
            _ => counts.failed += 1,
        }
    }
    drop(client);
    check(&fixture, &session, &mut counts).await;
    counts
}

/// A new connection to the session.
async fn connect<'a>(fixture: &'a Fixture, session: &str) -> Result<AcpClient<'a>, Disconnected> {
    let mut client = AcpClient::spawn(fixture, fixture.towpath(&["acp"]));
    let id = client.initialize().await?;
    client.response(id).await?;
    let params = json!({ "sessionId": session, "cwd": fixture.project(), "mcpServers": [] });
    let id = client.request("session/load", params).await?;
    let loaded = client.response(id).await?;
    assert!(loaded["error"].is_null(), "{loaded}\n{}", fixture.log());
    Ok(client)
}

type Killing = (Moment, &'static [ProcessKind], Duration);

/// Sends a prompt, kills something at the chosen moment, and waits for the answer.
async fn send(
    fixture: &Fixture,
    client: &mut AcpClient<'_>,
    session: &str,
    number: u64,
    id: Uuid,
    killing: &mut Option<Killing>,
    counts: &mut Counts,
) -> Result<Value, Disconnected> {
    let prompt = json!([{ "type": "text", "text": prompt_text(number) }]);
    let params = json!({
        "sessionId": session,
        "prompt": prompt,
        "_meta": { "towpath": { "promptId": id } },
    });
    let request = client.request("session/prompt", params).await?;
    let mut kill_at = async |reached: &dyn Fn(Moment) -> bool| {
        let Some((_, victims, pause)) = killing.take_if(|(moment, ..)| reached(*moment)) else {
            return;
        };
        tokio::time::sleep(pause).await;
        let mut killed: usize = victims.iter().map(|it| processes::kill(fixture, *it)).sum();
        if killed == 0 {
            // The relay drives the session itself after its host was killed, and an agent that was
            // killed is started again with the next prompt. The relay may still be dying.
            killed = processes::kill(fixture, ProcessKind::Relay);
        }
        counts.processes_killed += killed;
        counts.kills += u64::from(killed > 0);
    };
    kill_at(&|it| matches!(it, Moment::PromptSent)).await;
    loop {
        let message = client.next().await?;
        if message["method"] == "session/request_permission" {
            kill_at(&|it| matches!(it, Moment::Question)).await;
            client.choose(&message, "allow_once").await?;
        } else if text_of(&message, "agent_message_chunk").is_some() {
            kill_at(&|it| matches!(it, Moment::Text)).await;
        } else if message["id"] == request && message["method"].is_null() {
            // A moment that did not come is over.
            kill_at(&|_| true).await;
            return Ok(message);
        }
    }
}

/// Checks that everything happened once.
async fn check(fixture: &Fixture, session: &str, counts: &mut Counts) {
    let mut client = connect(fixture, session).await.expect("a connection");
    let last = client.say(session, &prompt_text(0)).await;
    assert_eq!(last["result"]["stopReason"], "end_turn", "{last}");
    client.hang_up().await;
    let client = connect(fixture, session).await.expect("a connection");
    let asked = client.text("user_message_chunk");
    let said = client.text("agent_message_chunk");
    let commands = std::fs::read_to_string(fixture.path("project/commands")).unwrap_or_default();
    let started = started_prompts(fixture);
    for number in 0..=KILLS_PER_LANE {
        let text = prompt_text(number);
        let once = |what: &str, times: usize, allowed: std::ops::RangeInclusive<usize>| {
            assert!(allowed.contains(&times), "{what} {times} times: {text}\n{asked}");
        };
        once("asked", asked.matches(&text).count(), 1..=1);
        once("sent", started.iter().filter(|it| **it == text).count(), 0..=1);
        let line = number.to_string();
        once("run", commands.lines().filter(|it| **it == line).count(), 0..=1);
        once("replied", said.matches(&format!("reply number {number} in")).count(), 0..=1);
    }
    counts.connections += 2;
    client.hang_up().await;
    fixture.records.check();
}

/// The prompt that each request to the model starts a turn with.
fn started_prompts(fixture: &Fixture) -> Vec<String> {
    let texts: Vec<String> = (0..=KILLS_PER_LANE).map(prompt_text).collect();
    let newest = |message: String| {
        // Behind the result of a tool, a request continues its turn. Prompts whose turns were cut are
        // in the same message, before the new one.
        let new = message.rfind("tool_result").map_or(message.as_str(), |at| &message[at..]);
        let found = texts.iter().filter_map(|text| Some((new.rfind(text.as_str())?, text))).max();
        found.map(|(_, text)| text.clone())
    };
    fixture.newest_messages().into_iter().filter_map(newest).collect()
}

/// A random number generator whose numbers are the same in every run.
struct SplitMix(u64);

impl SplitMix {
    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.next()).unwrap_or(0) % from.len()]
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
