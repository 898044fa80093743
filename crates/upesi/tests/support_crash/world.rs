//! One data directory with its ports, for as many hubs as it takes.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use upesi_lab::{AdminClient, drive::onboard::onboard};

use super::hub::{Hub, free_ports, upesi};
use super::load::{Load, currency};

/// Small enough for a run to roll segments, fold, archive and write snapshots many times; quick to repeat callbacks.
pub const SETTINGS: &[&str] = &[
    "data.segment_bytes=1048576",
    "data.reserve_bytes=65536",
    "data.snapshot_every_records=1000",
    "engine.batch_bytes_max=65536",
    "fspiop.workers=2",
    "callbacks.backoff_min_ms=20",
    "callbacks.backoff_max_ms=200",
    "callbacks.breaker_pause_min_ms=20",
    "callbacks.breaker_pause_max_ms=200",
];

pub struct World {
    pub data: PathBuf,
    pub log: Option<PathBuf>,
    pub ports: [SocketAddr; 2],
    /// Beside the usual ones; the last of two for one key counts.
    pub settings: Vec<&'static str>,
    pub environment: Vec<(OsString, OsString)>,
}

impl World {
    /// On a directory that exists.
    pub fn new(data: &Path) -> Self {
        let (settings, environment) = (Vec::new(), Vec::new());
        Self { data: data.to_owned(), log: None, ports: free_ports(), settings, environment }
    }

    /// The arguments of a hub of this world.
    pub fn serve(&self, mut command: Command) -> Command {
        let [fspiop, admin] = self.ports.map(|port| port.to_string());
        command.arg("serve").arg("--data").arg(&self.data).args(["--fspiop", &fspiop, "--admin", &admin]);
        command.args(SETTINGS.iter().chain(&self.settings).flat_map(|setting| ["--set", setting]));
        command.envs(self.environment.clone());
        command
    }

    pub fn start(&self) -> Hub {
        Hub::spawn(self.serve(upesi()), self.log.clone())
    }

    pub fn fspiop_url(&self) -> String {
        format!("http://{}", self.ports[0])
    }

    pub fn admin(&self) -> AdminClient {
        AdminClient::new(&format!("http://{}", self.ports[1])).unwrap()
    }

    /// DFSPs that are known to the hub, which must be serving.
    pub async fn load(&self, seed: u64) -> Load {
        self.onboarded(Load::new(&self.fspiop_url(), seed), seed).await
    }

    /// The same whose transfers last; see [`Load::lasting`].
    pub async fn lasting_load(&self, seed: u64) -> Load {
        self.onboarded(Load::lasting(&self.fspiop_url(), seed), seed).await
    }

    async fn onboarded(&self, load: Load, seed: u64) -> Load {
        onboard(&self.admin(), &load.simulator, currency(), seed).await.unwrap();
        load
    }
}
