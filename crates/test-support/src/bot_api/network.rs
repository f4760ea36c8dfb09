//! The network between the bot and the server, which can fail as a whole.

/// How the network is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// It works.
    #[default]
    Up,
    /// Every connection, old or new, is reset at once.
    Refusing,
    /// Connections are made, and nothing ever comes back over them. When the network returns, the
    /// calls that hung are reset: the bot cannot tell which of them were carried out.
    Dead,
}
