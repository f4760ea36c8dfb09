//! The history of an agent's protocol: what every scenario did with every release, and what changed.
//!
//! The results are files of the project (`scenarios/results/AGENT/VERSION.jsonl`). The page about
//! versions is made from them, from the conditions in the scenarios and from the captures.

mod applied;
mod capture_addition;
mod capture_kinds;
mod changes;
mod matrix;
mod page;
mod refinement;
mod release_kinds;
mod results;

pub use applied::applied_digest;
pub use capture_addition::{CaptureAddition, CaptureAdditionError, add_captures};
pub(crate) use capture_kinds::line_kind;
pub use capture_kinds::{CaptureKinds, CaptureKindsError};
pub use changes::{HistoryChange, HistoryEvidence};
pub use page::{HistoryPageError, VersionsPage};
pub use refinement::{BoundRefinement, BoundVerdict, FIRST_RELEASE};
pub use release_kinds::ReleaseKinds;
pub use results::{HistoryOutcome, HistoryRelease, HistoryResult, HistoryStore, HistoryStoreError};
