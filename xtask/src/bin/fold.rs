//! Folds a file and says how many items its newest part has: for measuring the memory of that.

#![expect(clippy::print_stdout, reason = "a command-line program: results on stdout")]

use std::fs::File;
use std::io::Read as _;

use view::Fold;
use wire::Splitter;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).unwrap_or_default();
    let mut file = File::open(path)?;
    let mut splitter = Splitter::new();
    let mut chunk = vec![0; 1 << 16];
    let mut fold = Fold::new();
    let mut seq = 0;
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        let mut pieces = splitter.feed(&chunk[..length]);
        while let Some(piece) = pieces.next() {
            seq += 1;
            fold.push_line(seq, piece.bytes);
        }
    }
    println!("{} lines, {} items at hand", seq, fold.conversation(200).items.len());
    Ok(())
}
