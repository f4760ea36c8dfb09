//! The handle of a session that is opened again if its owner in this process is gone.

use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;
use session::{OpenError, Session};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::config::SessionOpener;

/// How often a session is opened again for one command, and after what time.
const ATTEMPTS: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_millis(300);

/// A session that survives the loss of its owner.
#[derive(Clone)]
pub(crate) struct SessionLink {
    id: SessionId,
    opener: Arc<dyn SessionOpener>,
    /// None until a command needs it, for those who only look.
    session: Arc<Mutex<Option<Session>>>,
}

impl SessionLink {
    pub(crate) async fn open(
        opener: Arc<dyn SessionOpener>,
        id: SessionId,
    ) -> Result<Self, OpenError> {
        let session = opener.open(id).await?;
        Ok(Self { id, opener, session: Arc::new(Mutex::new(Some(session))) })
    }

    /// A link of a client that only looks: no process has to drive the session for it.
    pub(crate) fn unopened(opener: Arc<dyn SessionOpener>, id: SessionId) -> Self {
        Self { id, opener, session: Arc::default() }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.id
    }

    /// Carries out a command. It may be carried out twice, with the same effect as once.
    pub(crate) async fn run<T, F>(
        &self,
        command: impl Fn(Session) -> F,
    ) -> Result<T, session::Error>
    where
        F: Future<Output = Result<T, session::Error>>,
    {
        let mut attempt = 0;
        loop {
            let session = self.session.lock().await.clone();
            let result = match session {
                Some(session) => command(session).await,
                None => Err(session::Error::Closed),
            };
            match result {
                Err(session::Error::Closed) if attempt < ATTEMPTS => {
                    sleep(RETRY_DELAY * attempt).await;
                    attempt += 1;
                    if let Ok(opened) = self.opener.open(self.id).await {
                        *self.session.lock().await = Some(opened);
                    }
                }
                result => return result,
            }
        }
    }
}
