//! The order of results.
//!
//! Among some hundred of the newest lines that match, what people said comes before what tools printed,
//! short lines before long ones, and no session crowds out the others. Among equals the newest is first.
//! How often a word is in a line is not known to the index, and in a query whose words must all be
//! there, how rare they are is the same for all results.

use std::collections::HashMap;

use crate::document::SearchRole;
use crate::index_reader::Candidate;

/// So many lines of one session are equal; the next ones come later.
const OF_ONE_SOURCE: usize = 4;

/// A longer line is a file or a log.
const LONG_LINE: u64 = 16 << 10;

/// Sorts candidates that are in the order of their rows.
pub(crate) fn rank(candidates: &mut [Candidate]) {
    let mut seen: HashMap<_, usize> = HashMap::new();
    let mut ranks: HashMap<i64, usize> = HashMap::new();
    for candidate in &*candidates {
        let of_tool = candidate.role == SearchRole::Tool;
        let long = candidate.length > LONG_LINE;
        let class = usize::from(of_tool) + usize::from(long);
        let seen = seen.entry((candidate.source, class)).or_default();
        ranks.insert(candidate.row, class + *seen / OF_ONE_SOURCE);
        *seen += 1;
    }
    candidates.sort_by_key(|candidate| ranks.get(&candidate.row).copied());
}

#[cfg(test)]
mod tests {
    use super::rank;
    use crate::document::SearchRole::{self, Assistant, Tool, User};
    use crate::index_reader::Candidate;
    use crate::source::SourceKey;

    #[test]
    fn what_people_said_comes_first_and_no_session_crowds_out_the_others() {
        let candidate = |row, source, role: SearchRole, length| {
            let source = SourceKey(source);
            Candidate { row, source, place: 0, length, role }
        };
        let mut all: Vec<Candidate> = (0..9).map(|it| candidate(100 - it, 1, User, 50)).collect();
        all.push(candidate(60, 2, Tool, 50));
        all.push(candidate(50, 3, Assistant, 50));
        all.push(candidate(40, 3, Tool, 1 << 20));
        rank(&mut all);
        let rows: Vec<i64> = all.iter().map(|it| it.row).collect();
        assert_eq!(rows, [100, 99, 98, 97, 50, 96, 95, 94, 93, 60, 92, 40]);
    }
}
