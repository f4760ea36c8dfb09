//! A session by what a person calls it.

use journal::{Journal, SessionRecord};

/// No session is meant, or several may be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSuch {
    #[error("there is no session `{0}`")]
    Session(String),
    #[error("there are no sessions yet")]
    None,
    #[error("`{0}` may be any of {1} sessions")]
    Several(String, usize),
    #[error("the journal could not be read")]
    Journal(#[from] journal::Error),
}

impl NoSuch {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Session(_) => Some("`towpath sessions` lists them".to_owned()),
            Self::None => Some("`towpath run` begins one".to_owned()),
            Self::Several(..) => Some("give more of the id".to_owned()),
            Self::Journal(_) => None,
        }
    }
}

/// The session of that name: `last`, or the beginning of our id or the CLI's.
pub(crate) async fn find(journal: &Journal, name: &str) -> Result<SessionRecord, NoSuch> {
    if name == "last" {
        return journal.sessions().await?.into_iter().next().ok_or(NoSuch::None);
    }
    let unknown = || NoSuch::Session(name.to_owned());
    if name.is_empty() {
        return Err(unknown());
    }
    let name_is = name.to_lowercase();
    let mut found = journal.find(&name_is).await?;
    // A branch has the CLI's id of what it branched off too, until it gets its own.
    let own = |id: &journal::SessionId| id.to_string().starts_with(&name_is);
    if found.len() > 1 && found.iter().filter(|id| own(id)).count() == 1 {
        found.retain(own);
    }
    match found.as_slice() {
        [] => Err(unknown()),
        [id] => journal.session(*id).await?.ok_or_else(unknown),
        several => Err(NoSuch::Several(name.to_owned(), several.len())),
    }
}
