//! Where a request really comes from if there is a proxy in front of the server.

use std::net::IpAddr;

use axum::http::HeaderMap;

use super::client::PeerAddress;
use crate::config::ProxyConfig;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Visitor {
    /// The address of the client itself; only a trusted proxy may say that it is not the peer's.
    pub(crate) address: Option<IpAddr>,
    /// Whether the client reached a trusted proxy over TLS.
    pub(crate) is_https: bool,
}

impl Visitor {
    pub(crate) fn new(
        headers: &HeaderMap,
        peer: Option<PeerAddress>,
        proxy: Option<&ProxyConfig>,
    ) -> Self {
        let peer = peer.map(|PeerAddress(it)| it.ip().to_canonical());
        let is_proxy = |it: &IpAddr| proxy.is_some_and(|proxy| proxy.addresses.contains(it));
        if !peer.is_some_and(|it| is_proxy(&it)) {
            return Self { address: peer, is_https: false };
        }
        // Each proxy appends the address it was reached from, so the last one that is no proxy of
        // ours is the client. What is before it may be invented.
        let all = headers.get_all("x-forwarded-for").iter().filter_map(|it| it.to_str().ok());
        let addresses: Vec<&str> = all.flat_map(|it| it.split(',')).map(str::trim).collect();
        let parsed = addresses.iter().rev().map_while(|it| parse_address(it));
        let client = parsed.into_iter().find(|it| !is_proxy(it));
        let proto = headers.get_all("x-forwarded-proto").iter().next_back();
        let proto = proto.and_then(|it| it.to_str().ok()).and_then(|it| it.rsplit(',').next());
        let is_https = proto.is_some_and(|it| it.trim().eq_ignore_ascii_case("https"));
        Self { address: client.or(peer), is_https }
    }
}

/// An address, with or without a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|it| it.split(']').next());
    let address = match bare {
        Some(address) => address.parse().ok(),
        None => text.parse().ok().or_else(|| text.rsplit_once(':')?.0.parse().ok()),
    };
    address.map(|it: IpAddr| it.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use axum::http::{HeaderMap, HeaderValue};

    use super::{PeerAddress, ProxyConfig, Visitor};
    use crate::access::Role;

    fn visitor(peer: &str, forwarded: &'static str, proto: &'static str) -> (String, bool) {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_static(forwarded));
        headers.insert("x-forwarded-proto", HeaderValue::from_static(proto));
        let addresses: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
        let proxy = ProxyConfig { header: None, addresses, role: Role::Watch };
        let peer = PeerAddress(format!("{peer}:1").parse().unwrap());
        let visitor = Visitor::new(&headers, Some(peer), Some(&proxy));
        (visitor.address.unwrap().to_string(), visitor.is_https)
    }

    #[test]
    fn only_a_trusted_proxy_says_who_its_clients_are() {
        assert_eq!(visitor("9.9.9.9", "1.1.1.1", "https"), ("9.9.9.9".to_owned(), false));
        assert_eq!(visitor("10.0.0.1", "1.1.1.1", "https"), ("1.1.1.1".to_owned(), true));
        assert_eq!(visitor("10.0.0.1", "5.5.5.5, 1.1.1.1, 10.0.0.2", "http").0, "1.1.1.1");
        assert_eq!(visitor("10.0.0.1", "5.5.5.5, nonsense", "http").0, "10.0.0.1");
        assert_eq!(
            visitor("10.0.0.1", "[2001:db8::1]:99", "HTTPS"),
            ("2001:db8::1".to_owned(), true)
        );
        assert_eq!(visitor("10.0.0.1", "1.1.1.1:80", "ftp").0, "1.1.1.1");
    }
}
