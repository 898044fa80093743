//! A disk that is soon full: a tmpfs in a mount namespace of its own, which needs no privileges and vanishes by itself.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::hub::upesi;
use super::may_skip::leave_out;

/// The directory that the disk is mounted on, inside the namespace.
const PLACE: &str = "/mnt";
const CHUNK_BYTES: usize = 64 * 1024;

pub struct SmallDisk {
    /// Keeps the namespace alive until its stdin is closed.
    holder: Child,
}

impl SmallDisk {
    /// An empty disk. `None` where the system does not allow namespaces and the test may be left out.
    pub fn of_bytes(bytes: u64) -> Option<Self> {
        Self::mounted(&format!("mount -t tmpfs -o size={bytes} upesi-test {PLACE}"))
    }

    /// A directory that can only be read, in the disk's place; as above.
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

    /// The data directory, as the hub knows it.
    pub fn data(&self) -> PathBuf {
        Path::new(PLACE).join("data")
    }

    /// The disk, as this process sees it.
    pub fn root(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{PLACE}", self.holder.id()))
    }

    /// The binary, to be run where the disk is.
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

    /// Takes all the room there is; gives how many bytes that were.
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

    /// Gives it back.
    pub fn make_room(&self) {
        fs::remove_file(self.root().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Its shell reads the end of its input, and ends.
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}
