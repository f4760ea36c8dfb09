//! What programs print becomes the same screen, however it arrives.

use proptest::prelude::*;
use towpath_terminal::{
    ColorPart, CursorShape, MouseReports, Screen, ScreenRow, ScreenSize, TextAttribute,
};

/// Recorded output of programs on a screen of 80 × 24, and what another emulator (tmux) shows.
const RECORDINGS: [(&str, &[u8], &str); 3] = [
    ("vim", include_bytes!("recordings/vim.bin"), include_str!("recordings/vim.txt")),
    ("less", include_bytes!("recordings/less.bin"), include_str!("recordings/less.txt")),
    ("ls", include_bytes!("recordings/ls.bin"), include_str!("recordings/ls.txt")),
];

fn screen_of(size: ScreenSize, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(size);
    screen.advance(bytes);
    screen
}

fn show(bytes: &[u8]) -> Screen {
    screen_of(ScreenSize::default(), bytes)
}

fn texts(screen: &mut Screen) -> Vec<String> {
    screen.rows().iter().map(|it| it.text().trim_end().to_owned()).collect()
}

fn rows(screen: &mut Screen) -> Vec<ScreenRow> {
    screen.rows().iter().map(|it| (**it).clone()).collect()
}

#[test]
fn recorded_programs_look_as_in_another_emulator() {
    for (name, bytes, expected) in RECORDINGS {
        let expected: Vec<&str> = expected.lines().map(str::trim_end).collect();
        let mut shown = texts(&mut show(bytes));
        shown.truncate(expected.len());
        assert_eq!(shown, expected, "{name}");
    }
    let vim = show(RECORDINGS[0].1).head();
    assert!(vim.alternate && vim.cursor.is_some());
}

#[test]
fn colors_and_attributes_become_runs() {
    let mut screen = show(
        b"\x1b[1;31mred\x1b[0m plain \x1b[38;5;208;48;2;1;2;3mfixed\x1b[0m\x1b[2;3;4;9;7mall\x1b[m   ",
    );
    let row = &rows(&mut screen)[0];
    assert_eq!(row.text(), "red plain fixedall");
    let [red, plain, fixed, all] = row.runs.as_slice() else { panic!("{row:?}") };
    assert_eq!(red.foreground, Some(ColorPart::Theme(1)));
    assert_eq!(red.attributes, [TextAttribute::Bold]);
    assert_eq!((plain.foreground, plain.background, plain.cells), (None, None, None));
    assert_eq!(fixed.foreground, Some(ColorPart::Fixed(255, 135, 0)));
    assert_eq!(fixed.background, Some(ColorPart::Fixed(1, 2, 3)));
    assert_eq!(all.attributes.len(), 5, "{:?}", all.attributes);
}

#[test]
fn wide_and_combined_characters_keep_to_their_columns() {
    let mut screen = show("a世b e\u{301}─x".as_bytes());
    let row = &rows(&mut screen)[0];
    let runs: Vec<_> = row.runs.iter().map(|it| (it.text.as_str(), it.cells)).collect();
    let expected =
        [("a", None), ("世", Some(2)), ("b ", None), ("e\u{301}─", Some(2)), ("x", None)];
    assert_eq!(runs, expected);
    assert_eq!(screen.head().cursor.map(|it| it.column), Some(8));
}

#[test]
fn a_resize_breaks_lines_anew_and_loses_none() {
    let line: String = ('a'..='z').cycle().take(100).collect();
    let mut screen = show(format!("{line}\r\nsecond\r\n").as_bytes());
    let before = texts(&mut screen);
    assert_eq!((before[0].len(), before[1].len()), (80, 20));
    assert!(rows(&mut screen)[0].wrapped);
    screen.resize(ScreenSize::new(40, 24));
    // A line that no longer fits is in the scrollback.
    assert_eq!(screen.scrollback(0, 10).1[0].text(), before[0][..40]);
    let lengths: Vec<_> = texts(&mut screen)[..3].iter().map(String::len).collect();
    assert_eq!(lengths, [40, 20, 6]);
    screen.resize(ScreenSize::new(120, 24));
    assert_eq!(texts(&mut screen)[0], line);
    screen.resize(ScreenSize::new(0, u16::MAX));
    assert_eq!(screen.size(), ScreenSize::new(2, ScreenSize::MAX_ROWS));
}

