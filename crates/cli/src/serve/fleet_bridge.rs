//! The Telegram bridge of a fleet: several gateways may have it, and it runs in the elected one.
//!
//! Its state is on the fleet's servers, so that whichever gateway runs it next goes on where the one before
//! stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleet::bus::Bus;
use fleet::election::{Election, HeldRole};
use fleet::fenced_state::{FencedState, StateError};
use fleet::gateway::Fleet;
use gateway::Roots;
use journal::StateChange;
use session::Sessions;
use telegram::{Bridge, BridgeConfig, StateStore, StateStoreError, StoreFuture};
use tracing::{error, info, warn};

use super::telegram::BridgeTask;
use crate::settings::CliSettings;
use crate::telegram::{TelegramBotArgs, TelegramError};

/// The pause after the bridge could not start.
const RETRY: Duration = Duration::from_secs(5);

/// What a gateway has of its fleet.
#[derive(Clone, Debug)]
pub(super) struct ServedFleet {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) fleet: Fleet,
    /// The name of this gateway.
    pub(super) gateway: String,
}

/// Starts the bridge, which waits until this gateway is elected. Fails only if its configuration is wrong.
pub(super) fn start(
    bot: &TelegramBotArgs,
    settings: &CliSettings,
    served: ServedFleet,
    sessions: Sessions,
) -> Result<BridgeTask, TelegramError> {
    let config = bot.config(settings, Roots::elsewhere())?;
    Ok(BridgeTask::spawn(move |stopped| async move {
        tokio::pin!(stopped);
        let name = format!("telegram.{}", config.token.bot_id());
        let candidate = BridgeCandidate { name, config, served, sessions };
        let election = Election::new(
            Arc::clone(&candidate.served.bus),
            &candidate.name,
            &candidate.served.gateway,
        );
        // What is not in this gateway's copy yet would look as if it were deleted.
        tokio::select! {
            () = candidate.served.fleet.ready() => {}
            () = &mut stopped => return,
        }
        loop {
            let mut held = tokio::select! {
                held = election.win() => held,
                () = &mut stopped => return,
            };
            let term = candidate.serve_term(&mut held, &mut stopped).await;
            match term {
                TermEnd::Stopped => return held.release().await,
                TermEnd::Replaced => info!("another gateway runs the Telegram bridge now"),
                TermEnd::Failed(error) => {
                    error!(%error, "the Telegram bridge has stopped");
                    held.release().await;
                    if matches!(error, TermError::Bridge(telegram::Error::InvalidToken)) {
                        return;
                    }
                    tokio::select! {
                        () = tokio::time::sleep(RETRY) => {}
                        () = &mut stopped => return,
                    }
                }
            }
        }
    }))
}

/// A gateway that may run the bridge.
#[derive(Debug)]
struct BridgeCandidate {
    /// The name of the role and of the state: one for each bot.
    name: String,
    config: BridgeConfig,
    served: ServedFleet,
    sessions: Sessions,
}

/// Why this gateway no longer runs the bridge.
#[derive(Debug)]
enum TermEnd {
    Stopped,
    /// It is no longer elected, or another gateway has taken the state over.
    Replaced,
    Failed(TermError),
}

#[derive(Debug, thiserror::Error)]
enum TermError {
    #[error("its state on the fleet's servers cannot be used: {0}")]
    State(#[from] fleet::bus::BusError),
    #[error(transparent)]
    Bridge(#[from] telegram::Error),
}

impl BridgeCandidate {
    /// Runs the bridge for as long as this gateway is elected.
    async fn serve_term(
        &self,
        held: &mut HeldRole<'_>,
        stopped: &mut (impl Future<Output = ()> + Unpin),
    ) -> TermEnd {
        let (end, ended) = tokio::sync::oneshot::channel();
        let running = self.run_bridge(async { drop(ended.await) });
        tokio::pin!(running);
        let reason = tokio::select! {
            ran = &mut running => return match ran {
                Ok(()) => TermEnd::Replaced,
                Err(error) => TermEnd::Failed(error),
            },
            () = held.keep() => {
                warn!("this gateway is no longer elected for the Telegram bridge");
                // Another one may be about to start, so nothing is finished here.
                return TermEnd::Replaced;
            }
            () = stopped => TermEnd::Stopped,
        };
        let _ = end.send(());
        if let Err(error) = running.await {
            warn!(%error, "the Telegram bridge did not stop cleanly");
        }
        reason
    }

    /// Runs the bridge until `shutdown`, or until another gateway has taken its state over.
    async fn run_bridge(&self, shutdown: impl Future<Output = ()>) -> Result<(), TermError> {
        let ServedFleet { bus, gateway, .. } = &self.served;
        let state = FencedState::take(Arc::clone(bus), &self.name, gateway).await?;
        let state = Arc::new(state);
        let fenced = Arc::clone(&state);
        let shutdown = async move {
            tokio::select! {
                () = shutdown => {}
                () = fenced.fenced() => warn!("another gateway has taken the Telegram bridge over"),
            }
        };
        tokio::pin!(shutdown);
        let bridge = tokio::select! {
            bridge = Bridge::connect(self.config.clone()) => bridge?,
            () = &mut shutdown => return Ok(()),
        };
        info!(bot = bridge.bot_name(), gateway, "the Telegram bridge runs in this gateway");
        let store = Arc::new(FleetStore(state));
        Ok(bridge.run_with(self.sessions.clone(), store, shutdown).await?)
    }
}

/// The state of the bridge on the fleet's servers.
#[derive(Debug)]
struct FleetStore(Arc<FencedState>);

impl StateStore for FleetStore {
    fn read(&self) -> StoreFuture<'_, Vec<(String, Vec<u8>)>> {
        Box::pin(async {
            Ok(self.0.read().await.map_err(|it| store_error(&it))?.into_iter().collect())
        })
    }

    fn write(&self, changes: Vec<StateChange>) -> StoreFuture<'_, ()> {
        Box::pin(async { self.0.write(in_order(changes)).await.map_err(|it| store_error(&it)) })
    }
}

fn store_error(error: &StateError) -> StateStoreError {
    StateStoreError::Other(format!("the fleet's servers: {error}"))
}

/// The last change of each key, values before removals: a process that is killed in between has done too much
/// of what can be repeated, and forgets nothing.
fn in_order(changes: Vec<StateChange>) -> Vec<(String, Option<Vec<u8>>)> {
    let mut last: BTreeMap<String, (usize, Option<Vec<u8>>)> = BTreeMap::new();
    for (number, StateChange { key, value }) in changes.into_iter().enumerate() {
        last.insert(key, (number, value));
    }
    let mut ordered: Vec<_> = last.into_iter().collect();
    ordered.sort_by_key(|(_, (number, value))| (value.is_none(), *number));
    ordered.into_iter().map(|(key, (_, value))| (key, value)).collect()
}

#[cfg(test)]
mod tests {
    use journal::StateChange;

    use super::in_order;

    #[test]
    fn values_are_written_before_removals_and_each_key_once() {
        let change = |key: &str, value: Option<&str>| StateChange {
            key: key.to_owned(),
            value: value.map(|it| it.as_bytes().to_vec()),
        };
        let ordered = in_order(vec![
            change("update/1", None),
            change("place/1", Some("old")),
            change("offset", Some("2")),
            change("place/1", Some("new")),
        ]);
        let ordered: Vec<_> = ordered
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_deref().map(String::from_utf8_lossy)))
            .collect();
        let expected =
            [("offset", Some("2".into())), ("place/1", Some("new".into())), ("update/1", None)];
        assert_eq!(ordered, expected);
    }
}
