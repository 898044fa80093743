//! The border to the embedded LSM store fjall (L2), behind which archive and store keep their tables.
//!
//! fjall checks its blocks when it reads them, but believes its lists of tables: where one is rotten it deletes tables that
//! it finds no more in the list, or panics. So [`open`] checks every list by the checksum that fjall keeps of it and never
//! looks at, before fjall may touch anything; and by what an owner has had [noted](note), that none is an old copy of itself.
//! Panics that are left become a [`Fault`] like any other where that is possible.
//! Names that fjall leaves to the file system are made durable here, too.

mod durable;
mod fault;
mod guard;
mod lists;
mod noted;

use std::path::Path;

pub use durable::sync_keyspaces;
pub use fault::Fault;
pub use guard::{Opening, opening};
pub use noted::note;

/// Opens the database in `path`, or makes one there, with `work`; `remedy` is what an operator does about damage.
///
/// # Errors
/// Whatever `work` finds, and before it [`Fault::Damaged`] where a list is not what was written. Then nothing was changed.
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
