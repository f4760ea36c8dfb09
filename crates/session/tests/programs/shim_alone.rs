//! The shim without the rest of Towpath, and owners to be killed, for tests.
//!
//! - `shim-alone __shim` is a shim.
//! - `shim-alone listen DIR FILE` owns the shim in `DIR` and appends the agent's output to `FILE`.
//! - `shim-alone write DIR COUNT` writes the numbers up to `COUNT` to the agent, one per line.
//! - `shim-alone hello SOCKET` sends a hello without looking whose socket it is, and prints the
//!   length of the answer.
//!
//! `listen` and `write` continue where the owner before them was killed.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use towpath_session::shim::{
    AttachError, RunId, ShimCommand, ShimConnection, ShimEvent, StdinState, read_leftovers,
    run_shim,
};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["__shim"] => std::process::exit(run_shim()),
        ["listen", directory, file] => runtime()?.block_on(listen(directory.as_ref(), file)),
        ["write", directory, count] => {
            runtime()?.block_on(write(directory.as_ref(), count.parse()?))
        }
        ["hello", socket] => hello(socket),
        _ => Err("`__shim`, `listen DIR FILE`, `write DIR COUNT` or `hello SOCKET`".into()),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn hello(socket: &str) -> Result<(), Box<dyn Error>> {
    let hello = br#"{"version":{"major":1,"minor":0},"from":0}"#;
    let mut socket = UnixStream::connect(socket)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    socket.write_all(&[1, u8::try_from(hello.len())?, 0, 0, 0])?;
    socket.write_all(hello)?;
    let answered = socket.read(&mut [0; 64])?;
    writeln!(std::io::stdout(), "{answered}")?;
    Ok(())
}

async fn listen(directory: &Path, file: &str) -> Result<(), Box<dyn Error>> {
    let mut file = OpenOptions::new().create(true).append(true).open(file)?;
    let mut stored = file.metadata()?.len();
    let mut connection = match ShimConnection::attach(directory, stored).await {
        Ok((_, connection)) => connection,
        Err(AttachError::NotRunning) => return Ok(finish(directory, stored, &mut file)?),
        Err(error) => return Err(error.into()),
    };
    while let Some(event) = connection.next().await {
        match event {
            ShimEvent::Output { offset, bytes } => {
                assert_eq!(offset, stored, "output comes without a gap");
                file.write_all(&bytes)?;
                stored = file.metadata()?.len();
                connection.send(ShimCommand::Acknowledge(stored)).await?;
            }
            ShimEvent::Exited { end, .. } => {
                assert_eq!(end, stored, "all output comes before the exit");
                connection.send(ShimCommand::Detach).await?;
                connection.close().await;
                return Ok(());
            }
            _ => {}
        }
    }
    Err("the shim is gone".into())
}

/// The agent exited while it had no owner.
fn finish(directory: &Path, stored: u64, file: &mut File) -> std::io::Result<()> {
    let mut leftovers = read_leftovers(directory, RunId(1), stored)?;
    assert_eq!(leftovers.start, stored, "only acknowledged output is gone");
    assert!(leftovers.exit.is_some(), "it exited by itself");
    std::io::copy(&mut leftovers, file)?;
    Ok(())
}

async fn write(directory: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let (hello, mut connection) = match ShimConnection::attach(directory, u64::MAX).await {
        Ok(attached) => attached,
        // The owner before had already closed stdin.
        Err(AttachError::NotRunning) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if hello.stdin == StdinState::Closed {
        return Ok(());
    }
    // The last number again, like an owner that cannot know whether it arrived.
    for number in hello.last_write.max(1)..=count {
        let bytes = format!("{number}\n").into_bytes();
        connection.send(ShimCommand::Write { number, bytes }).await?;
    }
    while let Some(event) = connection.next().await {
        if event == ShimEvent::Written(count) {
            connection.send(ShimCommand::CloseStdin).await?;
            connection.close().await;
            return Ok(());
        }
    }
    Err("the shim is gone".into())
}
