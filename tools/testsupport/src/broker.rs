//! A broker for the tests that need one, started by the script `tools/kafka/brokers`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A broker in its own directory. It ends with this value.
pub struct Broker {
    data: PathBuf,
    pub addresses: String,
}

/// The script that starts and ends brokers.
pub const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../kafka/brokers");

/// The output of the script.
pub fn brokers(arguments: &[&str], users: &str) -> String {
    let mut command = Command::new(SCRIPT);
    let output = command.env("SCRAM", users).args(arguments).output().expect("the script runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "brokers {arguments:?}: {told}");
    String::from_utf8(output.stdout).expect("text")
}

/// Two free ports from 26,000 to 32,000; no two callers receive the same. The system uses higher ports for outgoing
/// connections. Hubs (from 10,240) and three brokers (from 20,000) use lower ports.
fn ports() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = std::process::id() % 3_000 * 2 + CALLS.fetch_add(100, Ordering::Relaxed);
    let mut ports = (0..3_000).map(|step| 26_000 + ((first + step * 2) % 6_000) as u16);
    ports.find(|port| is_free(*port) && is_free(port + 1)).expect("two free ports")
}

impl Broker {
    /// Starts one broker below `directory`, and waits until it answers.
    pub fn start(directory: &Path) -> Self {
        Self::start_with(directory, "", |_, _| Vec::new())
    }

    /// Starts a broker with users, and with settings for its first port and the first of two further ports.
    pub fn start_with(directory: &Path, users: &str, settings: impl FnOnce(u16, u16) -> Vec<String>) -> Self {
        let data = directory.join("kafka");
        let text = data.to_str().expect("a path in UTF-8");
        let (first, further) = (ports(), ports());
        let (number, settings) = (first.to_string(), settings(first, further));
        let up = ["up", text, "1", &number].into_iter().chain(settings.iter().map(String::as_str));
        brokers(&up.collect::<Vec<_>>(), users);
        let addresses = brokers(&["list", text], "");
        Self { data, addresses }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        brokers(&["down", self.data.to_str().expect("a path in UTF-8")], "");
    }
}
