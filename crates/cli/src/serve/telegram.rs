//! The Telegram bridge inside the server. It uses the server's sessions.

use std::time::Duration;

use gateway::Roots;
use session::Sessions;
use telegram::Bridge;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::{error, info};

use crate::settings::CliSettings;
use crate::telegram::{TelegramBotArgs, TelegramError};

/// How long the bridge may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// A bridge that runs in the server.
#[derive(Debug)]
pub(super) struct BridgeTask {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Starts the bridge. Fails only if its configuration is wrong: the server runs even while Telegram
/// cannot be reached.
pub(super) fn start(
    bot: &TelegramBotArgs,
    settings: &CliSettings,
    roots: Roots,
    sessions: Sessions,
) -> Result<BridgeTask, TelegramError> {
    let config = bot.config(settings, roots)?;
    Ok(BridgeTask::spawn(move |stopped| async move {
        tokio::pin!(stopped);
        let bridge = tokio::select! {
            bridge = Bridge::connect(config) => bridge,
            () = &mut stopped => return,
        };
        let ran = match bridge {
            Ok(bridge) => {
                info!(bot = bridge.bot_name(), "the Telegram bridge is running");
                bridge.run(sessions, stopped).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = ran {
            error!(%error, "the Telegram bridge has stopped");
        }
    }))
}

/// What tells a bridge to stop.
pub(super) type StopRequest = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl BridgeTask {
    /// Runs a bridge that ends when it is told to.
    pub(super) fn spawn<F>(run: impl FnOnce(StopRequest) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(run(Box::pin(async { drop(stopped.await) })));
        Self { stop, task }
    }

    /// Stops the bridge, and waits for it up to [`STOP_TIMEOUT`].
    pub(super) async fn stop(self) {
        // It may have stopped by itself.
        let _ = self.stop.send(());
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.task).await;
    }
}
