//! Real shells.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use towpath_terminal::{
    MAX_OF_SESSION, MAX_TERMINALS, ScreenSize, ShellConfig, ShellExit, StartError, Terminal,
    Terminals, Viewer, ViewerEvent,
};
use uuid::Uuid;

/// Longer than anything takes on a loaded machine.
const TIMEOUT: Duration = Duration::from_mins(1);

const SESSION: Uuid = Uuid::from_u128(1);

fn terminals(home: &Path) -> Terminals {
    let pairs = [
        ("SHELL", "/bin/sh".as_ref()),
        ("PATH", "/usr/bin:/bin".as_ref()),
        ("HOME", home.as_os_str()),
        ("PS1", "$ ".as_ref()),
        ("TMUX", "outside".as_ref()),
    ];
    let environment = pairs.map(|(name, value)| (name.into(), value.into())).to_vec();
    Terminals::new(ShellConfig { environment })
}

async fn type_in(viewer: &Viewer, text: &str) {
    let input = viewer.input().expect("a running shell");
    let sent = timeout(TIMEOUT, input.send(text.as_bytes().to_vec())).await;
    sent.expect("in time").expect("a shell that reads");
}

fn shown(terminal: &Terminal) -> String {
    let rows = terminal.with_screen(|it| it.rows().to_vec());
    rows.iter().map(|it| it.text() + "\n").collect()
}

/// Waits until the screen has a line that ends with this. A prompt may be before it.
async fn until_line(viewer: &mut Viewer, line: &str) {
    let wait = async {
        while !shown(viewer.terminal()).lines().any(|it| it.trim_end().ends_with(line)) {
            if let ViewerEvent::Ended(exit) = viewer.next().await {
                panic!("the shell ended: {exit:?}\n{}", shown(viewer.terminal()));
            }
        }
    };
    let shown_in_time = timeout(TIMEOUT, wait).await.is_ok();
    assert!(shown_in_time, "`{line}` was not shown:\n{}", shown(viewer.terminal()));
}

async fn end_of(viewer: &mut Viewer) -> ShellExit {
    let wait = async {
        loop {
            if let ViewerEvent::Ended(exit) = viewer.next().await {
                return exit;
            }
        }
    };
    timeout(TIMEOUT, wait).await.expect("it ends")
}

fn start(terminals: &Terminals, directory: &Path) -> Arc<Terminal> {
    terminals.start(SESSION, directory, ScreenSize::default(), None).expect("a shell")
}

fn is_alive(process: &str) -> bool {
    Path::new("/proc").join(process).join("stat").exists()
        && !std::fs::read_to_string(format!("/proc/{process}/stat"))
            .is_ok_and(|it| it.contains(") Z "))
}

#[tokio::test]
async fn a_shell_runs_in_its_directory_with_the_given_environment() {
    let home = tempfile::tempdir().unwrap();
    let terminals = terminals(home.path());
    let mut viewer = start(&terminals, home.path()).view();
    type_in(&viewer, "echo \"dir=$(pwd)\" \"term=$TERM$TMUX\" \"$0\"; stty size\r").await;
    let line = format!("dir={} term=xterm-256color -sh", home.path().display());
    until_line(&mut viewer, &line).await;
    until_line(&mut viewer, "24 80").await;
    type_in(&viewer, "exit 3\r").await;
    assert_eq!(end_of(&mut viewer).await, ShellExit::Code(3));
    assert!(viewer.input().is_none());
    assert_eq!(viewer.terminal().ended(), Some(ShellExit::Code(3)));
    assert!(shown(viewer.terminal()).contains("term=xterm"), "the screen stays");
    let missing = terminals.start(SESSION, &home.path().join("no"), ScreenSize::default(), None);
    assert!(matches!(missing, Err(StartError::Shell(_))), "{missing:?}");
}

#[tokio::test]
async fn all_viewers_see_the_same_and_the_one_who_types_decides_on_the_size() {
    let home = tempfile::tempdir().unwrap();
    let terminals = terminals(home.path());
    let terminal = start(&terminals, home.path());
    let (mut wide, mut narrow) = (terminal.view(), terminal.view());
    wide.resize(ScreenSize::new(120, 30));
    narrow.resize(ScreenSize::new(40, 20));
    type_in(&wide, "stty size\r").await;
    until_line(&mut wide, "30 120").await;
    type_in(&narrow, "stty size\r").await;
    until_line(&mut narrow, "20 40").await;
    until_line(&mut wide, "20 40").await;
    // It keeps the size of the one who left until another one types.
    drop(narrow);
    let mut late = terminal.view();
    let ViewerEvent::Updated(first) = late.next().await else { panic!("it runs") };
    assert!(first.is_whole && first.head.size == ScreenSize::new(40, 20));
    type_in(&wide, "stty size\r").await;
    until_line(&mut wide, "30 120").await;
}

#[tokio::test]
async fn updates_that_are_applied_give_the_screen() {
    let home = tempfile::tempdir().unwrap();
    let terminals = terminals(home.path());
    let terminal = start(&terminals, home.path());
    let mut viewer = terminal.view();
    type_in(
        &viewer,
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo \"line $i\"; [ $((i % 500)) = 0 ] && sleep 0.05; done; echo over\r",
    )
    .await;
    let mut lines = std::collections::BTreeMap::new();
    let (mut frames, mut top) = (0, 0);
    loop {
        let event = timeout(TIMEOUT, viewer.next()).await.unwrap();
        let ViewerEvent::Updated(update) = event else { panic!("it runs") };
        frames += 1;
        let jumped = update.head.top > top + u64::from(update.head.size.rows());
        if update.is_whole || jumped {
            lines.clear();
        }
        top = update.head.top;
        lines.extend(update.lines);
        let rows = terminal.with_screen(|it| it.rows().to_vec());
        if rows.iter().any(|it| it.text() == "over")
            && terminal.with_screen(|it| it.head()) == update.head
        {
            for (number, row) in (top..).zip(rows) {
                assert_eq!(lines.get(&number), Some(&row), "{number}");
            }
            break;
        }
    }
    let (first, all) = terminal.with_screen(|it| it.scrollback(0, 5000));
    for (number, row) in (first..).zip(all) {
        assert!(lines.get(&number).is_none_or(|it| *it == row), "line {number} is out of date");
    }
    assert!(frames < 1000, "{frames} frames");
}

