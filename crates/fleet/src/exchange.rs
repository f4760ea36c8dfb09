//! Requests about the project of a session, on the bus: the steps in which one is asked and answered.
//!
//! ```text
//!  gateway                                   worker
//!  Begin  (request, first piece)  ────────►  starts to answer
//!  Send   (next piece)            ────────►  …                     as often as needed
//!                                 ◄────────  Answer (response, first piece), to the step with the last piece
//!  Receive                        ────────►
//!                                 ◄────────  Piece                 as often as needed
//! ```
//!
//! Each step is a question of its own, and the next one is asked after the answer to the one before, so
//! a piece is all that is ever on its way. Most requests and answers fit into one piece, which is one
//! question. An exchange has an id made by the gateway. The worker forgets it when it is over, when the gateway
//! leaves it, or when no step came for a while.
//!
//! In an exchange that goes [both ways](ExchangeMode::BothWays), the answer to `Begin` is the response, and then
//! each direction has its own next step: `Send` does not wait for `Receive`. A piece is what has come since
//! the last one, and `Receive` is answered without any bytes when nothing comes for [`RECEIVE_WAIT`], so both sides
//! notice soon when the other one is gone.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt as _, StreamExt as _};
use journal::SessionId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use session::{ExchangeMode, ProjectAnswer, ProjectBody, ProjectRequest};
use uuid::Uuid;

/// The largest piece. In a message it is longer by a third.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// How long a step of an exchange that goes both ways waits: for a piece of the answer, or until a piece of the
/// request is taken.
pub(crate) const RECEIVE_WAIT: Duration = Duration::from_secs(5);

/// A step of an exchange, as the gateway asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProjectStep {
    pub exchange: Uuid,
    pub action: StepAction,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepAction {
    Begin {
        session: SessionId,
        request: Box<ProjectRequest>,
        piece: BodyPiece,
    },
    Send {
        piece: BodyPiece,
    },
    Receive,
    /// The client is gone: the exchange is dropped. Workers of earlier versions do not know it.
    Leave,
}

/// A part of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyPiece {
    #[serde(serialize_with = "encode", deserialize_with = "decode")]
    pub bytes: Bytes,
    /// Whether nothing comes after it.
    pub is_last: bool,
}

/// What the worker replies to a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepReply {
    /// The next piece may be sent.
    GoOn,
    /// The piece was not taken, because the ones before it still wait: it may be sent again. Only in an exchange
    /// that goes both ways.
    Full,
    Answer {
        response: ProjectAnswer,
        piece: BodyPiece,
    },
    Piece(BodyPiece),
}

/// Cuts a body into pieces.
pub(crate) struct BodyPieces {
    body: ProjectBody,
    mode: ExchangeMode,
    /// What came and is not sent yet.
    rest: BytesMut,
    is_over: bool,
}

impl BodyPieces {
    pub(crate) fn new(body: ProjectBody, mode: ExchangeMode) -> Self {
        Self { body, mode, rest: BytesMut::new(), is_over: false }
    }

    /// The next piece. A call that is dropped loses nothing.
    pub(crate) async fn next(&mut self) -> io::Result<BodyPiece> {
        // One byte more than a piece shows that there is another one.
        while !self.is_over && self.rest.len() <= PIECE_BYTES {
            let next = self.body.next();
            let has_enough = self.mode == ExchangeMode::BothWays && !self.rest.is_empty();
            let next = if has_enough { next.now_or_never() } else { Some(next.await) };
            match next {
                Some(Some(bytes)) => self.rest.extend_from_slice(&bytes?),
                Some(None) => self.is_over = true,
                None => break,
            }
        }
        let bytes = self.rest.split_to(self.rest.len().min(PIECE_BYTES)).freeze();
        Ok(BodyPiece { bytes, is_last: self.is_over && self.rest.is_empty() })
    }
}

fn encode<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn decode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
    if bytes.len() > PIECE_BYTES {
        return Err(serde::de::Error::custom("a piece is too large"));
    }
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::{BodyPiece, PIECE_BYTES, StepReply};
    use crate::bus::MAX_MESSAGE;

    #[test]
    fn pieces_are_any_bytes_and_fit_into_a_message() {
        let bytes: Vec<u8> = (0..PIECE_BYTES).map(|it| u8::try_from(it % 256).unwrap()).collect();
        let reply = StepReply::Piece(BodyPiece { bytes: bytes.into(), is_last: true });
        let json = serde_json::to_vec(&reply).unwrap();
        assert!(json.len() < MAX_MESSAGE, "{}", json.len());
        assert_eq!(serde_json::from_slice::<StepReply>(&json).unwrap(), reply);
        let too_large = BodyPiece { bytes: vec![0; PIECE_BYTES + 1].into(), is_last: true };
        let json = serde_json::to_vec(&too_large).unwrap();
        serde_json::from_slice::<BodyPiece>(&json).unwrap_err();
    }
}
