//! Taking over a session: from the journal, from a shim that lives, or from what a dead one left.

use std::collections::HashMap;

use journal::{Journal, SessionId, Status};
use tokio::sync::mpsc;
use tracing::info;
use wire::Splitter;

use super::draft::Draft;
use super::process::attach;
use super::{Mail, Owner, OwnerError, now};
use crate::home::Home;
use crate::machine::{Input, Machine, Origins};
use crate::options::Options;
use crate::shim::{Greeting, Link, Order, Ownership, Run, Terms};

impl Owner {
    /// Takes over a session that is in the journal.
    pub(crate) async fn arrive(
        id: SessionId,
        home: Home,
        journal: Journal,
        ownership: Ownership,
        mailbox: mpsc::Receiver<Mail>,
    ) -> Result<Self, OwnerError> {
        let record = journal.session(id).await?.ok_or(journal::Error::NoSuchSession(id))?;
        let options: Options = serde_json::from_str(&record.options).unwrap_or_default();
        let options = Options { directory: record.directory.clone(), ..options };
        let requests = journal.open_requests(Some(id)).await?;
        let open = matches!(record.status, Status::Running | Status::Waiting);
        let live = home.live_directory(id);
        let attached = match record.spool.run {
            0 => None,
            run => attach(&live, Run(run), record.spool.offset).await?,
        };
        let left_something =
            record.spool.run > 0 && crate::shim::leaves(&live, Run(record.spool.run));
        let machine = Machine::new(Origins {
            now: now(),
            session: id,
            limits: home.limits,
            options,
            prompts: journal.prompts(id).await?,
            requests: requests.into_iter().map(|(_, request)| request).collect(),
            turns: record.turn,
            turn_is_open: record.turn > record.turn_over,
            agent_lives: attached.is_some() || left_something || open,
            resumable: !record.agent_ids.is_empty(),
        });
        let mut owner = Self {
            id,
            home,
            journal,
            mailbox,
            machine,
            _ownership: ownership,
            link: None,
            orders: None,
            starting: None,
            run: record.spool.run,
            offset: record.spool.offset,
            writes: record.writes,
            splitter: Splitter::new(),
            stderr: Vec::new(),
            conversations: record.agent_ids,
            titled: record.title.is_some(),
            status: record.status,
            tickets: 0,
            replies: HashMap::new(),
            draft: Draft::default(),
            settling: None,
        };
        match attached {
            Some((greeting, link)) => {
                info!(session = %id, run = owner.run, from = owner.offset, "attached to a running agent");
                owner.attached(&greeting, link).await?;
                match greeting.terms {
                    Terms::Full => owner.step(Input::AgentMet).await?,
                    Terms::Core => owner.step(Input::AgentForeign).await?,
                }
            }
            None if left_something || open => {
                let gone = owner.read_remains().await?;
                owner.agent_gone(gone).await?;
            }
            None => owner.step(Input::Tick).await?,
        }
        Ok(owner)
    }

    /// Takes up a connection, and says what was written down to be said and did not reach the shim.
    pub(super) async fn attached(
        &mut self,
        greeting: &Greeting,
        link: Link,
    ) -> Result<(), OwnerError> {
        self.orders = Some(link.orders());
        self.link = Some(link);
        for outbound in self.journal.outbound(self.id).await? {
            if outbound.number > greeting.last_write {
                let bytes = outbound.bytes.to_vec();
                self.order(Order::Write { number: outbound.number, bytes }).await;
            }
        }
        Ok(())
    }
}
