//! Two hundred kills at random moments: Towpath, the shim, the agent, and pairs of them.
//!
//! Several lanes run side by side. Each has a session, a scripted API and a Towpath of its own, which
//! is started again whenever it was killed. Every second prompt makes the agent ask for permission
//! to run a command that leaves a trace.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use journal::{Entry, Journal, Seq, SessionId};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use session::{NewPrompt, RequestAnswer, Session, SessionOptions, SessionSpec};
use uuid::Uuid;
use wire::note::{Note, PromptState, TurnEnding};

use crate::fixture::{
    DrivingFixture, JournalReader, TIMEOUT, TestSetup, TowpathInstance, agent_line, ann,
    format_entries, is_turn_over, note, notes, prompt, wait_until,
};
use crate::silent_shims::recorded_process;

const LANES: u64 = 8;
const KILLS_PER_LANE: u64 = 25;

/// The longest time in milliseconds from a [`KillMoment`] to the kill.
pub(crate) const LONGEST_PAUSE: u64 = 300;

/// The prompt that is sent after the last kill.
pub(crate) const LAST_PROMPT: &str = "The last prompt.";

/// How long a moment is waited for. It may never come: after a kill, the agent may have no turn to
/// run.
const MOMENT_TIMEOUT: Duration = Duration::from_secs(10);

const PLAN_VARIABLE: &str = "TOWPATH_TEST_RANDOM_KILLS";

/// How long the whole test may take on a loaded machine.
pub(crate) const SETTLE_TIMEOUT: Duration = Duration::from_mins(3);

/// A process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Towpath,
    Shim,
    Agent,
}

pub(crate) const VICTIMS: [&[Victim]; 6] = [
    &[Victim::Towpath],
    &[Victim::Shim],
    &[Victim::Agent],
    &[Victim::Towpath, Victim::Shim],
    &[Victim::Towpath, Victim::Agent],
    &[Victim::Shim, Victim::Agent],
];

/// After what a process is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KillMoment {
    Queued,
    AgentStarted,
    PromptWritten,
    Streaming,
    Asked,
    TurnEnded,
}

pub(crate) const MOMENTS: [KillMoment; 6] = [
    KillMoment::Queued,
    KillMoment::AgentStarted,
    KillMoment::PromptWritten,
    KillMoment::Streaming,
    KillMoment::Asked,
    KillMoment::TurnEnded,
];

impl KillMoment {
    fn is_reached(self, entry: &Entry) -> bool {
        match self {
            Self::Streaming => agent_line("stream_event")(entry),
            Self::Queued => matches!(note(entry), Some(Note::PromptQueued { .. })),
            Self::AgentStarted => matches!(note(entry), Some(Note::AgentStarted { .. })),
            Self::PromptWritten => matches!(
                note(entry),
                Some(Note::PromptStateChanged { state: PromptState::Written, .. })
            ),
            Self::Asked => matches!(note(entry), Some(Note::RequestOpened { .. })),
            Self::TurnEnded => is_turn_over(entry),
        }
    }

