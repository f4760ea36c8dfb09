//! A fleet around a test: a NATS server and workers with the environment's project, for gateways of any kind.

use std::path::{Path, PathBuf};

use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;

use crate::environment::{ServerProcess, TestEnvironment};

/// A server and workers. Their agents end with it.
pub(crate) struct FleetEnvironment<'a> {
    environment: &'a TestEnvironment,
    /// The address of the server.
    pub(crate) nats: String,
    /// Each with its data directory.
    pub(crate) workers: Vec<(PathBuf, ServerProcess)>,
    _servers: NatsServers,
}

impl<'a> FleetEnvironment<'a> {
    /// Starts workers with these names, each with its root; none if a NATS server cannot be installed.
    pub(crate) async fn start(
        environment: &'a TestEnvironment,
        workers: &[(&str, &Path)],
    ) -> Option<Self> {
        let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let program = packages::or_skip(program)?;
        let servers = NatsServers::start(&program, &NatsServerOptions::single());
        let nats = servers.addresses()[0].clone();
        let init = ["fleet", "init", "--single", "--nats", &nats];
        let created = environment.program(&init).output().expect("it starts");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        let mut this = Self { environment, nats, workers: Vec::new(), _servers: servers };
        for (name, root) in workers {
            this.start_worker(name, root).await;
        }
        Some(this)
    }

    async fn start_worker(&mut self, name: &str, root: &Path) {
        let data = self.environment.path(&format!("data-{name}"));
        let [agent, root, directory] =
            [&self.environment.path("agent"), root, &data].map(|it| it.display().to_string());
        let command = self.environment.program(&[
            "worker", "--nats", &self.nats, "--name", name, "--slots", "2", "--claude", &agent,
            "--root", &root, "--data", &directory, "--json",
        ]);
        let process = self.environment.spawn(command).await;
        self.workers.push((data, process));
    }

    /// The arguments of a gateway with a name and a data directory of its own.
    pub(crate) fn gateway_arguments(&self, name: &str) -> Vec<String> {
        let data = self.environment.path(name).display().to_string();
        let arguments = ["--nats", &self.nats, "--gateway-name", name, "--data", &data];
        arguments.map(str::to_owned).to_vec()
    }
}

impl Drop for FleetEnvironment<'_> {
    fn drop(&mut self) {
        for (data, process) in &mut self.workers {
            let _ = process.child.start_kill();
            let data = data.display().to_string();
            // The first may only find the worker that is being killed; the second finds the agents it left.
            for _ in 0..2 {
                let _ = self.environment.program(&["serve", "--stop", "--data", &data]).output();
            }
        }
    }
}
