//! The versions of the protocol.

/// A version of the protocol that Towpath speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcpVersion {
    V1,
    /// A draft, which clients have to ask for.
    V2,
}

impl AcpVersion {
    /// The version to speak with a client that asks for `requested`: the same, or the nearest one.
    pub fn negotiate(requested: f64) -> Self {
        if requested >= 2.0 { Self::V2 } else { Self::V1 }
    }

    pub const fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }
}
