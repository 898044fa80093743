//! One broker that most tests share, and three brokers that a test can stop, kill and start again.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;
use upesi_testsupport::broker::{Broker, SCRIPT, brokers};

/// Numbers of the brokers.
pub const ALL: [u16; 3] = [1, 2, 3];

/// The broker of the tests that neither stop nor configure it. Each test has its own topic.
struct Shared {
    addresses: String,
    /// Ends the broker when the standard input is closed, because this process has ended.
    _end: Child,
}

impl Shared {
    fn start() -> Self {
        let directory = TempDir::new().unwrap().keep();
        let broker = Broker::start(&directory);
        let addresses = broker.addresses.clone();
        // Statics are not dropped.
        std::mem::forget(broker);
        let mut end = Command::new("sh");
        end.args(["-c", "read -r _; \"$0\" down \"$1/kafka\"; rmdir \"$1\"", SCRIPT]).arg(&directory);
        let end = end.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { addresses, _end: end }
    }
}

/// The addresses of the broker that tests share.
pub fn shared() -> &'static str {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    &SHARED.get_or_init(Shared::start).addresses
}

/// The topic of a test with this directory.
pub fn topic(directory: &Path) -> String {
    let name = directory.file_name().unwrap().to_str().unwrap();
    format!("upesi{name}")
}

/// The brokers are killed when this value is dropped.
pub struct Brokers {
    directory: PathBuf,
    pub addresses: String,
}

fn script(arguments: &[&str]) -> String {
    brokers(arguments, "")
}

impl Brokers {
    pub fn start(directory: &Path) -> Self {
        let directory = directory.join("kafka");
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        // A range of ports that hubs and single brokers do not use.
        let first = 20_000 + (std::process::id() % 400) as u16 * 10;
        let mut bases = (first..25_900).step_by(10);
        let base = bases.find(|base| (*base..*base + 6).all(is_free)).expect("free ports");
        let text = directory.to_str().unwrap();
        script(&["up", text, "3", &base.to_string()]);
        let addresses = script(&["list", text]);
        Self { directory, addresses }
    }

    fn text(&self) -> &str {
        self.directory.to_str().unwrap()
    }

    /// The log file of a broker, with all entries.
    pub fn log(&self, broker: u16) -> PathBuf {
        let topic = topic(self.directory.parent().unwrap());
        self.directory.join(format!("{broker}/data/{topic}-0/00000000000000000000.log"))
    }

    /// Sends a signal to a broker.
    pub fn signal(&self, broker: u16, name: &str) {
        script(&["signal", self.text(), &broker.to_string(), name]);
    }

    pub fn kill(&self, brokers: &[u16]) {
        brokers.iter().for_each(|broker| self.signal(*broker, "KILL"));
    }

    /// Starts stopped brokers again on their data, all at once, because none becomes ready without another.
    pub fn start_again(&self, brokers: &[u16]) {
        std::thread::scope(|threads| {
            for broker in brokers {
                threads.spawn(move || script(&["start", self.text(), &broker.to_string()]));
            }
        });
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        script(&["down", self.text()]);
    }
}
