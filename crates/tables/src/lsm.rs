//! The border to the embedded LSM store fjall, behind which archive and store keep their tables. Only files of
//! this module name the library.
//!
//! fjall checks its blocks when it reads them, but believes its lists of tables: if one is damaged it deletes tables
//! that it no longer finds in the list, or panics. So [`open`] checks every list by the checksum that fjall keeps of
//! it and never looks at, before fjall may touch anything; and by what an owner has had [noted](note), that none is
//! an old copy of itself. Panics that are left become a [`Fault`] like any other if that is possible.
//! Names that fjall leaves to the file system are made durable here, too.

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

/// Opens the database in `path`, or makes one there, with `work`; `remedy` is what an operator does about damage.
///
/// # Errors
/// Errors of `work`, and before it [`Fault::Damaged`] if a list is not what was written. Then nothing was changed.
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
