//! Tests of the whole protocol: captures, comparison with `serde_json`, and outgoing lines.

mod agreement;
mod captures;
mod odd_shapes;
mod outgoing;
mod readings;
mod recordings;
