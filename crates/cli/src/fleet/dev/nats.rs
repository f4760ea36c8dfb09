//! The NATS servers of `towpath fleet dev`: the program, and configurations that refuse other clients.
//!
//! Clients and routes sign in, and everything listens on the loopback address, so no other user of this
//! machine can connect. There is no monitoring address, because it has no sign-in.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use fleet::setup::{UserKey, is_supported};
use tokio::process::Command;
use uuid::Uuid;

use super::DevError;
use super::process::Recipe;
use crate::settings::remove_secrets;

/// The user of programs that are given an address with a password.
const USER: &str = "fleet";

/// The servers as they are to be started.
pub(super) struct DevServers {
    pub(super) recipes: Vec<Recipe>,
    /// Addresses without a password, for the processes that have the key.
    pub(super) addresses: Vec<String>,
    /// Addresses with a password, for users of the output of this command.
    pub(super) open_addresses: Vec<String>,
    /// The file with the key.
    pub(super) credentials: PathBuf,
}

/// Checks that a program is a NATS server which Towpath works with.
#[expect(clippy::disallowed_methods, reason = "this command owns the servers that it starts")]
pub(super) async fn check_version(program: &Path) -> Result<(), DevError> {
    let failed = |source| DevError::Program { program: program.to_owned(), source };
    let mut command = std::process::Command::new(program);
    remove_secrets(&mut command);
    let mut command = Command::from(command);
    let output = command.arg("--version").kill_on_drop(true).output().await.map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout);
    // `nats-server: v2.15.1`
    let version = text.trim().rsplit(['v', ' ']).next().unwrap_or_default().to_owned();
    if !text.contains("nats-server") || version.is_empty() {
        return Err(DevError::NotNats(program.to_owned()));
    }
    if !is_supported(&version) {
        return Err(DevError::OldNats { program: program.to_owned(), version });
    }
    Ok(())
}

/// How many servers have used a data directory; none if no server has.
pub(super) fn earlier_count(directory: &Path) -> Option<u8> {
    let count = (1..=9).take_while(|number| directory.join(format!("n{number}")).is_dir()).count();
    u8::try_from(count).ok().filter(|count| *count > 0)
}

impl DevServers {
    /// Chooses ports and writes the configurations into a directory.
    pub(super) fn prepare(program: &Path, directory: &Path, count: u8) -> Result<Self, DevError> {
        let count = usize::from(count);
        let write = |source| DevError::Data { path: directory.to_owned(), source };
        let key = UserKey::generate();
        let credentials = directory.join("fleet.nk");
        let private = key.private().map_err(DevError::Setup)?;
        write_private(&credentials, &format!("{private}\n")).map_err(write)?;
        let ports = free_ports(2 * count).map_err(write)?;
        let (client_ports, route_ports) = ports.split_at(count);
        let (password, route_password) = (secret(), secret());
        let public = key.public();
        let mut recipes = Vec::new();
        for (index, port) in client_ports.iter().enumerate() {
            let name = format!("n{}", index + 1);
            let store = directory.join(&name);
            fs::create_dir_all(&store).map_err(write)?;
            let mut text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\nmax_payload: 1MB\n\
                 jetstream {{\n  store_dir: {}\n  max_mem: 256M\n  sync_interval: always\n}}\n\
                 accounts {{\n  FLEET {{\n    jetstream: enabled\n    users: [\n      \
                 {{ user: {USER}, password: \"{password}\" }}\n      {{ nkey: {public} }}\n    ]\n  }}\n}}\n",
                quoted(&store)
            );
            if count > 1 {
                let route = |port| format!("\"nats://route:{route_password}@127.0.0.1:{port}\"");
                let routes: Vec<String> = route_ports.iter().map(route).collect();
                // Addresses that the servers would tell clients have no password.
                let _ = writeln!(
                    text,
                    "cluster {{\n  name: fleet-dev\n  listen: \"127.0.0.1:{}\"\n  no_advertise: true\n  \
                     authorization {{ user: route, password: \"{route_password}\", timeout: 5 }}\n  \
                     routes: [{}]\n}}",
                    route_ports[index],
                    routes.join(", ")
                );
            }
            let file = directory.join(format!("{name}.conf"));
            write_private(&file, &text).map_err(write)?;
            let arguments = vec!["--config".into(), file.into_os_string()];
            let log = directory.join(format!("{name}.log"));
            recipes.push(Recipe::server(name, program.to_owned(), arguments, log));
        }
        let address = |port: &u16| format!("nats://127.0.0.1:{port}");
        let open = |port: &u16| format!("nats://{USER}:{password}@127.0.0.1:{port}");
        Ok(Self {
            recipes,
            addresses: client_ports.iter().map(address).collect(),
            open_addresses: client_ports.iter().map(open).collect(),
            credentials,
        })
    }
}

/// Writes a file that only this user can read.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    // An earlier file may have other permissions.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}

/// A path as a string of the configuration.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}

/// 244 random bits.
fn secret() -> String {
    format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple())
}

/// Different ports that are free now. Another program may take one before the server does, which then
/// ends and is started with others.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<io::Result<_>>()?;
    listeners.iter().map(|it| Ok(it.local_addr()?.port())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::{DevServers, earlier_count};

    #[test]
    fn the_configuration_lets_only_this_user_in_and_syncs_each_message() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(earlier_count(directory.path()), None);
        let servers = DevServers::prepare(Path::new("nats-server"), directory.path(), 3).unwrap();
        assert_eq!(earlier_count(directory.path()), Some(3));
        for name in ["n1.conf", "n2.conf", "n3.conf", "fleet.nk"] {
            let file = directory.path().join(name);
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        let text = std::fs::read_to_string(directory.path().join("n2.conf")).unwrap();
        let listens: Vec<&str> = text.lines().filter(|it| it.contains("listen:")).collect();
        assert_eq!(listens.len(), 2);
        assert!(listens.iter().all(|it| it.contains("\"127.0.0.1:")), "{listens:?}");
        assert!(text.contains("sync_interval: always") && !text.contains("http"), "{text}");
        // The processes of the fleet are started with addresses that other users may see.
        assert!(servers.addresses.iter().all(|it| !it.contains('@')));
        assert!(servers.open_addresses.iter().all(|it| it.starts_with("nats://fleet:")));
    }
}
