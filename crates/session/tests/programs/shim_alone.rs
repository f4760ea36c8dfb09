//! The shim without the rest of Towpath, and owners to be killed, for tests.
//!
//! `shim-alone __shim` is a shim. `shim-alone listen DIR FILE` owns the one in `DIR` and appends the
//! agent's output to `FILE`. `shim-alone speak DIR COUNT` writes the numbers up to `COUNT` to the
//! agent, a line each. Both go on where the owner before them was killed. `shim-alone call SOCKET` says
//! hello without looking whose socket it is, and prints how much it was answered.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use towpath_session::shim::{AttachError, Link, News, Order, Run, Stdin, remains, run_shim};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["__shim"] => std::process::exit(run_shim()),
        ["listen", directory, file] => runtime()?.block_on(listen(directory.as_ref(), file)),
        ["speak", directory, count] => {
            runtime()?.block_on(speak(directory.as_ref(), count.parse()?))
        }
        ["call", socket] => call(socket),
        _ => Err("`__shim`, `listen DIR FILE`, `speak DIR COUNT` or `call SOCKET`".into()),
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn call(socket: &str) -> Result<(), Box<dyn Error>> {
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
    let mut kept = file.metadata()?.len();
    let mut link = match Link::attach(directory, kept).await {
        Ok((_, link)) => link,
        Err(AttachError::Nobody) => return Ok(finish(directory, kept, &mut file)?),
        Err(error) => return Err(error.into()),
    };
    while let Some(news) = link.next().await {
        match news {
            News::Output { offset, bytes } => {
                assert_eq!(offset, kept, "output comes without a gap");
                file.write_all(&bytes)?;
                kept = file.metadata()?.len();
                link.order(Order::Kept(kept)).await?;
            }
            News::Exited { end, .. } => {
                assert_eq!(end, kept, "all of it comes before the end");
                link.order(Order::Bye).await?;
                link.close().await;
                return Ok(());
            }
            _ => {}
        }
    }
    Err("the shim is gone".into())
}

/// The agent has ended while nobody was there.
fn finish(directory: &Path, kept: u64, file: &mut File) -> std::io::Result<()> {
    let mut remains = remains(directory, Run(1), kept)?;
    assert_eq!(remains.start, kept, "nothing is gone that was not kept");
    assert!(remains.exit.is_some(), "it ended by itself");
    std::io::copy(&mut remains, file)?;
    Ok(())
}

async fn speak(directory: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let (greeting, mut link) = match Link::attach(directory, u64::MAX).await {
        Ok(attached) => attached,
        // The owner before came as far as to close stdin.
        Err(AttachError::Nobody) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if greeting.stdin == Stdin::Closed {
        return Ok(());
    }
    // The last one again, as an owner does who cannot know whether it went through.
    for number in greeting.last_write.max(1)..=count {
        let bytes = format!("{number}\n").into_bytes();
        link.order(Order::Write { number, bytes }).await?;
    }
    while let Some(news) = link.next().await {
        if news == News::Written(count) {
            link.order(Order::CloseStdin).await?;
            link.close().await;
            return Ok(());
        }
    }
    Err("the shim is gone".into())
}
