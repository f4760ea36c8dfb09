//! Whoever sends a request, once that is known.

use std::net::SocketAddr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use wire::note::Actor;

use crate::access::{Digest, Role};
use crate::api::Problem;

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Somebody who is signed in.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) via: Via,
}

/// How somebody is signed in.
#[derive(Clone, Debug)]
pub(crate) enum Via {
    /// With a token in each request: a program.
    Token(Digest),
    /// With a cookie: a browser.
    Cookie(Digest),
    /// By a proxy: a browser too.
    Proxy,
}

impl Visitor {
    /// The same for the ledger.
    pub(crate) fn actor(&self) -> Actor {
        Actor { name: self.name.clone(), via: self.via.word().to_owned() }
    }
}

impl Via {
    /// The key one is signed in with; none where a proxy signs people in.
    pub(crate) fn key(&self) -> Option<&Digest> {
        match self {
            Self::Token(key) | Self::Cookie(key) => Some(key),
            Self::Proxy => None,
        }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Token(_) => "api",
            Self::Cookie(_) | Self::Proxy => "browser",
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Problem::not_signed_in)
    }
}
