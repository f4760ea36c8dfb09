//! How a gateway is set up.

use std::net::IpAddr;
use std::path::PathBuf;

use session::Roots;

use crate::access::Role;
use crate::hosts::Hosts;

/// How a gateway is set up.
#[derive(Debug)]
pub struct Config {
    /// The directory with the keys and the saved views.
    pub data: PathBuf,
    /// The names it answers to.
    pub hosts: Hosts,
    /// Where sessions may work.
    pub roots: Roots,
    /// Who is signed in by somebody in front of it.
    pub proxy: Option<Proxy>,
    /// A directory to serve the pages from instead of those built in: for who works on them.
    pub pages: Option<PathBuf>,
    /// Whether the agent is the built-in one.
    pub demo: bool,
    /// Whether it is reached over TLS, by itself or by what stands in front.
    pub secure: bool,
    /// How many connections there may be at a time.
    pub connections: usize,
}

/// A proxy that signs people in and says so in a header.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The header with the name; the proxy must remove it from what comes from outside.
    pub header: String,
    /// Where the proxy connects from.
    pub addresses: Vec<IpAddr>,
    /// What those it signs in may do.
    pub role: Role,
}
