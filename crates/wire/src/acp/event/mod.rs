//! What the lines of a conversation over the Agent Client Protocol contain, whichever side wrote them.
//!
//! This is the reading of agents that Towpath drives, and of recordings. Unlike a client's call, which
//! must be answered with an error if it cannot be read, such a line is read like any other: it is an
//! [`AcpEvent`], unknown, or a mismatch. Both versions of the protocol are read into the same types.
//!
//! A response does not say which request it answers, so its result is told by its fields. Its id says
//! the rest to the side that sent the request.

mod call;
mod chunk;
mod read;
mod response;
mod tokens;
mod tool_call;
mod update;

pub use call::{AcpCall, AcpCallBody};
pub(crate) use chunk::chunk;
pub(crate) use read::object;
pub use response::{AcpFailure, AcpResponse, AcpResult};
pub use tokens::{reported_tokens, terminal_bytes};
pub use tool_call::AgentToolCall;
pub use update::{AgentUpdate, ChunkAuthor};

use crate::json::{Raw, Text};

/// A line of a conversation over the Agent Client Protocol.
#[derive(Clone, Debug)]
pub enum AcpEvent<'a> {
    /// `session/update`: the agent reports something about a session.
    Update {
        /// The agent's id of the session. A sub-agent may have one of its own.
        session: Option<Text<'a>>,
        update: AgentUpdate<'a>,
        /// Details outside the protocol, on the notification or on the update.
        meta: Option<Raw<'a>>,
    },
    /// Any other request or notification, of either side.
    Call(Box<AcpCall<'a>>),
    /// The answer to a request, of either side.
    Response(Box<AcpResponse<'a>>),
}

#[cfg(test)]
mod tests {
    use super::{AcpCallBody, AcpEvent, AcpResult, AgentUpdate, ChunkAuthor};
    use crate::event::Body;
    use crate::{Dialect, Kind, Line, Noise, Reading};

    fn line(text: &str) -> Line<'_> {
        let mut lines = crate::read(text.as_bytes());
        let line = lines.next().expect("a line");
        assert!(lines.next().is_none(), "{text}");
        assert_eq!(line.bytes, text.as_bytes());
        if !matches!(line.reading, Reading::Noise(_)) {
            assert_eq!(line.dialect, Dialect::Acp, "{text}");
            assert_eq!(Kind::find(text.as_bytes()), line.kind(), "{text}");
        }
        line
    }

    fn event(text: &str) -> AcpEvent<'_> {
        match line(text).reading {
            Reading::Event(event) => match event.body {
                Body::Acp(event) => event,
                body => panic!("{body:?}"),
            },
            reading => panic!("{reading:?}"),
        }
    }

    #[test]
    fn the_parameters_of_an_update_may_come_in_any_order() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}"#,
            r#"{"params":{"update":{"content":{"type":"text","text":"hi"},"sessionUpdate":"agent_message_chunk"},"sessionId":"s"},"method":"session/update","jsonrpc":"2.0"}"#,
            r#"{"t":0.5,"dir":"<","msg":{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}}}}"#,
        ] {
            let AcpEvent::Update { session, update, .. } = event(text) else { panic!("{text}") };
            assert_eq!(session.unwrap(), "s");
            let AgentUpdate::Chunk { author, message, content, text: chunk } = update else {
                panic!("{text}")
            };
            assert_eq!((author, message.is_none()), (ChunkAuthor::Agent, true));
            assert_eq!(content.get("text").unwrap().text().unwrap(), "hi");
            assert_eq!(chunk.unwrap(), "hi");
            assert_eq!(
                line(text).kind().unwrap().to_string(),
                "session/update/agent_message_chunk"
            );
        }
    }

    #[test]
    fn a_request_for_permission_has_its_call_and_its_options() {
        let text = r#"{"jsonrpc":"2.0","id":"7","method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"ls"},"options":[{"optionId":"a"}]}}"#;
        let AcpEvent::Call(call) = event(text) else { panic!() };
        assert_eq!(call.id.unwrap().as_str(), "\"7\"");
        let AcpCallBody::Permission { call, options, .. } = call.body else { panic!() };
        assert_eq!(
            (call.unwrap().id, options.items().count()),
            (crate::json::Raw::parse("\"c\"").unwrap().text().unwrap(), 1)
        );
    }

    #[test]
    fn a_response_is_told_by_its_fields() {
        let result = |result: &str| format!(r#"{{"jsonrpc":"2.0","id":3,"result":{result}}}"#);
        let check = |text: &str, fits: fn(&AcpResult<'_>) -> bool| {
            let text = result(text);
            let AcpEvent::Response(response) = event(&text) else { panic!("{text}") };
            assert_eq!(response.id.as_str(), "3");
            assert!(fits(&response.result.unwrap()), "{text}");
        };
        check(r#"{"protocolVersion":1}"#, |it| matches!(it, AcpResult::Initialized { .. }));
        check(r#"{"stopReason":"end_turn"}"#, |it| matches!(it, AcpResult::TurnEnded { .. }));
        check(r#"{"sessionId":"s","modes":{}}"#, |it| {
            matches!(it, AcpResult::Session { id: Some(_), modes: Some(_), .. })
        });
        check(r#"{"messageId":"m"}"#, |it| matches!(it, AcpResult::PromptTaken { .. }));
        check("{}", |it| matches!(it, AcpResult::Other(_)));
        check("null", |it| matches!(it, AcpResult::Other(_)));
        let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"sign in"}}"#;
        let AcpEvent::Response(response) = event(text) else { panic!() };
        assert_eq!(response.result.unwrap_err().code, -32000);
        assert_eq!(line(text).kind().unwrap().to_string(), "error");
    }

    #[test]
    fn an_unknown_update_is_unknown_and_a_known_one_in_another_shape_a_mismatch() {
        let update = |update: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"update":{update}}}}}"#
            )
        };
        let text = update(r#"{"sessionUpdate":"teleport","to":7}"#);
        let Reading::Unknown(unknown) = line(&text).reading else { panic!() };
        assert_eq!(unknown.kind.to_string(), "session/update/teleport");
        for (odd, reason) in [
            ("{}", "params.update.sessionUpdate: missing"),
            (r#"{"sessionUpdate":"tool_call"}"#, "params.update.toolCallId: missing"),
            (r#"{"sessionUpdate":"agent_message_chunk"}"#, "params.update.content: missing"),
            ("7", "params.update: expected an object, found a number"),
        ] {
            let text = update(odd);
            let Reading::Mismatch(mismatch) = line(&text).reading else { panic!("{text}") };
            assert_eq!(mismatch.reason, reason);
        }
    }

    #[test]
    fn other_objects_stay_what_they_are() {
        for text in [
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":2,"method":"x"}"#,
            r#"{"dir":"<","msg":"text"}"#,
            r#"{"dir":"<","msg":{"not":"rpc"}}"#,
            r#"{"msg":{"jsonrpc":"2.0","method":"x"}}"#,
        ] {
            let reading = line(text).reading;
            assert!(matches!(reading, Reading::Noise(Noise::Untyped)), "{text}: {reading:?}");
        }
        let claude = br#"{"jsonrpc":"2.0","method":"x","type":"keep_alive"}"#;
        let line = crate::read(claude).next().unwrap();
        assert_eq!(
            (line.dialect, line.kind().unwrap().to_string()),
            (Dialect::StreamJson, "keep_alive".to_owned())
        );
    }
}