#[test]
fn the_scrollback_is_bounded_and_its_lines_keep_their_numbers() {
    let mut screen = show(b"");
    let print = |screen: &mut Screen, numbers: std::ops::Range<usize>| {
        for number in numbers {
            screen.advance(format!("line {number}\r\n").as_bytes());
        }
    };
    print(&mut screen, 0..1000);
    let head = screen.head();
    assert_eq!((head.top, head.oldest), (977, 0));
    let (first, lines) = screen.scrollback(500, 3);
    assert_eq!((first, lines[0].text().as_str()), (500, "line 500"));
    assert_eq!(lines.len(), 3);
    print(&mut screen, 1000..8000);
    let head = screen.head();
    assert_eq!((head.top, head.oldest), (7977, 2977));
    let (first, lines) = screen.scrollback(0, 2);
    assert_eq!((first, lines[0].text().as_str()), (2977, "line 2977"));
    assert_eq!(screen.scrollback(7976, 100).1[0].text(), "line 7976");
    assert_eq!(screen.scrollback(u64::MAX, 100).1.len(), 0);
    // One piece of output with more lines than are kept.
    screen.advance(&b"\x1b[20S".repeat(1000));
    let later = screen.head();
    assert!(later.oldest >= head.top, "{later:?}");
    // A wide screen has fewer lines, because each takes more memory.
    screen.resize(ScreenSize::new(300, 24));
    print(&mut screen, 0..5000);
    let wide = screen.head();
    assert!((1000..2000).contains(&(wide.top - wide.oldest)), "{wide:?}");
    assert_eq!(screen.scrollback(wide.top - 1, 1).1[0].text(), "line 4976");
    // A program that clears the scrollback.
    screen.advance(b"\x1b[3J");
    let cleared = screen.head();
    assert_eq!(cleared.top, cleared.oldest);
    // Programs that use the whole screen have none, and leave it as it was.
    print(&mut screen, 0..100);
    let before = screen.head();
    screen.advance(b"\x1b[?1049hfull\r\n\r\n");
    assert_eq!(screen.scrollback(before.oldest, 10).1.len(), 0);
    screen.advance(b"\x1b[?1049l");
    assert_eq!(screen.scrollback(before.oldest, 10).1.len(), 10);
}

#[test]
fn queries_are_answered_and_the_clipboard_is_out_of_reach() {
    let mut screen = show(b"");
    assert_eq!(screen.advance(b"\x1b[5n"), ["\x1b[0n"]);
    assert_eq!(screen.advance(b"ab\x1b[6n"), ["\x1b[1;3R"]);
    assert!(screen.advance(b"\x1b[c")[0].starts_with("\x1b[?"));
    let clipboard: &[&[u8]] =
        &[b"\x1b]52;c;cm0gLXJmIC8=\x07", b"\x1b]52;c;?\x07", b"\x1b]0;rm -rf\x07\x1b[21t"];
    for attack in clipboard {
        assert!(screen.advance(attack).is_empty(), "{attack:?}");
    }
    assert_eq!(screen.head().title, "rm -rf");
    screen.advance(format!("\x1b]0;{}\x07", "t".repeat(5000)).as_bytes());
    assert_eq!(screen.head().title.len(), 200);
    assert!(screen.advance(&b"\x1b[6n".repeat(100_000)).len() <= 64);
}

#[test]
fn modes_of_programs_are_known() {
    let mut screen = show(b"\x1b[?1h\x1b[?2004h\x1b[?1000h\x1b[?1006h\x1b[5 q");
    let head = screen.head();
    assert!(head.application_cursor && head.bracketed_paste && !head.alternate);
    assert_eq!(head.mouse, MouseReports::Clicks);
    assert_eq!(head.cursor.map(|it| it.shape), Some(CursorShape::Beam));
    screen.advance(b"\x1b[?25l\x1b[?1006l\x1b[?2026hshown at once");
    assert_eq!((screen.head().cursor, screen.head().mouse), (None, MouseReports::None));
    assert_eq!(texts(&mut screen)[0], "shown at once");
}

/// Bytes that resemble the output of programs more than random ones do.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let sequence = prop_oneof![
        any::<Vec<u8>>(),
        "[a-z 世👩é\u{301}\u{200d}]{0,40}".prop_map(String::into_bytes),
        "\x1b\\[[?>]?[0-9]{0,4};?[0-9]{0,3}[@-~]".prop_map(String::into_bytes),
        "\x1b[\\]PX^_][0-9]{0,2};[a-z]{0,20}(\x07|\x1b\\\\)?".prop_map(String::into_bytes),
        "(\r\n|\n|\t|\x08|\x1b[78DEHMc]){1,60}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(sequence, 0..60).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_output_in_any_pieces_gives_the_same_screen(
        bytes in output(),
        pieces in prop::collection::vec(1..50_usize, 1..20),
        size in (2..120_u16, 2..60_u16),
        other in (2..120_u16, 2..60_u16),
    ) {
        let (size, other) = (ScreenSize::new(size.0, size.1), ScreenSize::new(other.0, other.1));
        let mut whole = screen_of(size, &bytes);
        let mut piecewise = Screen::new(size);
        let (mut rest, mut lengths) = (bytes.as_slice(), pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(rest.len().min(*lengths.next().unwrap()));
            piecewise.advance(piece);
            rest = more;
        }
        prop_assert_eq!(rows(&mut whole), rows(&mut piecewise));
        prop_assert_eq!(whole.head().cursor, piecewise.head().cursor);
        prop_assert_eq!(whole.head().title, piecewise.head().title);
        for screen in [&mut whole, &mut piecewise] {
            screen.resize(other);
            screen.advance(&bytes);
            let head = screen.head();
            let (first, lines) = screen.scrollback(head.oldest, usize::MAX >> 1);
            prop_assert_eq!(first + lines.len() as u64, head.top);
            prop_assert_eq!(screen.rows().len(), usize::from(other.rows()));
        }
    }
}
