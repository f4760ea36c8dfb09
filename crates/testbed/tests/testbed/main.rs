//! The test bed as its users see it: the API over HTTP, the official SDKs, and the scenario runner.

mod api;
mod dialects;
mod sdk;
mod verify;
