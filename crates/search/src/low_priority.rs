//! The thread that writes the index. It has a low priority, so that it never delays an agent.

use std::io;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::index_file::IndexFile;
use crate::index_writer::IndexWriter;

type WriterJob = Box<dyn FnOnce(&mut IndexWriter) + Send>;

/// A handle to the thread. It ends when the handle is dropped and its last job is done.
#[derive(Debug)]
pub(crate) struct WriterThread {
    /// A second job waits for the first: only one task indexes.
    jobs: mpsc::Sender<WriterJob>,
    /// Closed with the file.
    closed: oneshot::Receiver<()>,
}

impl WriterThread {
    /// Opens the index in a new thread. In the background, it takes only time that no other program needs.
    pub(crate) async fn start(file: IndexFile, in_background: bool) -> Result<Self, Error> {
        let (jobs, mut received) = mpsc::channel::<WriterJob>(1);
        let (opened, is_opened) = oneshot::channel();
        let (is_open, closed) = oneshot::channel::<()>();
        let path = file.path().to_owned();
        let run = move || {
            if in_background {
                lower_priority();
            }
            let mut writer = match IndexWriter::open(file) {
                Ok(writer) => writer,
                Err(error) => return drop(opened.send(Err(error))),
            };
            if opened.send(Ok(())).is_err() {
                return;
            }
            while let Some(job) = received.blocking_recv() {
                job(&mut writer);
            }
            drop(writer);
            drop(is_open);
        };
        let started = thread::Builder::new().name("search-index".to_owned()).spawn(run);
        let create = |source: io::Error| Error::Create { path, source };
        started.map_err(create)?;
        is_opened.await.map_err(|_| Error::Stopped)??;
        Ok(Self { jobs, closed })
    }

    /// Closes the file, and waits for that.
    pub(crate) async fn finish(self) {
        drop(self.jobs);
        let _ = self.closed.await;
    }

    /// Does something with the index.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut IndexWriter) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, replied) = oneshot::channel();
        let job = Box::new(move |writer: &mut IndexWriter| drop(reply.send(work(writer))));
        self.jobs.send(job).await.map_err(|_| Error::Stopped)?;
        replied.await.map_err(|_| Error::Stopped)?
    }
}

#[cfg(target_os = "linux")]
fn lower_priority() {
    // On Linux this is the priority of the calling thread alone. Without it, indexing is only less
    // polite.
    let _ = rustix::process::setpriority_process(None, 10);
}

#[cfg(not(target_os = "linux"))]
fn lower_priority() {}