#[tokio::test]
async fn closing_ends_the_program_in_the_foreground_even_if_it_ignores_hangups() {
    if !Path::new("/proc/self/stat").exists() {
        println!("skipped: there is no /proc to see processes in");
        return;
    }
    if !Path::new("/proc/self/stat").exists() {
        println!("skipped: there is no /proc to see processes in");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let terminals = terminals(home.path());
    let mut viewer = start(&terminals, home.path()).view();
    type_in(
        &viewer,
        "echo shell=$$; sh -c 'trap \"\" HUP TERM; echo program=$$; while :; do sleep 1; done'\r",
    )
    .await;
    let number = |name: &str, text: &str| {
        let after = text.match_indices(name).map(|(at, _)| &text[at + name.len()..]);
        let digits = |it: &str| it.chars().take_while(char::is_ascii_digit).collect::<String>();
        after.map(digits).find(|it| !it.is_empty())
    };
    let processes = async {
        loop {
            let text = shown(viewer.terminal());
            if let (Some(shell), Some(program)) =
                (number("shell=", &text), number("program=", &text))
            {
                return [shell, program];
            }
            viewer.next().await;
        }
    };
    let processes = timeout(TIMEOUT, processes).await.unwrap();
    assert!(processes.iter().all(|it| is_alive(it)), "{processes:?}");
    // What was typed and not sent must not be run by the hangup.
    type_in(&viewer, "touch typed").await;
    assert!(timeout(TIMEOUT, terminals.close(SESSION, 1)).await.unwrap());
    assert!(matches!(end_of(&mut viewer).await, ShellExit::Signal(_) | ShellExit::Code(_)));
    let gone = async {
        while processes.iter().any(|it| is_alive(it)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TIMEOUT, gone).await.unwrap_or_else(|_| panic!("{processes:?} still run"));
    assert!(!home.path().join("typed").exists());
    assert!(!terminals.close(SESSION, 1).await);
}

#[tokio::test]
async fn a_flood_takes_few_frames_and_no_more_memory() {
    let home = tempfile::tempdir().unwrap();
    let terminals = terminals(home.path());
    let mut viewer = start(&terminals, home.path()).view();
    type_in(&viewer, "yes \"$(printf '%0200d' 7)\"\r").await;
    let memory = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).map(str::trim);
        line.and_then(|it| it.split(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let top = |viewer: &Viewer| viewer.terminal().with_screen(|it| it.head().top);
    let lines = async |viewer: &mut Viewer, count: u64| {
        let mut frames = 0;
        while top(viewer) < count {
            viewer.next().await;
            frames += 1;
        }
        frames
    };
    let wait = timeout(TIMEOUT, lines(&mut viewer, 20_000));
    wait.await.expect("20,000 lines");
    let before = memory();
    let began = std::time::Instant::now();
    let frames = timeout(TIMEOUT, lines(&mut viewer, 60_000)).await.expect("60,000 lines");
    assert!(frames <= began.elapsed().as_millis() / 25 + 2, "{frames} in {:?}", began.elapsed());
    let after = memory();
    assert!(after < before + 8_000, "{before} kB before, {after} kB after");
    // It can still be interrupted.
    type_in(&viewer, "\x03").await;
    type_in(&viewer, "echo o''ver\r").await;
    until_line(&mut viewer, "over").await;
}

#[tokio::test]
async fn there_are_limits_and_ended_terminals_make_room() {
    let home = tempfile::tempdir().unwrap();
    let terminals = terminals(home.path());
    let size = ScreenSize::default();
    let all: Vec<_> = (0..MAX_OF_SESSION).map(|_| start(&terminals, home.path())).collect();
    assert_eq!(all.iter().map(|it| it.number()).max(), u32::try_from(MAX_OF_SESSION).ok());
    let more = terminals.start(SESSION, home.path(), size, None);
    assert!(matches!(more, Err(StartError::TooManyOfSession)));
    assert!(matches!(
        terminals.start(SESSION, home.path(), size, Some(2)),
        Err(StartError::StillRunning)
    ));
    for number in MAX_OF_SESSION..MAX_TERMINALS {
        let other = Uuid::from_u128(2 + number as u128);
        terminals.start(other, home.path(), size, None).unwrap();
    }
    let other = Uuid::from_u128(99);
    assert!(matches!(terminals.start(other, home.path(), size, None), Err(StartError::TooMany)));
    let mut viewer = all[1].view();
    type_in(&viewer, "exit\r").await;
    end_of(&mut viewer).await;
    let again = terminals.start(SESSION, home.path(), size, Some(2)).unwrap();
    assert!(again.number() == 2 && again.ended().is_none());
    let mut viewer = again.view();
    type_in(&viewer, "exit\r").await;
    end_of(&mut viewer).await;
    terminals.start(other, home.path(), size, None).unwrap();
    assert!(terminals.find(SESSION, 2).is_none(), "it made room");
    timeout(TIMEOUT, terminals.close_all()).await.expect("they all end");
    assert!(terminals.of_session(SESSION).is_empty());
}
