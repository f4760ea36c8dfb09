//! All captured output of the real CLI is read as known events and reproduced byte for byte.

use towpath_wire::{Dialect, Kind, PieceEnd, Reading, Splitter, read};

#[test]
fn nothing_in_a_capture_is_unknown_or_mismatched() {
    let mut problems = Vec::new();
    for (path, bytes) in crate::recordings::all() {
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            for line in read(line) {
                let problem = match &line.reading {
                    Reading::Event(event) => event.unmodelled().join(", "),
                    Reading::Unknown(unknown) => format!("unknown {}", unknown.kind),
                    Reading::Mismatch(it) => format!("mismatch {}: {}", it.kind, it.reason),
                    Reading::Noise(_) => String::new(),
                };
                if !problem.is_empty() {
                    problems.push(format!("{}:{}: {problem}", path.display(), number + 1));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn captures_are_reproduced_byte_for_byte_at_any_chunk_size() {
    for (path, bytes) in crate::recordings::all() {
        for chunk_size in [7, 1000, 1 << 20] {
            let mut splitter = Splitter::with_cap(30_000);
            let mut output = Vec::new();
            let mut write = |piece: towpath_wire::Piece<'_>| {
                if piece.is_whole() {
                    read(piece.bytes).for_each(|line| output.extend_from_slice(line.bytes));
                } else {
                    output.extend_from_slice(piece.bytes);
                }
                if piece.end == PieceEnd::Newline {
                    output.push(b'\n');
                }
            };
            for chunk in bytes.chunks(chunk_size) {
                let mut pieces = splitter.feed(chunk);
                while let Some(piece) = pieces.next() {
                    write(piece);
                }
            }
            splitter.finish().into_iter().for_each(&mut write);
            assert!(output == bytes, "{} in chunks of {chunk_size}", path.display());
        }
    }
}

#[test]
fn kind_find_agrees_with_read() {
    for (path, bytes) in crate::recordings::all() {
        for line in bytes.split(|&byte| byte == b'\n') {
            let Some(first) = read(line).next() else { continue };
            // Only `read` supports arrays and prefixes.
            if first.dialect == Dialect::JsonArray || !line.starts_with(b"{") {
                continue;
            }
            let found = Kind::find(line).map(|kind| kind.to_string());
            let read = first.kind().map(|kind| kind.to_string());
            assert_eq!(found, read, "{}", path.display());
        }
    }
}

#[test]
fn session_files_and_streams_are_distinguished() {
    for (path, bytes) in crate::recordings::of_claude() {
        let in_transcript = path.components().any(|part| part.as_os_str() == "transcript");
        for line in bytes.split(|&byte| byte == b'\n').flat_map(read) {
            let expected = match line.event().map(|event| event.kind.to_string()).as_deref() {
                None => continue,
                Some(_) if in_transcript => [Dialect::Transcript].as_slice(),
                Some(_) => &[Dialect::StreamJson, Dialect::JsonArray],
            };
            assert!(expected.contains(&line.dialect), "{}: {line:?}", path.display());
        }
    }
}
