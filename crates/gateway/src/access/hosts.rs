//! The host names the server answers to, and the pages it accepts requests from.
//!
//! A page on the web can make a browser send requests here. With a name of its own that resolves to
//! this server (DNS rebinding) it could even read the responses. Its `Host` and its `Origin` reveal
//! it.

use std::net::{IpAddr, SocketAddr};

/// The host names the server answers to.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// In lower case, without a port.
    names: Vec<String>,
    /// Every IP address is accepted: no other page is served from an address that reaches us.
    addresses: bool,
    port: u16,
}

impl Hosts {
    /// The names of the address it listens on, and additional ones.
    pub fn new(listening: SocketAddr, more: &[String]) -> Self {
        let ip = listening.ip();
        let mut names: Vec<String> = more.iter().map(|it| it.to_ascii_lowercase()).collect();
        if ip.is_loopback() {
            names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
        }
        names.push(host_name(ip));
        Self { names, addresses: ip.is_unspecified(), port: listening.port() }
    }

    /// Whether a `Host` is one of them. An additional name is accepted with any port, because a
    /// proxy in front of the server has its own.
    pub fn has(&self, host: &str) -> bool {
        let (name, port) = split(host);
        let name = name.to_ascii_lowercase();
        if self.addresses && is_address(&name) {
            return true;
        }
        let own_port = port == Some(self.port) || port.is_none();
        let own = is_address(&name) || name == "localhost";
        self.names.contains(&name) && (own_port || !own)
    }

    /// Whether an `Origin` is a page of this server, for a request to that `Host`.
    pub fn is_origin(&self, origin: &str, host: &str) -> bool {
        let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        rest.is_some_and(|it| it.eq_ignore_ascii_case(host) && self.has(it))
    }
}

fn host_name(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

fn split(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (host, None),
        },
        _ => (host, None),
    }
}

fn is_address(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::Hosts;

    #[test]
    fn only_its_own_names_are_accepted() {
        let hosts = Hosts::new("127.0.0.1:4280".parse().unwrap(), &["Box.example".to_owned()]);
        for own in [
            "127.0.0.1:4280",
            "localhost:4280",
            "LOCALHOST:4280",
            "[::1]:4280",
            "box.example",
            "box.example:443",
        ] {
            assert!(hosts.has(own), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:4280",
            "localhost:80",
            "127.0.0.1.evil.example:4280",
            "",
            "localhost:4280:1",
            "10.0.0.1:4280",
            "localhost:x",
        ] {
            assert!(!hosts.has(foreign), "{foreign}");
        }
        assert!(Hosts::new("0.0.0.0:80".parse().unwrap(), &[]).has("10.0.0.1"));
    }

    #[test]
    fn only_its_own_pages_are_accepted() {
        let hosts = Hosts::new("127.0.0.1:4280".parse().unwrap(), &["box.example".to_owned()]);
        assert!(hosts.is_origin("http://localhost:4280", "localhost:4280"));
        assert!(hosts.is_origin("https://box.example", "box.example"));
        for (origin, host) in [
            ("http://localhost:3000", "localhost:4280"),
            ("null", "localhost:4280"),
            ("http://evil.example", "localhost:4280"),
            ("http://evil.example", "evil.example"),
            ("http://localhost:4280.evil.example", "localhost:4280"),
            ("file://localhost:4280", "localhost:4280"),
            ("http://127.0.0.1:4280", "localhost:4280"),
        ] {
            assert!(!hosts.is_origin(origin, host), "{origin} {host}");
        }
    }
}
