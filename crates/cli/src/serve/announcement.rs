//! What a server prints when it is ready: a line for programs, or for a person on a terminal what it
//! serves, where, and how to reach it with a phone.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use anstream::{AutoStream, ColorChoice, eprintln};
use anstyle::{Ansi256Color, AnsiColor, Style};
use gateway::access::TokenSecret;
use qrcode::{Color, EcLevel, QrCode};
use serde::Serialize;

use super::arguments::ServeArgs;

const TITLE: Style = Style::new().bold();
const LABEL: Style = AnsiColor::Cyan.on_default().bold();

/// Two colours that no palette changes: scanners need dark on light.
const DARK_ON_LIGHT: Style = Style::new()
    .fg_color(Some(anstyle::Color::Ansi256(Ansi256Color(16))))
    .bg_color(Some(anstyle::Color::Ansi256(Ansi256Color(231))));

/// The light border around a code, in modules. Scanners manage with two on a screen.
const BORDER: usize = 2;

/// The indentation of everything, and the width of the labels.
const INDENT: usize = 2;
const LABEL_WIDTH: usize = 10;

/// The line that `--json` prints.
#[derive(Serialize)]
struct ReadyLine<'a> {
    url: &'a str,
    token: &'a str,
    pid: u32,
}

/// What a person is told on a terminal.
#[derive(Debug)]
struct StartupNotice<'a> {
    /// The address for a browser on this machine.
    here: String,
    token: &'a str,
    /// The address for other devices; none if they cannot reach the server.
    elsewhere: Option<String>,
    port: u16,
    is_encrypted: bool,
    is_loopback: bool,
    /// The name under which a proxy on this machine serves it.
    proxy: Option<&'a str>,
    folders: &'a [PathBuf],
    /// The columns of the terminal.
    width: usize,
    has_color: bool,
}

/// Prints where the server is, once it accepts connections.
pub(super) fn print(
    args: &ServeArgs,
    address: SocketAddr,
    token: Option<&TokenSecret>,
    folders: &[PathBuf],
) -> io::Result<()> {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let url = match args.hosts.first() {
        Some(name) if !address.ip().is_loopback() => {
            format!("{scheme}://{name}:{}", address.port())
        }
        _ => format!("{scheme}://{address}"),
    };
    let Some(token) = token else {
        eprintln!("listening on {url}");
        return Ok(());
    };
    let mut stdout = io::stdout().lock();
    if args.json {
        let ready = ReadyLine { url: &url, token: token.reveal(), pid: std::process::id() };
        let mut line = serde_json::to_vec(&ready)?;
        line.push(b'\n');
        stdout.write_all(&line)?;
    } else if stdout.is_terminal() {
        let width = terminal_size::terminal_size_of(&stdout).map_or(80, |(width, _)| width.0);
        let choice = AutoStream::choice(&stdout);
        let notice = StartupNotice {
            here: local_url(scheme, &url, address),
            token: token.reveal(),
            elsewhere: reachable_url(scheme, &url, address),
            port: address.port(),
            is_encrypted: args.tls_cert.is_some(),
            is_loopback: address.ip().is_loopback(),
            proxy: args.hosts.first().map(String::as_str),
            folders,
            width: usize::from(width),
            has_color: choice != ColorChoice::Never,
        };
        write!(AutoStream::new(&mut stdout, choice), "{}", notice.text())?;
    } else {
        writeln!(stdout, "{url}/#token={}", token.reveal())?;
    }
    stdout.flush()
}

/// The address for a browser on this machine.
fn local_url(scheme: &str, url: &str, address: SocketAddr) -> String {
    let port = address.port();
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("{scheme}://127.0.0.1:{port}"),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("{scheme}://[::1]:{port}"),
        _ => url.to_owned(),
    }
}

