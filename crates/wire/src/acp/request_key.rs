//! Ids of an agent's requests that are unique in a session.
//!
//! Agents number their requests anew in every process. An answer to a request of an earlier process
//! must not reach a later one with the same number.

/// The id of a request in a session: the number of the agent's process, and the JSON-RPC id as the agent
/// wrote it.
pub fn request_key(run: u64, id: &str) -> String {
    format!("{run}:{id}")
}

/// The number of the process and the JSON-RPC id of a request.
pub fn split_request_key(key: &str) -> Option<(u64, &str)> {
    let (run, id) = key.split_once(':')?;
    Some((run.parse().ok()?, id))
}

/// The JSON-RPC id of a request as the agent wrote it.
pub fn rpc_id_of_key(key: &str) -> &str {
    split_request_key(key).map_or(key, |(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::{request_key, rpc_id_of_key, split_request_key};

    #[test]
    fn a_key_has_the_process_and_the_id_as_it_was_written() {
        for id in ["0", "\"a:b\"", "null"] {
            let key = request_key(7, id);
            assert_eq!(split_request_key(&key), Some((7, id)));
            assert_eq!(rpc_id_of_key(&key), id);
        }
        assert_eq!(rpc_id_of_key("toolu_1"), "toolu_1");
    }
}
