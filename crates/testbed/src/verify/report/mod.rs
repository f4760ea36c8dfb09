//! Reports for programs and for pages.

mod json;
mod junit;
mod markdown;

pub use json::json;
pub use junit::junit;
pub use markdown::markdown;
