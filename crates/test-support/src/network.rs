//! Machines with cables between them, which a test can cut: network namespaces, connected by bridges.
//!
//! A test with such machines runs in a namespace of its own ([`run_alone`]), so its names and addresses
//! cannot meet those of the machine or of other tests. A namespace exists as long as a process is in it.
//! The process that holds one reads from a pipe, so it ends with the test however that ends, and there is
//! nothing to clean up.

#![expect(clippy::disallowed_methods, reason = "namespaces are made by programs of the system")]
#![expect(clippy::print_stdout, reason = "a test repeats what its process printed")]

use std::cell::Cell;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::packages;

/// Says why there can be no machines here, if that is so.
pub fn check_available() -> Result<(), String> {
    // Everything ends with the shell.
    let script = "ip link add name bridge0 type bridge && \
                  ip link add name cable0 type veth peer name cable1 && \
                  nsenter --net=/proc/$$/ns/net true";
    let tried = packages::run(Command::new("unshare").args(["-n", "--", "sh", "-c", script]));
    tried.map_err(|why| format!("no network namespaces can be made here: {why}"))
}

/// Runs an ignored test of this program without a network except loopback.
///
/// # Panics
///
/// If it fails.
pub fn run_alone(test: &str) {
    let itself = std::env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.args(["-n", "--", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]).arg(itself);
    command.args(["--exact", test, "--ignored", "--nocapture"]).stdin(Stdio::null());
    let output = command.output().expect("this program once more");
    // The lines of the test harness would be counted as those of one more test.
    let is_own = |line: &&str| {
        !line.is_empty() && !line.starts_with("test ") && !line.starts_with("running ")
    };
    for text in [&output.stdout, &output.stderr] {
        String::from_utf8_lossy(text).lines().filter(is_own).for_each(|line| println!("{line}"));
    }
    assert!(output.status.success(), "`{test}` failed");
}

/// A machine: a namespace, or the one in which the test runs.
#[derive(Debug)]
pub struct NetworkMachine {
    holder: Option<Child>,
}

impl NetworkMachine {
    /// The machine on which the test itself runs.
    pub fn of_this_test() -> Self {
        Self { holder: None }
    }

    /// Another machine.
    ///
    /// # Panics
    ///
    /// If there is none to be had.
    pub fn start() -> Self {
        let script = "ip link set lo up && echo ready && exec cat";
        let mut holder = Command::new("unshare")
            .args(["-n", "--", "sh", "-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut line = String::new();
        let stdout = holder.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n", "no network namespace");
        Self { holder: Some(holder) }
    }

    /// The namespace, unless it is the one of the test.
    pub fn namespace(&self) -> Option<PathBuf> {
        let holder = self.holder.as_ref()?;
        Some(PathBuf::from(format!("/proc/{}/ns/net", holder.id())))
    }
}

impl Drop for NetworkMachine {
    fn drop(&mut self) {
        if let Some(holder) = &mut self.holder {
            let _ = holder.kill();
            let _ = holder.wait();
        }
    }
}

/// A command that does the same in a network namespace. `nsenter` becomes the program, so the id of the process is
/// the program's.
pub fn in_namespace(namespace: &Path, command: &Command) -> Command {
    let mut inside = Command::new("nsenter");
    inside.arg(format!("--net={}", namespace.display())).arg("--");
    inside.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inside.env(name, value),
            None => inside.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        inside.current_dir(directory);
    }
    inside
}

/// A network with the addresses `10.NUMBER.0.1` and so on.
#[derive(Debug)]
pub struct Network {
    number: u8,
    /// How many machines are connected to it.
    machines: Cell<u8>,
}

/// The cable between a machine and a network.
#[derive(Debug)]
pub struct Cable {
    /// The address of the machine in the network.
    pub address: Ipv4Addr,
    /// The end at the network.
    port: String,
}

impl Network {
    /// A network without machines.
    ///
    /// # Panics
    ///
    /// If it cannot be made, for example because there is one with this number.
    pub fn new(number: u8) -> Self {
        let bridge = format!("bridge{number}");
        ip(&["link", "add", "name", &bridge, "type", "bridge"]);
        ip(&["link", "set", &bridge, "up"]);
        Self { number, machines: Cell::new(0) }
    }

    /// Connects a machine.
    ///
    /// # Panics
    ///
    /// If that is not possible.
    pub fn connect(&self, machine: &NetworkMachine) -> Cable {
        let (network, index) = (self.number, self.machines.get() + 1);
        self.machines.set(index);
        let (port, end) = (format!("port{network}-{index}"), format!("end{network}-{index}"));
        ip(&["link", "add", "name", &port, "type", "veth", "peer", "name", &end]);
        ip(&["link", "set", &port, "master", &format!("bridge{network}"), "up"]);
        let address = Ipv4Addr::new(10, network, 0, index);
        let mut prefix = Vec::new();
        if let (Some(holder), Some(namespace)) = (&machine.holder, machine.namespace()) {
            ip(&["link", "set", &end, "netns", &holder.id().to_string()]);
            let namespace = format!("--net={}", namespace.display());
            prefix = vec!["nsenter".to_owned(), namespace, "--".to_owned()];
        }
        prefix.push("ip".to_owned());
        let prefix: Vec<&str> = prefix.iter().map(String::as_str).collect();
        run(&prefix, &["addr", "add", &format!("{address}/24"), "dev", &end]);
        run(&prefix, &["link", "set", &end, "up"]);
        Cable { address, port }
    }
}

impl Cable {
    /// Cuts the cable: nothing arrives any more, and neither side is told.
    pub fn cut(&self) {
        ip(&["link", "set", &self.port, "down"]);
    }

    pub fn restore(&self) {
        ip(&["link", "set", &self.port, "up"]);
    }
}

fn ip(arguments: &[&str]) {
    run(&["ip"], arguments);
}

fn run(program: &[&str], arguments: &[&str]) {
    let mut command = Command::new(program[0]);
    let done = packages::run(command.args(&program[1..]).args(arguments));
    done.unwrap_or_else(|why| panic!("{why}"));
}
