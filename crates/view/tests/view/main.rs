//! The view crate tested through its public interface.

// `cfg(test)` makes the helpers count as tests, which may unwrap.
#[cfg(test)]
mod depth;
mod export;
#[cfg(test)]
mod fold;
#[cfg(test)]
mod markdown;
#[cfg(test)]
mod renderings;
