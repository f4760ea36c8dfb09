//! A fleet that `towpath fleet dev` starts: three servers, a worker with an agent that streams numbered
//! words, and a gateway.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::cache::BenchCache;
use crate::followers::AnyError;
use crate::followers::server::TowpathServer;
use crate::measure::{BenchServer, cpu_of_process, memory_field};

/// Where tests keep packages, below the cache directory of the user.
const TEST_PACKAGES: &str = "towpath/test-packages";

/// A running fleet. It is ended when this is dropped.
pub(super) struct DevFleet {
    directory: PathBuf,
    pub(super) gateway: TowpathServer,
    /// Addresses of the servers, with a password.
    pub(super) nats: Vec<String>,
    gateway_process: u32,
    server_processes: Vec<u32>,
}

/// CPU time in seconds and memory in kilobytes, of the gateway and of all servers together.
#[derive(Clone, Copy, Debug)]
pub(super) struct FleetUsage {
    pub(super) gateway_cpu: f64,
    pub(super) servers_cpu: f64,
    pub(super) gateway_memory: f64,
    pub(super) servers_memory: f64,
}

impl DevFleet {
    pub(super) fn start(cache: &BenchCache, nats_server: &Path) -> Result<Self, AnyError> {
        let directory = cache.path("fleet");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        for name in ["data", "project", "home"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let mut command = Command::new(cache.program("towpath"));
        command.args(["fleet", "dev", "--servers", "3", "--workers", "1", "--slots", "10"]);
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        command.arg("--claude").arg(cache.program("towpath-bench-agent"));
        command.arg("--nats-server").arg(nats_server);
        command.arg("--data").arg(directory.join("data"));
        command.arg("--root").arg(directory.join("project"));
        let home = directory.join("home");
        command.env("HOME", &home).env("TMPDIR", &home).env("XDG_RUNTIME_DIR", &home);
        let process = BenchServer::start(&mut command)?;
        let ready: Value = serde_json::from_str(&process.ready_line)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let nats = ready["nats"].as_array().into_iter().flatten().map(text).collect();
        let gateway_process = ready["pid"].as_u64().and_then(|it| u32::try_from(it).ok());
        let server_processes = children(process.id(), "nats-server")?;
        let token = text(&ready["token"]);
        Ok(Self {
            directory,
            nats,
            gateway_process: gateway_process.ok_or("the fleet does not say its gateway")?,
            server_processes,
            gateway: TowpathServer::new(process, token),
        })
    }

    /// The directory in which sessions work.
    pub(super) fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    pub(super) fn usage(&self) -> io::Result<FleetUsage> {
        let memory = |process: u32| Ok(memory_field(process, "VmRSS:")?.map_or(0.0, f64::from));
        let cpu = |process: u32| Ok(cpu_of_process(process)?.as_secs_f64());
        let servers = || self.server_processes.iter().copied();
        Ok(FleetUsage {
            gateway_cpu: cpu(self.gateway_process)?,
            servers_cpu: servers().map(cpu).sum::<io::Result<f64>>()?,
            gateway_memory: memory(self.gateway_process)?,
            servers_memory: servers().map(memory).sum::<io::Result<f64>>()?,
        })
    }
}

impl Drop for DevFleet {
    fn drop(&mut self) {
        let _ = self.gateway.process.terminate();
        // The next run removes what is left.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The processes that a process has started, by the name of their program.
fn children(parent: u32, program: &str) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(process) = name.to_str().and_then(|it| it.parse().ok()) else { continue };
        // It may have ended.
        let Ok(status) = fs::read_to_string(format!("/proc/{process}/status")) else { continue };
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let is_child = field("PPid:").is_some_and(|it| it.trim().parse() == Ok(parent));
        if is_child && field("Name:").is_some_and(|it| it.trim() == program) {
            found.push(process);
        }
    }
    Ok(found)
}

/// The NATS server that the environment names, that is installed, or that the tests have installed. The error
/// says why there is none.
pub(super) fn find_nats_server() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("TOWPATH_NATS_SERVER") {
        return Ok(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|it| it.join("nats-server"));
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home);
    let packages = cache.map(|it| it.join(TEST_PACKAGES)).and_then(|it| fs::read_dir(it).ok());
    let packages = packages.into_iter().flatten().flatten().map(|it| it.path());
    let is_package = |it: &PathBuf| {
        it.file_name().is_some_and(|it| it.to_string_lossy().starts_with("nats-server-"))
    };
    let of_tests = packages.filter(is_package).map(|it| it.join("bin/nats-server"));
    let found = installed.chain(of_tests).find(|program| program.is_file());
    found.ok_or_else(|| {
        "no `nats-server` in PATH or TOWPATH_NATS_SERVER, and the tests have installed none"
            .to_owned()
    })
}
