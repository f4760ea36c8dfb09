//! What `towpath serve` says on a terminal.

use crate::home::TestHome;
use crate::screen::Terminal;

#[test]
fn a_server_on_a_terminal_says_what_it_serves_how_to_reach_it_and_how_to_stop_it() {
    let home = TestHome::new();
    let work = home.work().display().to_string();
    let serve = ["serve", "--demo", "--root", &work, "--listen"];
    let mut alone = Terminal::start(&home, &[&serve[..], &["127.0.0.1:0"]].concat());
    for words in ["is ready", "Open", "http://127.0.0.1:", "/#token=", "Folders", &work, "Phone"] {
        alone.wait_for(words);
    }
    alone.wait_for("--listen 0.0.0.0:");
    alone.wait_for("Ctrl-C leaves agents running");
    alone.terminate();
    let (code, screen) = alone.end();
    assert!(code == 0 && !screen.contains('█'), "no code that leads nowhere:\n{screen}");

    let reachable = [&serve[..], &["0.0.0.0:0", "--without-tls"]].concat();
    let mut reachable = Terminal::start(&home, &reachable);
    reachable.wait_for("http://127.0.0.1:");
    reachable.wait_for("Ctrl-C leaves agents running");
    reachable.terminate();
    let (code, screen) = reachable.end();
    assert!(code == 0 && !screen.contains("0.0.0.0:"), "nobody can open that:\n{screen}");
    // A machine without a network has no address for a phone.
    let has_network = !screen.contains("no network");
    assert_eq!(screen.contains('█'), has_network, "{screen}");
    assert_eq!(screen.contains("Not encrypted"), has_network, "{screen}");
}
