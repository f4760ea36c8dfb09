//! The task that brings files to one target, one after the other.
//!
//! What fails is tried again after a pause that doubles, so often and no more; what cannot get
//! better is not tried again. A target that hangs holds up its own courier only.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::outbox::{Outbox, Parcel};
use crate::place::Project;
use crate::progress::Progress;
use crate::remark::Remark;
use crate::report::{EntryNumber, Status};
use crate::settings::Patience;
use crate::target::{Arrival, Target, Trouble};
use crate::work::Done;

/// What came of some changes at one target.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) entries: Vec<EntryNumber>,
    pub(crate) status: Status,
    pub(crate) reason: Option<String>,
}

/// The courier.
pub(crate) struct Courier {
    pub(crate) target: Target,
    pub(crate) project: Project,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) patience: Patience,
    /// Full is waited for: whoever settles reports never waits for a courier.
    pub(crate) done: mpsc::Sender<Done>,
    pub(crate) remarks: mpsc::Sender<Remark>,
}

impl Courier {
    pub(crate) async fn run(mut self) {
        while let Some(parcel) = self.outbox.next().await {
            let delivery = self.deliver(parcel).await;
            if self.done.send(Done::Delivered(delivery)).await.is_err() {
                return;
            }
        }
    }

    async fn deliver(&mut self, mut parcel: Parcel) -> Delivery {
        let path = parcel.file.relative.clone();
        let name = self.target.name().to_owned();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let progress = Progress::new(path.clone(), name.clone(), self.remarks.clone());
            let push = self.target.push(&self.project, &parcel, progress);
            let outcome = timeout(self.patience.limit, push).await.unwrap_or_else(|_| {
                let limit = self.patience.limit.as_secs_f32();
                Err(Trouble::Passing(format!("took longer than {limit} s")))
            });
            let (reason, lasting) = match outcome {
                Ok(arrival) => return self.arrived(parcel, &name, arrival).await,
                Err(Trouble::Passing(reason)) => (reason, false),
                Err(Trouble::Lasting(reason)) => (reason, true),
            };
            if lasting || attempt >= self.patience.attempts {
                let path = path.to_string_lossy().into_owned();
                let reason_too = reason.clone();
                self.say(Remark::Failed { path, target: name, reason: reason_too }).await;
                let entries = parcel.entries;
                return Delivery { entries, status: Status::Failed, reason: Some(reason) };
            }
            let target = name.clone();
            self.say(Remark::Retrying { path: path.clone(), target, reason }).await;
            sleep(self.patience.pause_after(attempt)).await;
            if let Some(newer) = self.outbox.take(&parcel.file) {
                parcel.absorb(newer);
            }
        }
    }

    async fn arrived(&self, parcel: Parcel, target: &str, arrival: Arrival) -> Delivery {
        let path = parcel.file.relative;
        let (status, reason) = match arrival {
            Arrival::Written => (Status::Pushed, None),
            Arrival::Deleted => (Status::Pushed, Some("deleted".to_owned())),
            Arrival::Nothing(why) => (Status::Skipped, Some(why)),
        };
        let remark = match (status, &reason) {
            (Status::Skipped, Some(reason)) => {
                let path = path.to_string_lossy().into_owned();
                Remark::Skipped { path, reason: reason.clone() }
            }
            (_, note) => Remark::Pushed { path, target: target.to_owned(), note: note.clone() },
        };
        self.say(remark).await;
        Delivery { entries: parcel.entries, status, reason }
    }

    async fn say(&self, remark: Remark) {
        // Nobody listens any more once everything is over.
        let _ = self.remarks.send(remark).await;
    }
}