    /// Waits for the moment in the journal of a session, which another process writes.
    pub(crate) async fn wait(self, journal: &Journal, session: SessionId, after: Seq) {
        let mut follower = journal.follow(session, after);
        let coming = async {
            loop {
                let entries = follower.next().await.expect("a journal to follow");
                if entries.iter().any(|entry| self.is_reached(entry)) {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(MOMENT_TIMEOUT, coming).await;
    }
}

/// What a lane's Towpath needs.
#[derive(Serialize, Deserialize)]
struct LanePlan {
    setup: TestSetup,
    session: SessionId,
}

/// What happened in a lane.
#[derive(Default)]
pub(crate) struct KillCounts {
    pub(crate) kills: u64,
    pub(crate) processes_killed: u64,
    prompts: usize,
    acknowledged: usize,
    completed: usize,
    cut: usize,
    requests: usize,
    commands_run: usize,
}

pub(crate) async fn check(agent: &[OsString]) {
    let lanes = join_all((0..LANES).map(|lane| run_lane(agent.to_vec(), lane))).await;
    report(&lanes, LANES * KILLS_PER_LANE);
}

/// Prints what happened in all lanes, and checks that it was enough.
pub(crate) fn report(lanes: &[KillCounts], expected: u64) {
    let sum = |count: fn(&KillCounts) -> usize| lanes.iter().map(count).sum::<usize>();
    let kills: u64 = lanes.iter().map(|lane| lane.kills).sum();
    println!(
        "{kills} kills of {} processes; {} prompts, {} acknowledged, 0 lost, 0 doubled: {} \
         completed, {} cut; {} requests, each resolved once; {} commands, none run twice",
        lanes.iter().map(|lane| lane.processes_killed).sum::<u64>(),
        sum(|lane| lane.prompts),
        sum(|lane| lane.acknowledged),
        sum(|lane| lane.completed),
        sum(|lane| lane.cut),
        sum(|lane| lane.requests),
        sum(|lane| lane.commands_run),
    );
    assert_eq!(kills, expected);
    assert!(sum(|lane| lane.requests) > 0, "no permission was asked for");
    assert!(sum(|lane| lane.completed) > 0, "no turn was completed");
}

pub(crate) fn prompt_text(number: u64) -> String {
    let tool = if number % 2 == 1 { " with a tool" } else { "" };
    format!("Prompt number {number}{tool}.")
}

/// The replies of the model: a command for every second prompt, which appends the prompt's number to
/// a file, and words for everything else.
pub(crate) fn replies(prompts: u64) -> String {
    let mut replies = String::new();
    for number in (1..=prompts).step_by(2) {
        let text = prompt_text(number);
        let _ = writeln!(
            replies,
            "api tool Bash {{\"command\":\"echo {number} >> $cwd/commands\",\
             \"description\":\"count\"}} for \"{text}\" always"
        );
    }
    replies + "api text \"an answer of some words\" slow 5"
}

async fn run_lane(agent: Vec<OsString>, lane: u64) -> KillCounts {
    let mut fixture = DrivingFixture::new(agent, &replies(KILLS_PER_LANE)).await;
    fixture.setup.idle = Duration::from_mins(5);
    let session = SessionId(Uuid::new_v4());
    let spec = SessionSpec {
        id: Some(session),
        options: SessionOptions { directory: fixture.project(), ..SessionOptions::default() },
        ..SessionSpec::default()
    };
    let observer = fixture.towpath();
    observer.sessions.create(spec).await.expect("a session").release().await;
    let plan = LanePlan { setup: fixture.setup.clone(), session };
    let plan = serde_json::to_string(&plan).expect("a plan");
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let mut random = SplitMix(lane);
    let mut counts = KillCounts::default();
    let mut towpath: Option<KillableTowpath> = None;
    for number in 1..=KILLS_PER_LANE {
        let current =
            towpath.get_or_insert_with(|| KillableTowpath::start(&plan, Arc::clone(&acknowledged)));
        let entries = observer.journal_of(session).await;
        let last = entries.last().map(|entry| entry.seq).unwrap_or_default();
        current.send_prompt(number);
        let moment = random.choose(&MOMENTS);
        moment.wait(observer.sessions.journal(), session, last).await;
        tokio::time::sleep(Duration::from_millis(random.next() % LONGEST_PAUSE)).await;
        let victims = random.choose(&VICTIMS);
        let mut killed = 0;
        for victim in victims.iter().copied() {
            killed += match victim {
                Victim::Towpath => {
                    towpath.take().expect("a Towpath").kill();
                    1
                }
                Victim::Shim | Victim::Agent => {
                    u64::from(kill_recorded(&fixture.setup, session, victim))
                }
            };
        }
        if killed == 0 {
            // No agent runs at the moment. After three exits in a row, none is started until the
            // next prompt; Towpath runs in any case.
            towpath.take().expect("a Towpath").kill();
            killed = 1;
        }
        counts.processes_killed += killed;
        counts.kills += 1;
    }
    if let Some(towpath) = towpath {
        towpath.kill();
    }
    let acknowledged = acknowledged.lock().expect("a lock").clone();
    settle(&fixture, session, &acknowledged, &mut counts).await;
    counts
}

/// Kills the shim or the agent of a session. Returns whether it ran.
pub(crate) fn kill_recorded(setup: &TestSetup, session: SessionId, victim: Victim) -> bool {
    let name = if victim == Victim::Shim { "shim" } else { "agent" };
    let Some(pid) = recorded_process(setup, session, name) else { return false };
    // Another process may have its id by now.
    let read = |file: &str| std::fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero()));
    let is_ours = match victim {
        Victim::Shim => {
            let command = read("cmdline").unwrap_or_default();
            let is_shim = command.split(|byte| *byte == 0).any(|word| word == b"__shim");
            is_shim && session::shim::is_running(&setup.config().live_directory(session))
        }
        _ => setup.processes().contains(&pid.as_raw_nonzero().get()) && !is_zombie(pid),
    };
    is_ours && kill_process(pid, Signal::KILL).is_ok()
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" Z")))
}

