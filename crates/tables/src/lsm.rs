//! The interface to the embedded LSM store fjall, which contains the tables of archive and store. Only files of this
//! module name the library.
//!
//! fjall checks its blocks when it reads them, but trusts its lists of tables. If a list is damaged, fjall deletes
//! tables that it no longer finds in the list, or panics. So [`open`] checks every list before fjall may change
//! anything. It uses the checksum that fjall stores but never reads, and the version that an owner has [noted](note),
//! so that no list is an old copy of itself. Remaining panics become a [`Fault`] like any other if possible. This
//! module also makes names durable that fjall leaves to the file system.

mod durable;
mod fault;
mod guard;
mod keyspace;
mod lists;
mod noted;

use std::path::Path;

pub use durable::sync_keyspaces;
pub use fault::Fault;
pub(crate) use fjall::{Config, Database, Error, Guard, Keyspace, PersistMode, Slice, UserKey, UserValue};
pub use guard::{Opening, opening};
pub(crate) use keyspace::{Tuning, wait_for_merging};
pub use noted::note;

/// Opens the database in `path`, or creates one there, with `work`; `remedy` is the operator's remedy for damage.
///
/// # Errors
/// Errors of `work`, and before it [`Fault::Damaged`] if a list is not as it was written. Then nothing was changed.
pub fn open<T>(
    path: &Path,
    remedy: &'static str,
    work: impl FnOnce() -> Result<T, fjall::Error>,
) -> Result<T, Fault> {
    let notes = noted::read(path)?;
    lists::check(path)?;
    noted::check(path, &notes)?;
    durable::sync_found(path).map_err(Fault::Io)?;
    let opened = guard::guarded(path, remedy, work).map_err(Fault::at_opening)?;
    sync_keyspaces(path).map_err(Fault::Io)?;
    Ok(opened)
}
