//! Tests of the whole protocol: captures, comparison with `serde_json`, and outgoing lines.

mod agreement;
mod captures;
mod explanations;
mod odd_shapes;
mod other_agents;
mod outgoing;
mod readings;
mod recordings;