/// Lets everything that waits happen, and checks that each thing happened once.
async fn settle(
    fixture: &DrivingFixture,
    id: SessionId,
    acknowledged: &[u64],
    counts: &mut KillCounts,
) {
    let towpath = fixture.towpath();
    let session = towpath.sessions.open(id).await.expect("a session");
    let answering = tokio::spawn(answer_requests(session.clone()));
    session.prompt(prompt(LAST_PROMPT)).await.expect("a queued prompt");
    let journal = towpath.sessions.journal();
    let settled = async {
        let mut reader = JournalReader::new(&session, Seq::default());
        while !journal.open_prompts(id).await.expect("prompts").is_empty() {
            reader.until(is_turn_over).await;
        }
    };
    let came = tokio::time::timeout(SETTLE_TIMEOUT, settled).await.is_ok();
    let entries = towpath.journal_of(id).await;
    assert!(came, "it does not settle:\n{}", format_entries(&entries));
    answering.abort();
    check_outcome(fixture, &towpath, id, KILLS_PER_LANE, acknowledged, counts).await;
    towpath.sessions.stop().await.expect("a journal");
    wait_until("nothing is left", || fixture.setup.processes().is_empty()).await;
    assert!(!session::shim::is_running(&fixture.setup.config().live_directory(id)));
}

/// Checks a session in which everything has happened: each thing once. `asked` is how many prompts
/// were sent before the last one.
pub(crate) async fn check_outcome(
    fixture: &DrivingFixture,
    towpath: &TowpathInstance,
    id: SessionId,
    asked: u64,
    acknowledged: &[u64],
    counts: &mut KillCounts,
) {
    let journal = towpath.sessions.journal();
    let entries = towpath.journal_of(id).await;
    let all = notes(&entries);
    let prompts = journal.prompts(id).await.expect("prompts");
    for number in acknowledged {
        let known = prompts.iter().any(|it| it.id == prompt_id(*number));
        assert!(known, "prompt {number} was acknowledged and forgotten");
    }
    let commands = std::fs::read_to_string(fixture.project().join("commands")).unwrap_or_default();
    let started = started_turns(fixture, asked);
    for prompt in &prompts {
        let text = &prompt.text;
        let completed = all.iter().any(|note| {
            matches!(note, Note::TurnEnded { turn, ending: TurnEnding::Completed }
                if prompt.turn == Some(*turn))
        }) && prompt.state == PromptState::Done;
        let times = started.get(text).copied().unwrap_or(0);
        let allowed = if completed { 1..=1 } else { 0..=1 };
        let context = || format!("{text} {:?}\n{}", prompt.state, format_entries(&entries));
        assert!(prompt.state.is_final(), "{}", context());
        assert!(allowed.contains(&times), "{times} times: {}", context());
        let number = (1..=asked).find(|number| prompt.id == prompt_id(*number));
        if let Some(number) = number.filter(|number| number % 2 == 1) {
            let line = number.to_string();
            let runs = commands.lines().filter(|it| **it == line).count();
            assert!(allowed.contains(&runs), "its command ran {runs} times: {}", context());
            counts.commands_run += runs;
        }
        if completed {
            counts.completed += 1;
        } else {
            counts.cut += 1;
        }
    }
    let opened = all.iter().filter_map(|note| match note {
        Note::RequestOpened { request, .. } => Some(request),
        _ => None,
    });
    for request in opened {
        let resolved = |note: &&Note| matches!(note, Note::RequestResolved { request: it, .. } if it == request);
        let times = all.iter().filter(resolved).count();
        assert_eq!(times, 1, "request {request}:\n{}", format_entries(&entries));
        counts.requests += 1;
    }
    counts.prompts = prompts.len();
    counts.acknowledged = acknowledged.len();
}

