//! Who may do what: access tokens and their roles, the host and origin checks, and the middleware
//! that applies them to every request.

mod check;
mod client;
mod device;
mod hosts;
mod tokens;
mod visitor;

pub use hosts::Hosts;
pub use tokens::{
    AccessToken, Role, SharedToken, TokenKind, TokenSecret, TokenSharing, TokenStore,
    TokenStoreError,
};

pub(crate) use check::{FailedSignIns, PartOfPage, check, needs_shell, required_role};
pub(crate) use client::{AuthenticatedClient, PeerAddress, SignInMethod};
pub(crate) use device::device_name;
pub(crate) use tokens::{StreamAuthorization, TokenDigest};
pub(crate) use visitor::Visitor;
