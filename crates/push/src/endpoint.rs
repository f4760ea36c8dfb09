//! The address at a push service that a browser gives, and which addresses are refused.
//!
//! A client chooses the address and the server sends requests to it, so an address in the server's
//! own network must not be used, whether it is written as a number or hidden behind a name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;

/// Addresses of push services have a few hundred characters.
const MAX_ENDPOINT_BYTES: usize = 2048;

/// Names that lead to this machine or this network whatever a name server says.
const LOCAL_SUFFIXES: &[&str] = &["localhost", "local", "internal", "lan", "home.arpa"];

/// Which addresses may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointPolicy {
    /// Only `https` and only machines on the internet.
    #[default]
    Public,
    /// Also `http` and this network, for tests and for a push service of one's own.
    Any,
}

/// The address of a subscription at its push service. Who knows it can send messages, so it is a
/// secret, and `Debug` shows only the host.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PushEndpoint(Url);

/// Why an address cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EndpointError {
    #[error("the endpoint is not an address of at most {MAX_ENDPOINT_BYTES} characters")]
    Invalid,
    #[error("the endpoint must start with `https://`")]
    NotEncrypted,
    #[error("the endpoint must not have a user name or a password")]
    Credentials,
    #[error("the endpoint is not on the internet")]
    NotPublic,
}

impl PushEndpoint {
    pub fn parse(text: &str, policy: EndpointPolicy) -> Result<Self, EndpointError> {
        if text.len() > MAX_ENDPOINT_BYTES {
            return Err(EndpointError::Invalid);
        }
        let mut url = Url::parse(text).map_err(|_| EndpointError::Invalid)?;
        url.set_fragment(None);
        match url.scheme() {
            "https" => {}
            "http" if policy == EndpointPolicy::Any => {}
            _ => return Err(EndpointError::NotEncrypted),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        let host = url.host_str().ok_or(EndpointError::Invalid)?;
        if policy == EndpointPolicy::Public && !is_public_host(host) {
            return Err(EndpointError::NotPublic);
        }
        Ok(Self(url))
    }

    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Apple's push service withdraws a subscription after a few messages that show nothing.
    pub fn must_show_every_message(&self) -> bool {
        self.0
            .host_str()
            .is_some_and(|it| it == "push.apple.com" || it.ends_with(".push.apple.com"))
    }

    pub(crate) fn url(&self) -> Url {
        self.0.clone()
    }

    /// The audience of a signature: scheme, host and port.
    pub(crate) fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }
}

impl fmt::Debug for PushEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PushEndpoint({}…)", self.origin())
    }
}

fn is_public_host(host: &str) -> bool {
    let number = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = number.parse::<IpAddr>() {
        return is_public(address);
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_local = |suffix: &&str| {
        name.strip_suffix(*suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    name.contains('.') && !LOCAL_SUFFIXES.iter().any(is_local)
}

/// Whether an address belongs to a machine on the internet.
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast();
    // This network, shared addresses of providers, protocol assignments, benchmarks, reserved.
    let reserved = a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a, b, c) == (192, 0, 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 240;
    !special && !reserved
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Addresses on the internet are in 2000::/3. Of those, tunnels lead to any IPv4 address, and some
    // are for documentation.
    let is_global = first & 0xe000 == 0x2000;
    let is_tunnel = first == 0x2002 || (first, second) == (0x2001, 0);
    let is_documentation = (first, second) == (0x2001, 0xdb8) || first & 0xfff0 == 0x3ff0;
    is_global && !is_tunnel && !is_documentation
}

/// Resolves names to machines on the internet only: a name may be public and its address not.
#[derive(Debug)]
pub(crate) struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|it| is_public(it.ip())).collect();
            if public.is_empty() {
                return Err(EndpointError::NotPublic.into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{EndpointError, EndpointPolicy, PublicResolver, PushEndpoint};
    use reqwest::dns::Resolve as _;

    fn check(text: &str) -> Result<(), EndpointError> {
        PushEndpoint::parse(text, EndpointPolicy::Public).map(drop)
    }

    #[test]
    fn only_encrypted_addresses_on_the_internet_are_accepted() {
        for public in [
            "https://fcm.googleapis.com/fcm/send/abc",
            "https://updates.push.services.mozilla.com/wpush/v2/abc",
            "https://web.push.apple.com/abc",
            "https://8.8.8.8/x",
            "https://[2606:4700::1111]:8443/x",
        ] {
            assert_eq!(check(public), Ok(()), "{public}");
        }
        for private in [
            "https://127.0.0.1/x",
            "https://127.1/x",
            "https://2130706433/x",
            "https://0x7f.0.0.1/x",
            "https://0.0.0.0/x",
            "https://10.1.2.3/x",
            "https://172.16.0.1/x",
            "https://192.168.1.1/x",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/x",
            "https://[::1]/x",
            "https://[::]/x",
            "https://[::ffff:10.0.0.1]/x",
            "https://[64:ff9b::7f00:1]/x",
            "https://[2002:7f00:1::]/x",
            "https://[fd00::1]/x",
            "https://[fe80::1]/x",
            "https://localhost/x",
            "https://LOCALHOST./x",
            "https://metadata.google.internal/x",
            "https://nas.local/x",
            "https://router/x",
        ] {
            assert_eq!(check(private), Err(EndpointError::NotPublic), "{private}");
        }
        assert_eq!(check("http://push.example.com/x"), Err(EndpointError::NotEncrypted));
        assert_eq!(check("file:///etc/passwd"), Err(EndpointError::NotEncrypted));
        assert_eq!(check("https://u:p@push.example.com/x"), Err(EndpointError::Credentials));
        assert_eq!(check("nonsense"), Err(EndpointError::Invalid));
        let long = format!("https://push.example.com/{}", "x".repeat(4096));
        assert_eq!(check(&long), Err(EndpointError::Invalid));
        assert!(PushEndpoint::parse("http://127.0.0.1:1/x", EndpointPolicy::Any).is_ok());
    }

    #[test]
    fn an_endpoint_does_not_show_its_path() {
        let text = "https://push.example.com/secret";
        let endpoint = PushEndpoint::parse(text, EndpointPolicy::Public).unwrap();
        assert_eq!(format!("{endpoint:?}"), "PushEndpoint(https://push.example.com…)");
        assert!(!endpoint.must_show_every_message());
        let apple = "https://web.push.apple.com/x";
        let apple = PushEndpoint::parse(apple, EndpointPolicy::Public).unwrap();
        assert!(apple.must_show_every_message());
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_is_not_resolved() {
        let found = PublicResolver.resolve("localhost".parse().unwrap()).await;
        assert!(found.is_err());
    }
}