/// How often a turn was started with each prompt, as the model saw it. No request has a prompt twice.
fn started_turns(fixture: &DrivingFixture, asked: u64) -> BTreeMap<String, usize> {
    let mut started = BTreeMap::new();
    let last = LAST_PROMPT.to_owned();
    let texts: Vec<String> = (1..=asked).map(prompt_text).chain([last]).collect();
    for request in fixture.model_requests() {
        for text in &texts {
            assert!(request.matches(text.as_str()).count() <= 1, "{text} is doubled: {request}");
        }
        let messages: Vec<serde_json::Value> = serde_json::from_str(&request).expect("messages");
        // Behind it there may be messages of the CLI itself.
        let latest = messages.iter().rfind(|message| message["role"] == "user");
        let latest = latest.expect("a message of the user").to_string();
        // Behind the result of a tool, a request continues its turn.
        let new = latest.rfind("tool_result").map_or(latest.as_str(), |at| &latest[at..]);
        let found = texts.iter().filter_map(|text| Some((new.rfind(text.as_str())?, text))).max();
        if let Some((_, text)) = found {
            *started.entry(text.clone()).or_default() += 1;
        }
    }
    started
}

pub(crate) fn prompt_id(number: u64) -> Uuid {
    Uuid::from_u128(number.into())
}

/// The process that is killed: a Towpath that drives the session of a lane.
struct KillableTowpath {
    child: Child,
    stdin: ChildStdin,
    reader: std::thread::JoinHandle<()>,
}

impl KillableTowpath {
    #[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
    fn start(plan: &str, acknowledged: Arc<Mutex<Vec<u64>>>) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_towpath_that_is_killed_at_random", "--ignored", "--nocapture"])
            .env(PLAN_VARIABLE, plan)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program once more");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let reader = std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let number = line.strip_prefix("QUEUED ");
                let number: Option<u64> = number.and_then(|number| number.parse().ok());
                acknowledged.lock().expect("a lock").extend(number);
            }
        });
        Self { stdin: child.stdin.take().expect("a pipe"), child, reader }
    }

    fn send_prompt(&mut self, number: u64) {
        writeln!(self.stdin, "{number}").expect("a Towpath that reads");
    }

    fn kill(mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
        self.reader.join().expect("what was acknowledged");
    }
}

/// The other process: queues the prompts that it is told to and allows every request, until it is
/// killed.
pub(crate) async fn run_until_killed() {
    #[expect(clippy::disallowed_methods, reason = "set by the test that starts this process")]
    let plan = std::env::var(PLAN_VARIABLE).expect("only another test starts this one");
    let plan: LanePlan = serde_json::from_str(&plan).expect("a plan");
    let towpath = plan.setup.towpath();
    let session = towpath.sessions.open(plan.session).await.expect("a session to take over");
    tokio::spawn(answer_requests(session.clone()));
    let (sender, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut lines = std::io::stdin().lines().map_while(Result::ok);
        while lines.next().is_some_and(|line| sender.send(line).is_ok()) {}
    });
    while let Some(line) = lines.recv().await {
        let number: u64 = line.parse().expect("a number");
        let new = NewPrompt { id: prompt_id(number), ..prompt(&prompt_text(number)) };
        session.prompt(new).await.expect("a queued prompt");
        println!("QUEUED {number}");
    }
}

/// Allows every request of the agent.
async fn answer_requests(session: Session) {
    let mut follower = session.follow(Seq::default());
    loop {
        let open = session.journal().open_requests(Some(session.id())).await.expect("requests");
        for (_, request) in open {
            let allow = RequestAnswer::Allow { input: None, remember: None, mode: None };
            // The agent may have died with it.
            let _ = session.answer(&request.id, allow, ann()).await;
        }
        if tokio::time::timeout(TIMEOUT, follower.next()).await.is_ok_and(|it| it.is_err()) {
            return;
        }
    }
}

/// A random number generator whose numbers are the same in every run.
pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.next()).unwrap_or(0) % from.len()]
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
