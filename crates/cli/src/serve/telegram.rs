//! The Telegram bridge inside the server: the same sessions, one more way to them.

use std::time::Duration;

use gateway::Roots;
use session::Sessions;
use telegram::Bridge;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::{error, info};

use crate::settings::Settings;
use crate::telegram::{BotChoice, NoBot};

/// How long the bridge may take to end.
const ENDING: Duration = Duration::from_secs(4);

/// A bridge that runs beside the server.
#[derive(Debug)]
pub(super) struct Beside {
    end: oneshot::Sender<()>,
    work: JoinHandle<()>,
}

impl Beside {
    /// Begins, as far as that can fail for want of a setting. Telegram may not be there yet, and
    /// the server is not the worse for it.
    pub(super) fn begin(
        bot: &BotChoice,
        settings: &Settings,
        roots: Roots,
        sessions: Sessions,
    ) -> Result<Self, NoBot> {
        let bridge = bot.bridge(settings, roots)?;
        let (end, ended) = oneshot::channel();
        let work = tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            tokio::pin!(ended);
            let met = tokio::select! {
                met = Bridge::meet(bridge) => met,
                () = &mut ended => return,
            };
            let ran = match met {
                Ok(bridge) => {
                    info!(bot = bridge.name(), "in Telegram too");
                    bridge.run(sessions, ended).await
                }
                Err(problem) => Err(problem),
            };
            if let Err(problem) = ran {
                error!(%problem, "no longer in Telegram");
            }
        });
        Ok(Self { end, work })
    }

    /// Ends, and waits for it a moment.
    pub(super) async fn leave(self) {
        // It may have ended by itself.
        let _ = self.end.send(());
        let _ = tokio::time::timeout(ENDING, self.work).await;
    }
}
