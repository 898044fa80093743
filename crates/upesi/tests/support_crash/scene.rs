//! A data directory that was in use, with segments, snapshots, an archive, and their transfers.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;
use upesi_lab::AdminClient;
use upesi_lab::drive::onboard::onboard;

use super::hub::{Hub, free_ports, upesi};
use super::leave_out;
use super::load::{Accepted, Load, currency};

/// Enough for several segments and snapshots.
const TRANSFERS: u64 = 1_200;
const SEED: u64 = 7;

struct Original {
    directory: TempDir,
    accepted: Vec<Accepted>,
}

/// A copy of a data directory, to be damaged.
pub struct Scene {
    /// Removed when this value is dropped.
    _directory: TempDir,
    pub world: World,
    /// The transfers in the directory.
    pub accepted: &'static [Accepted],
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

impl Scene {
    pub fn new() -> Self {
        static ORIGINAL: OnceLock<Original> = OnceLock::new();
        let original = ORIGINAL.get_or_init(Original::new);
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        copy(original.directory.path(), &data);
        Self { world: World::new(&data), _directory: directory, accepted: &original.accepted }
    }

    /// The files of a subdirectory, sorted by name.
    pub fn files(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.world.data.join(directory)).unwrap();
        let mut files: Vec<_> =
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    /// The journal's segments, oldest first.
    pub fn segments(&self) -> Vec<PathBuf> {
        let mut files = self.files("journal");
        files.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        files
    }

    /// The archive's first division.
    pub fn division(&self) -> PathBuf {
        let entries = fs::read_dir(self.world.data.join("archive")).unwrap();
        let divisions = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        divisions.min().unwrap()
    }

    /// Every file and its contents. The lock, which names its last process, and empty segments, which a running hub
    /// prepares, are left out.
    pub fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut contents = super::hub::contents(&self.world.data);
        let is_passing = |path: &Path| path.ends_with("lock") || path.ends_with("prepared.tmp");
        contents.retain(|(path, _)| !is_passing(path));
        contents
    }

    /// Starts a hub, which must serve.
    pub fn serve(&self) -> Hub {
        let mut hub = self.world.start();
        hub.serves();
        hub
    }
}

impl Original {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let world = World::new(directory.path());
        let mut hub = world.start();
        hub.serves();
        let mut load = block_on(world.load(SEED));
        load.start();
        load.wait_for_accepted(TRANSFERS);
        let accepted = load.end();
        assert_eq!(hub.stop().0.code(), Some(0));
        Self { directory, accepted }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

// A data directory with its ports, for any number of hubs.

/// Limits are small, so that a run rolls segments, folds, archives and writes snapshots many times. Callbacks are
/// retried quickly.
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
    /// Settings in addition to the usual ones. If a key occurs twice, the last one applies.
    pub settings: Vec<&'static str>,
    pub environment: Vec<(OsString, OsString)>,
}

impl World {
    /// With an existing directory.
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

    /// A load whose DFSPs are onboarded to the hub, which must be serving.
    pub async fn load(&self, seed: u64) -> Load {
        self.onboarded(Load::new(&self.fspiop_url(), seed), seed).await
    }

    /// A load whose transfers do not expire; see [`Load::lasting`].
    pub async fn lasting_load(&self, seed: u64) -> Load {
        self.onboarded(Load::lasting(&self.fspiop_url(), seed), seed).await
    }

    /// Onboards the DFSPs of a load to the hub, which must be serving.
    pub async fn onboarded(&self, load: Load, seed: u64) -> Load {
        onboard(&self.admin(), &load.simulator, currency(), seed).await.unwrap();
        load
    }
}

// A small disk: a tmpfs in a mount namespace of its own. It needs no privileges, and is removed by itself.

/// Mount point of the disk inside the namespace.
const PLACE: &str = "/mnt";
const CHUNK_BYTES: usize = 64 * 1024;

pub struct SmallDisk {
    /// Keeps the namespace alive until its stdin is closed.
    holder: Child,
}

impl SmallDisk {
    /// An empty disk. `None` if the system does not allow namespaces and the test may be skipped.
    pub fn of_bytes(bytes: u64) -> Option<Self> {
        Self::mounted(&format!("mount -t tmpfs -o size={bytes} upesi-test {PLACE}"))
    }

    /// A read-only directory in place of the disk. `None` as for `of_bytes`.
    pub fn read_only(directory: &Path) -> Option<Self> {
        let directory = directory.display();
        Self::mounted(&format!("mount --bind {directory} {PLACE} && mount -o remount,ro,bind {PLACE}"))
    }

    fn mounted(mount: &str) -> Option<Self> {
        let script = format!("{mount} && echo mounted && read -r _");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut holder = match spawned {
            Ok(holder) => holder,
            Err(error) => {
                leave_out(&format!("unshare (util-linux) cannot be run: {error}"));
                return None;
            }
        };
        let mut said = [0; 8];
        if holder.stdout.take().is_some_and(|mut stdout| stdout.read_exact(&mut said).is_ok()) {
            return Some(Self { holder });
        }
        let mut why = String::new();
        let _ = holder.stderr.take().map(|mut stderr| stderr.read_to_string(&mut why));
        let _ = holder.wait();
        leave_out(&format!(
            "a mount in a user namespace of its own is not allowed here ({}); containers forbid it by default, and some \
             systems to all but root (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)",
            why.trim()
        ));
        None
    }

    /// Path of the data directory inside the namespace.
    pub fn data(&self) -> PathBuf {
        Path::new(PLACE).join("data")
    }

    /// Path of the disk outside the namespace.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{PLACE}", self.holder.id()))
    }

    /// The binary, run inside the namespace.
    pub fn upesi(&self) -> Command {
        let inner = upesi();
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &self.holder.id().to_string(),
            "--user",
            "--mount",
            "--preserve-credentials",
        ]);
        command.arg(inner.get_program()).stdin(Stdio::null());
        inner.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command
    }

    /// Uses all free space. Returns the number of bytes.
    pub fn fill(&self) -> usize {
        let mut file = File::options().create(true).append(true).open(self.root().join("filler")).unwrap();
        let (chunk, mut bytes, mut taken) = (vec![1; CHUNK_BYTES], CHUNK_BYTES, 0);
        while bytes > 0 {
            match file.write(&chunk[..bytes]) {
                Ok(written) => taken += written,
                Err(error) if error.kind() == ErrorKind::StorageFull => bytes /= 2,
                Err(error) => panic!("{error}"),
            }
        }
        taken
    }

    /// Releases the space.
    pub fn make_room(&self) {
        fs::remove_file(self.root().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Its shell reads the end of its input, and exits.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
