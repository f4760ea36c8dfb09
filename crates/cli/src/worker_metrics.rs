//! `towpath worker --metrics`: figures of a worker for Prometheus, over HTTP.
//!
//! There is one page and no sign-in, so it listens on the loopback address unless another one is named. It
//! has counts only: no session, directory or text.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fleet::bus::metered::AppendCounts;
use fleet::bus::nats::ConnectionStatus;
use journal::SessionStatus;
use session::Sessions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

/// How long a client may take to send its request, and to take the answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// The largest head of a request.
const MAX_HEAD: usize = 8 << 10;

/// What the figures are made of.
#[derive(Clone, Debug)]
pub(crate) struct WorkerMetrics {
    pub(crate) name: String,
    pub(crate) slots: u32,
    pub(crate) sessions: Sessions,
    pub(crate) appends: Arc<AppendCounts>,
    pub(crate) connection: watch::Receiver<ConnectionStatus>,
}

/// Reads `PORT` or `HOST:PORT`, where the host is an address.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| "expected a port, or an address such as 127.0.0.1:9464".to_owned())
}

impl WorkerMetrics {
    /// Answers until it is dropped, one client after the other.
    pub(crate) async fn serve(self, listener: TcpListener) {
        loop {
            let Ok((client, _)) = listener.accept().await else {
                tokio::time::sleep(CLIENT_TIMEOUT).await;
                continue;
            };
            match timeout(CLIENT_TIMEOUT, self.answer(client)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "a client of the metrics was not answered"),
                Err(_) => debug!("a client of the metrics took too long"),
            }
        }
    }

    async fn answer(&self, mut client: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        while !head.windows(4).any(|it| it == b"\r\n\r\n") {
            if head.len() > MAX_HEAD || client.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        let mut words = head.split(|byte| *byte == b' ');
        let is_known = words.next() == Some(b"GET") && words.next() == Some(b"/metrics");
        let (status, body) = if is_known {
            ("200 OK", self.text().await)
        } else {
            ("404 Not Found", "the figures are at /metrics\n".to_owned())
        };
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        );
        client.write_all(response.as_bytes()).await?;
        client.shutdown().await
    }

    async fn text(&self) -> String {
        let journal = self.sessions.journal();
        let records = journal.sessions().await.unwrap_or_default();
        let unshipped = journal.outbox_sessions().await.unwrap_or_default().len();
        let works = |status| matches!(status, SessionStatus::Running | SessionStatus::Waiting);
        let used = records.iter().filter(|it| works(it.status)).count();
        let (appended, bytes) = self.appends.appended();
        let connection = self.connection.borrow().clone();
        let lag = self.appends.lag(unshipped > 0);
        let lag = if unshipped > 0 { lag.as_secs_f64() } else { 0.0 };
        let figures: [(&str, &str, &str, String); 10] = [
            ("sessions", "gauge", "Sessions in the journal.", records.len().to_string()),
            (
                "slots",
                "gauge",
                "How many agents may work at the same time.",
                self.slots.to_string(),
            ),
            ("slots_used", "gauge", "How many agents work.", used.to_string()),
            (
                "unshipped_sessions",
                "gauge",
                "Sessions of which the servers do not have everything.",
                unshipped.to_string(),
            ),
            (
                "shipping_lag_seconds",
                "gauge",
                "How long the servers have confirmed nothing although something waits.",
                format!("{lag:.3}"),
            ),
            (
                "appends_total",
                "counter",
                "Messages that the servers confirmed.",
                appended.to_string(),
            ),
            ("append_bytes_total", "counter", "Bytes of these messages.", bytes.to_string()),
            (
                "appends_refused_total",
                "counter",
                "Messages that the servers refused because another came before.",
                self.appends.refused().to_string(),
            ),
            (
                "appends_failed_total",
                "counter",
                "Messages that were not confirmed and are sent again.",
                self.appends.failed().to_string(),
            ),
            (
                "reconnects_total",
                "counter",
                "How often the connection to the servers was restored.",
                connection.connects.saturating_sub(1).to_string(),
            ),
        ];
        let label = self.name.replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = String::new();
        for (name, kind, help, value) in figures {
            let _ = writeln!(
                text,
                "# HELP towpath_worker_{name} {help}\n# TYPE towpath_worker_{name} {kind}\n\
                 towpath_worker_{name}{{worker=\"{label}\"}} {value}"
            );
        }
        let connected = u8::from(connection.connected);
        let _ = writeln!(
            text,
            "# HELP towpath_worker_connected Whether there is a connection to the servers.\n\
             # TYPE towpath_worker_connected gauge\n\
             towpath_worker_connected{{worker=\"{label}\"}} {connected}"
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::parse_address;

    #[test]
    fn a_port_alone_is_on_this_machine_only() {
        assert_eq!(parse_address("9464").unwrap().to_string(), "127.0.0.1:9464");
        assert_eq!(parse_address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert!(parse_address("example.com").is_err());
    }
}