/// The address for other devices; none if they cannot reach the server, or if it is unknown.
fn reachable_url(scheme: &str, url: &str, address: SocketAddr) -> Option<String> {
    if address.ip().is_loopback() {
        return None;
    }
    // A name was given with `--host`, or an address of this machine with `--listen`.
    if !address.ip().is_unspecified() || !url.ends_with(&address.to_string()) {
        return Some(url.to_owned());
    }
    let own = network_address(address.ip())?;
    Some(format!("{scheme}://{}", SocketAddr::new(own, address.port())))
}

/// The address of this machine in its network: the one that it would use to reach the internet. The
/// socket sends nothing.
fn network_address(listening: IpAddr) -> Option<IpAddr> {
    let by_four = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // An address for documentation, which no host has.
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    let by_six = || -> io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))?;
        socket.connect((Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    let found = by_four().ok().or_else(|| listening.is_ipv6().then(by_six).and_then(Result::ok));
    found.filter(|it| !it.is_loopback() && !it.is_unspecified())
}

impl StartupNotice<'_> {
    fn text(&self) -> String {
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("\n{:INDENT$}{TITLE}Towpath {version} is ready{TITLE:#}\n\n", "");
        add(&mut text, "Open", &[format!("{}/#token={}", self.here, self.token)]);
        let folders: Vec<_> = self.folders.iter().map(|it| it.display().to_string()).collect();
        add(&mut text, "Folders", &folders);
        add(&mut text, "Phone", &self.phone());
        if let Some(code) = self.code() {
            text.push('\n');
            text.push_str(&code);
            text.push('\n');
        }
        let stop = "Ctrl-C leaves agents running; `towpath serve --stop` ends them too.";
        add(&mut text, "Stop", &[stop.to_owned()]);
        text.push('\n');
        text
    }

    fn phone(&self) -> Vec<String> {
        let port = self.port;
        let mut lines = Vec::new();
        match (&self.elsewhere, self.proxy) {
            (Some(url), _) => {
                lines.push(format!("{url}/#token={}", self.token));
                if !self.is_encrypted {
                    lines
                        .push("Not encrypted: use it only in a network that you trust.".to_owned());
                    lines.push("Notifications on a phone need HTTPS.".to_owned());
                }
            }
            (None, Some(name)) => {
                lines.push(format!("https://{name}/#token={}", self.token));
                lines.push("if your proxy or tunnel has that name.".to_owned());
            }
            (None, None) if self.is_loopback => {
                lines.push("Only this machine reaches that address. For a phone, use a".to_owned());
                lines.push(format!("tunnel with HTTPS (`tailscale serve {port}`, and its name as"));
                lines
                    .push("`--host NAME` here), or listen in a network that you trust:".to_owned());
                lines.push(format!("`--listen 0.0.0.0:{port} --without-tls`"));
            }
            (None, None) => lines.push("This machine has no network now.".to_owned()),
        }
        lines
    }

    /// The code of the link for other devices, if there is one and the terminal is wide enough.
    fn code(&self) -> Option<String> {
        let link = format!("{}/#token={}", self.elsewhere.as_ref()?, self.token);
        let code = QrCode::with_error_correction_level(link, EcLevel::L).ok()?;
        let indent = INDENT + LABEL_WIDTH;
        let columns = code.width() + 2 * BORDER;
        // On a narrow terminal the code starts at the edge.
        let indent = if indent + columns <= self.width { indent } else { 0 };
        (indent + columns <= self.width).then(|| draw(&code, indent, self.has_color))
    }
}

/// Adds a label, and lines beside it.
fn add(text: &mut String, label: &str, lines: &[String]) {
    for (index, line) in lines.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{:INDENT$}{LABEL}{label:<LABEL_WIDTH$}{LABEL:#}{line}", "");
    }
}

