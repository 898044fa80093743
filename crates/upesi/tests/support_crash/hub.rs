//! The real binary as a child process, with its log.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Time limit of all waits. It is reached only if something is broken.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The hub's log message when both ports answer.
pub const SERVING: &str = "the hub is serving";
/// Maximum number of log lines that wait for the test.
const LINES_MAX: usize = 100_000;

/// The command under test: the binary of this build, or the binary in `UPESI_CRASH_BINARY`.
pub fn upesi() -> Command {
    let named = std::env::var_os("UPESI_CRASH_BINARY");
    let mut command = Command::new(named.unwrap_or_else(|| env!("CARGO_BIN_EXE_upesi").into()));
    command.stdin(Stdio::null());
    // The developer's own settings are removed from the environment.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UPESI_")) {
        command.env_remove(name);
    }
    command
}

/// Two free ports, different for every call. They are outside the range of the system's outgoing connections and of the
/// brokers. Otherwise such a connection could use the hub's own port while the hub is down.
pub fn free_ports() -> [SocketAddr; 2] {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut free =
        std::iter::from_fn(|| Some(NEXT.fetch_add(1, Ordering::Relaxed))).take(9_700).filter_map(|number| {
            let port = 10_240 + ((std::process::id() * 32 + number) % 9_700) as u16;
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            TcpListener::bind(address).ok().map(|_| address)
        });
    [free.next().expect("a free port"), free.next().expect("a second free port")]
}

/// A hub that runs or has ended. It is killed when this value is dropped.
pub struct Hub {
    child: Child,
    lines: Receiver<String>,
    /// The log lines that the test has read.
    pub log: Vec<String>,
}

impl Hub {
    /// Starts a command. Its log is also appended to a file.
    pub fn spawn(mut command: Command, log: Option<PathBuf>) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary that was built with this test");
        let stderr = BufReader::new(child.stderr.take().expect("stderr is piped"));
        let (send, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            let mut file = log.map(|path| {
                File::options().create(true).append(true).open(path).expect("a log in a temporary directory")
            });
            for line in stderr.lines().map_while(Result::ok) {
                if let Some(file) = &mut file {
                    let _ = writeln!(file, "{line}");
                }
                // The test may have stopped listening.
                let _ = send.try_send(line);
            }
        });
        Self { child, lines, log: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads the log up to a line with `text`. Returns false if the process ended first.
    pub fn logs(&mut self, text: &str) -> bool {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    let is_it = line.contains(text);
                    self.log.push(line);
                    if is_it {
                        return true;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no {text:?} in the log within {PATIENCE:?}:\n{}", self.log.join("\n"))
                }
            }
        }
    }

    /// Waits until it serves.
    pub fn serves(&mut self) {
        assert!(self.logs(SERVING), "the hub does not start: {}\n{}", self.exit(), self.log.join("\n"));
    }

    /// Sends SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Sends SIGTERM, then waits for the orderly end.
    pub fn stop(mut self) -> (ExitStatus, Vec<String>) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("a child can be stopped");
        let status = self.exit();
        (status, std::mem::take(&mut self.log))
    }

    /// Waits until it ends by itself. Afterwards its log is complete.
    pub fn exit(&mut self) -> ExitStatus {
        let never = "this text is in no log line";
        assert!(!self.logs(never));
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // Fails only if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every file below a directory with its contents, to check that nothing was changed.
pub fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let path = entry.expect("a readable entry").path();
            if path.is_dir() {
                found.push((path.clone(), Vec::new()));
                open.push(path);
            } else {
                let bytes = fs::read(&path).expect("a readable file");
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}
