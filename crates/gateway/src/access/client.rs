//! The client that sent a request, once it is authenticated.

use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use wire::note::Actor;

use super::tokens::{Role, TokenDigest};
use crate::problem::Problem;

/// The address a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// A client that is signed in.
#[derive(Clone, Debug)]
pub(crate) struct AuthenticatedClient {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Whether it may have a shell.
    pub(crate) shell: bool,
    pub(crate) method: SignInMethod,
    /// What the browser runs on, if that is known.
    pub(crate) device: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum SignInMethod {
    /// A token in each request: a program.
    Token(TokenDigest),
    /// A cookie: a browser.
    Cookie(TokenDigest),
    /// A proxy in front of the server signs users in: also a browser.
    Proxy,
}

impl AuthenticatedClient {
    /// The client as the journal records it.
    pub(crate) fn actor(&self) -> Actor {
        let client = self.method.name();
        let via = match &self.device {
            Some(device) => format!("{client} on {device}"),
            None => client.to_owned(),
        };
        Actor { name: self.name.clone(), via }
    }
}

impl SignInMethod {
    /// The token or cookie; `None` for a proxy.
    pub(crate) fn digest(&self) -> Option<&TokenDigest> {
        match self {
            Self::Token(digest) | Self::Cookie(digest) => Some(digest),
            Self::Proxy => None,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Token(_) => "api",
            Self::Cookie(_) | Self::Proxy => "browser",
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AuthenticatedClient {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::not_signed_in)
    }
}