/// A code with two modules in each character. Without colours the light modules are drawn, because
/// most terminals are dark.
fn draw(code: &QrCode, indent: usize, has_color: bool) -> String {
    let (width, colors) = (code.width(), code.to_colors());
    let size = width + 2 * BORDER;
    let is_drawn = |row: usize, column: usize| {
        let inside = |it: usize| it.checked_sub(BORDER).filter(|it| *it < width);
        let dark = inside(row)
            .zip(inside(column))
            .is_some_and(|(row, column)| colors[row * width + column] == Color::Dark);
        // Below the last row there is nothing.
        if row < size { dark == has_color } else { false }
    };
    let mut text = String::new();
    for row in (0..size).step_by(2) {
        let _ = write!(text, "{:indent$}", "");
        if has_color {
            let _ = write!(text, "{DARK_ON_LIGHT}");
        }
        for column in 0..size {
            text.push(match (is_drawn(row, column), is_drawn(row + 1, column)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        if has_color {
            let _ = write!(text, "{DARK_ON_LIGHT:#}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{StartupNotice, local_url, reachable_url};

    fn notice(elsewhere: Option<&str>, width: usize, folders: &[PathBuf]) -> String {
        let notice = StartupNotice {
            here: "http://127.0.0.1:4280".to_owned(),
            token: "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopq",
            elsewhere: elsewhere.map(str::to_owned),
            port: 4280,
            is_encrypted: false,
            is_loopback: elsewhere.is_none(),
            proxy: None,
            folders,
            width,
            has_color: false,
        };
        anstream::adapter::strip_str(&notice.text()).to_string()
    }

    #[test]
    fn a_code_is_shown_only_for_an_address_that_a_phone_reaches_and_if_it_fits() {
        let folders = [PathBuf::from("/home/me/src"), PathBuf::from("/srv")];
        let alone = notice(None, 100, &folders);
        assert!(alone.contains("Open      http://127.0.0.1:4280/#token=abc"), "{alone}");
        assert!(alone.contains("Folders   /home/me/src\n            /srv\n"), "{alone}");
        assert!(alone.contains("--listen 0.0.0.0:4280") && !alone.contains('█'), "{alone}");
        assert!(alone.contains("Ctrl-C"), "{alone}");
        let reachable = notice(Some("http://192.168.1.20:4280"), 100, &folders);
        assert!(reachable.contains("http://192.168.1.20:4280/#token=abc"), "{reachable}");
        assert!(reachable.contains("Not encrypted"), "{reachable}");
        let code: Vec<&str> = reachable.lines().filter(|it| it.contains('█')).collect();
        assert!(code.len() > 15, "{reachable}");
        let columns = code[0].trim_start().chars().count();
        assert!(code.iter().all(|it| it.trim_start().chars().count() == columns), "{reachable}");
        assert!(notice(Some("http://192.168.1.20:4280"), columns, &folders).contains('█'));
        let narrow = notice(Some("http://192.168.1.20:4280"), columns - 1, &folders);
        assert!(!narrow.contains('█') && narrow.contains("http://192.168.1.20"), "{narrow}");
    }

    #[test]
    fn a_phone_is_never_sent_to_an_address_of_this_machine_only() {
        let check = |url: &str, address: &str| reachable_url("http", url, address.parse().unwrap());
        assert_eq!(check("http://127.0.0.1:1", "127.0.0.1:1"), None);
        assert_eq!(check("http://[::1]:1", "[::1]:1"), None);
        assert_eq!(check("http://box.lan:1", "0.0.0.0:1").as_deref(), Some("http://box.lan:1"));
        let own = Some("http://192.168.1.2:1");
        assert_eq!(check("http://192.168.1.2:1", "192.168.1.2:1").as_deref(), own);
        let any = check("http://0.0.0.0:1", "0.0.0.0:1").unwrap_or_default();
        assert!(!any.contains("0.0.0.0") && !any.contains("127."), "{any}");
        let here = local_url("http", "http://0.0.0.0:1", "0.0.0.0:1".parse().unwrap());
        assert_eq!(here, "http://127.0.0.1:1");
    }
}
