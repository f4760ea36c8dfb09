//! Whether a stored grant allows a request.

use journal::{Grant, RequestRecord};
use wire::consent;

/// Whether a grant that has not expired allows the request. The caller has already selected the
/// grants of this session and its directory.
pub(crate) fn covers(grant: &Grant, request: &RequestRecord, now: u64) -> bool {
    grant.until.is_none_or(|until| now < until)
        && consent::covers(
            &grant.tool,
            grant.pattern.as_deref(),
            &request.tool_name,
            &request.input,
        )
}
