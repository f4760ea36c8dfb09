//! Sessions that a session host drives: the built binary as the host, and clients that go away.

mod kills;
mod processes;
mod random_kills;
mod server;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use journal::{Journal, SessionId};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use session::host::HostLock;
use session::{Sessions, SessionsConfig};

use crate::fixture::{DrivingFixture, TIMEOUT, TestSetup, TowpathInstance, wait_until};
use crate::kills::{KillPoint, begin};

pub(crate) use kills::{HostedVictim, check};
pub(crate) use processes::{
    check_detachment, check_exit, check_one_host, check_other_user, run_other_user,
};
pub(crate) use random_kills::check_random_kills;
pub(crate) use server::{check_commands, check_server, check_server_in_mid_turn};

/// A fixture whose background host is killed with it.
pub(crate) struct HostedFixture {
    pub(crate) driving: DrivingFixture,
}

impl HostedFixture {
    async fn new(replies: &str) -> Self {
        Self { driving: DrivingFixture::with_player(replies).await }
    }

    fn setup(&self) -> &TestSetup {
        &self.driving.setup
    }

    /// A client that may go away.
    fn client(&self) -> TowpathInstance {
        client(self.setup())
    }

    /// The process that is the session host.
    fn host(&self) -> Option<Pid> {
        to_pid(HostLock::holder(&self.setup().data())??)
    }

    fn kill_host(&self) -> Pid {
        let host = self.host().expect("a host");
        kill_process(host, Signal::KILL).expect("a kill");
        host
    }

    /// The process that drives a session.
    fn owner(&self, id: SessionId) -> Option<Pid> {
        let lock = self.setup().config().live_directory(id).join("lock");
        to_pid(std::fs::read_to_string(lock).ok()?.trim().parse().ok()?)
    }

    async fn wait_for_owner(&self, id: SessionId, owner: Pid) {
        wait_until("the session has its owner", || self.owner(id) == Some(owner)).await;
    }
}

impl Drop for HostedFixture {
    fn drop(&mut self) {
        if let Some(host) = self.host().filter(|host| *host != rustix::process::getpid()) {
            let _ = kill_process(host, Signal::KILL);
        }
    }
}

fn to_pid(number: u32) -> Option<Pid> {
    Pid::from_raw(number.cast_signed())
}

fn client(setup: &TestSetup) -> TowpathInstance {
    let opening = Journal::open(&SessionsConfig::journal_path(&setup.data())).expect("a journal");
    TowpathInstance { sessions: Sessions::hosted(setup.config(), opening.journal) }
}

/// What a client in another process needs.
#[derive(Serialize, Deserialize)]
struct ClientPlan {
    setup: TestSetup,
    point: KillPoint,
    session: SessionId,
}

const PLAN_VARIABLE: &str = "TOWPATH_TEST_CLIENT";

/// A client in another process. It has created a session and reached a point of its first turn.
struct ClientProcess {
    child: Child,
}

impl ClientProcess {
    #[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
    async fn start(fixture: &HostedFixture, point: KillPoint, session: SessionId) -> Self {
        let plan = ClientPlan { setup: fixture.setup().clone(), point, session };
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "the_client_that_is_killed", "--ignored", "--nocapture"])
            .env(PLAN_VARIABLE, serde_json::to_string(&plan).expect("a plan"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program once more");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let reached = tokio::task::spawn_blocking(move || {
            lines.any(|line| line.is_ok_and(|line| line.contains("REACHED")))
        });
        let reached = tokio::time::timeout(TIMEOUT, reached).await;
        assert!(reached.is_ok_and(|it| it.unwrap_or(false)), "the point did not come");
        Self { child }
    }

    fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other process: a client that starts a turn and waits to be killed.
pub(crate) async fn run_client() {
    #[expect(clippy::disallowed_methods, reason = "set by the test that starts this process")]
    let plan = std::env::var(PLAN_VARIABLE).expect("only another test starts this one");
    let ClientPlan { setup, point, session } = serde_json::from_str(&plan).expect("a plan");
    let towpath = client(&setup);
    let session = begin(&setup, &towpath.sessions, point, Some(session)).await;
    assert!(towpath.sessions.is_remote(session.id()), "the host drives the session");
    point.comes(&setup, &session).await;
    println!("REACHED");
    std::future::pending::<()>().await;
}

/// Waits until a process is gone.
async fn wait_for_end(process: Pid) {
    wait_until("the process is gone", || rustix::process::test_kill_process(process).is_err())
        .await;
}

/// Longer than a host stays without anything to do.
const LINGER: Duration = Duration::from_secs(10);
