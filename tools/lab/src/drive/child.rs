//! Processes that the lab starts, waits for and ends: the hub and the forwarder.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep};

use upesi_http::ClientTls;

use crate::admin_client::AdminClient;

/// Maximum time until a process answers `GET /health`.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const READY_POLL: Duration = Duration::from_millis(20);
/// Maximum time for a process to end after SIGTERM, before SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const ENDED_POLL: Duration = Duration::from_millis(100);
const END_POLL: Duration = Duration::from_millis(10);

/// A process that cannot be started or ended.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    #[error("cannot start {binary}: {source}")]
    Start { binary: PathBuf, source: std::io::Error },
    #[error("{what} ended with {status} before it was ready; its output is in {log}")]
    Ended { what: &'static str, status: String, log: String },
    #[error("{what} ended with {status}; its output is in {log}")]
    Failed { what: &'static str, status: String, log: String },
    #[error("{what} did not answer GET /health with 200 within {READY_TIMEOUT:?}; its output is in {log}")]
    NotReady { what: &'static str, log: String },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

/// A running process, which ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    what: &'static str,
    log: String,
}

impl Process {
    /// Starts a program with its output in a file, or discarded.
    pub fn start(
        what: &'static str,
        binary: &Path,
        arguments: &[String],
        log: Option<&Path>,
    ) -> Result<Self, ChildError> {
        let output = || -> std::io::Result<Stdio> {
            Ok(match log {
                None => Stdio::null(),
                Some(path) => Stdio::from(File::options().create(true).append(true).open(path)?),
            })
        };
        let source = |source| ChildError::Start { binary: binary.to_owned(), source };
        let mut command = Command::new(binary);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(output().map_err(source)?).stderr(output().map_err(source)?);
        let child = command.spawn().map_err(source)?;
        let log = log.map_or_else(
            || "no file (give an output directory)".to_owned(),
            |path| path.display().to_string(),
        );
        Ok(Self { child, what, log })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until all addresses answer `GET /health` with 200, each with or without TLS.
    pub async fn ready(&mut self, addresses: &[(SocketAddr, Option<&ClientTls>)]) -> Result<(), ChildError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        let mut waiting = addresses.to_vec();
        while Instant::now() < deadline {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(ChildError::Ended {
                    what: self.what,
                    status: status.to_string(),
                    log: self.log.clone(),
                });
            }
            let mut not_yet = Vec::new();
            for (address, tls) in waiting {
                let healthy = match AdminClient::with_tls(&base_url(address, tls), tls) {
                    Ok(client) => client.get("/health").await.is_ok(),
                    Err(_) => false,
                };
                if !healthy {
                    not_yet.push((address, tls));
                }
            }
            if not_yet.is_empty() {
                return Ok(());
            }
            waiting = not_yet;
            sleep(READY_POLL).await;
        }
        Err(ChildError::NotReady { what: self.what, log: self.log.clone() })
    }

    /// Waits until the process has ended on its own.
    pub async fn ended(&mut self) -> Result<(), ChildError> {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    return Err(ChildError::Failed {
                        what: self.what,
                        status: status.to_string(),
                        log: self.log.clone(),
                    });
                }
                Ok(None) => sleep(ENDED_POLL).await,
                Err(source) => {
                    return Err(ChildError::Io { what: format!("cannot wait for {}", self.what), source });
                }
            }
        }
    }

    /// Requests the process to end, and kills it if it does not.
    pub fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = std::time::Instant::now() + END_TIMEOUT;
        while std::time::Instant::now() < deadline {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(END_POLL);
        }
        tracing::warn!(what = self.what, "the process did not end in time and is killed");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn base_url(address: SocketAddr, tls: Option<&ClientTls>) -> String {
    let scheme = if tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// Loopback addresses whose ports were free a moment ago.
pub(crate) fn free_loopback_addresses<const COUNT: usize>() -> Result<[SocketAddr; COUNT], ChildError> {
    let any = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let mut addresses = [any; COUNT];
    let mut held = Vec::new();
    for address in &mut addresses {
        let listener = TcpListener::bind(any)
            .and_then(|listener| Ok((listener.local_addr()?, listener)))
            .map_err(|source| ChildError::Io { what: "no free port on loopback".to_owned(), source })?;
        *address = listener.0;
        // Held until all are chosen, so that they differ.
        held.push(listener.1);
    }
    Ok(addresses)
}

/// A hub that the lab started. It ends when this value is dropped.
#[derive(Debug)]
pub struct HubProcess {
    process: Process,
    command: HubCommand,
    fspiop: SocketAddr,
    admin: SocketAddr,
    tls: HubTls,
}

/// TLS of calls to a hub.
#[derive(Clone, Debug, Default)]
pub struct HubTls {
    /// The client for the hub's FSPIOP port.
    pub fspiop: Option<ClientTls>,
    /// The client for the hub's admin port.
    pub admin: Option<ClientTls>,
}

#[derive(Debug)]
struct HubCommand {
    binary: PathBuf,
    arguments: Vec<String>,
    log: Option<PathBuf>,
}

impl HubCommand {
    fn start(&self) -> Result<Process, ChildError> {
        Process::start("the hub", &self.binary, &self.arguments, self.log.as_deref())
    }
}

impl HubProcess {
    /// Starts `binary serve` on a data directory and free loopback ports, and waits until it is ready. Fails if it does
    /// not start or become ready.
    pub async fn start(
        binary: &Path,
        data: &Path,
        more_arguments: &[String],
        log: Option<&Path>,
    ) -> Result<Self, ChildError> {
        Self::start_secured(binary, data, more_arguments, log, HubTls::default()).await
    }

    /// Starts a hub whose arguments configure TLS for its ports. Fails if it does not start or become ready.
    pub async fn start_secured(
        binary: &Path,
        data: &Path,
        more_arguments: &[String],
        log: Option<&Path>,
        tls: HubTls,
    ) -> Result<Self, ChildError> {
        let [fspiop, admin] = free_loopback_addresses()?;
        let mut arguments: Vec<String> =
            ["serve", "--data", &data.display().to_string()].map(str::to_owned).into();
        arguments.extend([
            "--fspiop".to_owned(),
            fspiop.to_string(),
            "--admin".to_owned(),
            admin.to_string(),
        ]);
        arguments.extend_from_slice(more_arguments);
        let command = HubCommand { binary: binary.to_owned(), arguments, log: log.map(Path::to_owned) };
        let mut process = command.start()?;
        process.ready(&[(fspiop, tls.fspiop.as_ref()), (admin, tls.admin.as_ref())]).await?;
        Ok(Self { process, command, fspiop, admin, tls })
    }

    /// Ends the hub and starts it again with the same addresses; waits until it is ready. Fails if it does not start or
    /// become ready.
    pub async fn restart(&mut self) -> Result<(), ChildError> {
        self.process.end();
        self.process = self.command.start()?;
        let HubTls { fspiop, admin } = &self.tls;
        self.process.ready(&[(self.fspiop, fspiop.as_ref()), (self.admin, admin.as_ref())]).await
    }

    pub fn has_ended(&mut self) -> Option<String> {
        self.process.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// The addresses for DFSPs and for operators.
    pub const fn addresses(&self) -> [SocketAddr; 2] {
        [self.fspiop, self.admin]
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn fspiop_url(&self) -> String {
        base_url(self.fspiop, self.tls.fspiop.as_ref())
    }

    pub fn admin_url(&self) -> String {
        base_url(self.admin, self.tls.admin.as_ref())
    }

    /// Ends the hub: SIGTERM, and SIGKILL after ten seconds.
    pub fn end(&mut self) {
        self.process.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn free_addresses_differ() {
        let addresses = free_loopback_addresses::<8>().unwrap();
        assert_eq!(BTreeSet::from(addresses).len(), 8);
    }

    #[test]
    fn process_is_ended_by_its_id() {
        let mut process = Process::start("a sleeper", Path::new("sleep"), &["600".to_owned()], None).unwrap();
        process.end();
        assert!(matches!(process.child.try_wait(), Ok(Some(_))));
    }

    #[tokio::test]
    async fn program_that_ends_early_is_reported() {
        let mut process = Process::start("a quitter", Path::new("false"), &[], None).unwrap();
        let addresses = free_loopback_addresses::<1>().unwrap();
        let error = process.ready(&addresses.map(|address| (address, None))).await.unwrap_err();
        assert!(matches!(error, ChildError::Ended { .. }), "{error}");
        let missing = Process::start("nothing", Path::new("/nonexistent/upesi"), &[], None);
        assert!(matches!(missing, Err(ChildError::Start { .. })));
    }
}
