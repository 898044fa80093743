//! Power that goes, on the shipped binary: a library writes down what the hub does to its files, and after its end
//! everything is undone that no sync has made durable.
//!
//! The model is that of `crates/journal/README.md`, "What is assumed of the disk". A sync of a file makes its
//! contents and its length durable, a sync of a directory the names in it, and nothing else makes anything durable:
//! not the name of what is synced, and no other order of things. A rename is done or not. What is not modelled:
//! what a disk holds by itself.

mod disk;
mod log;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

pub use disk::Lost;

use crate::support_crash::Chance;
use crate::support_crash::library::compile;

/// How much is lost of what no sync has made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// All of it.
    Everything,
    /// Of each file, and of each directory, what came last, from some moment on.
    Latest,
    /// Each sector and each name may be as it was at a moment of its own, and a sector may be torn.
    AnyOrder,
}

impl Loss {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(4) {
            0 => Self::Everything,
            1 => Self::Latest,
            _ => Self::AnyOrder,
        }
    }
}

/// The library, and what it has written down.
pub struct Power {
    library: PathBuf,
    data: PathBuf,
    log: PathBuf,
    kept: PathBuf,
}

impl Power {
    /// Makes it for a data directory that exists, beside which it has room in `directory`. `None` where there is no
    /// C compiler and the test may be left out.
    pub fn build(directory: &Path, data: &Path) -> Option<Self> {
        let real = data.canonicalize().unwrap();
        assert_eq!(real, data, "the library knows files by their real paths");
        let library = compile(directory, "power", include_str!("power.c"))?;
        let (log, kept) = (directory.join("power.log"), directory.join("kept"));
        fs::create_dir(&kept).unwrap();
        Some(Self { library, data: real, log, kept })
    }

    /// With this in its environment, a process is followed.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let variables = [
            ("LD_PRELOAD", &self.library),
            ("POWER_BELOW", &self.data),
            ("POWER_LOG", &self.log),
            ("POWER_KEPT", &self.kept),
        ];
        Vec::from(variables.map(|(name, path)| (OsString::from(name), OsString::from(path))))
    }

    /// The process was killed, and the machine goes on: the next finds what nobody has synced.
    pub fn stays(&self) {
        let log = self.read();
        let whole = log.rfind('\n').map_or(0, |end| end + 1);
        // What the last line tells of was not begun, where it is not whole.
        let file = File::options().write(true).create(true).truncate(false).open(&self.log).unwrap();
        file.set_len(whole as u64).unwrap();
    }

    /// The process was killed, and the power goes: what no sync has made durable is lost, as the loss and the seed say.
    pub fn goes(&self, loss: Loss, seed: u64) -> Lost {
        let lost = disk::cut(&self.read(), &self.data, &self.kept, loss, seed);
        fs::remove_dir_all(&self.kept).unwrap();
        fs::create_dir(&self.kept).unwrap();
        File::create(&self.log).unwrap();
        lost
    }

    /// The log; empty where no process was followed yet, or it was killed before it could begin one.
    fn read(&self) -> String {
        match fs::read_to_string(&self.log) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            log => log.unwrap(),
        }
    }
}
