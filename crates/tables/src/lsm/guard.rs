//! Converts a panic of the embedded store during opening to an error.
//!
//! The panic is caught here if the program unwinds and the store survives the unwinding. fjall can panic again while it
//! is dropped, which ends any process. So the program's panic hook, which runs before, should call [`opening`], and
//! report the error itself.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::lsm::Fault;

/// A database that this thread is opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The database's directory.
    pub path: PathBuf,
    /// The remedy if it is damaged.
    pub remedy: &'static str,
}

thread_local! {
    static OPENING: RefCell<Option<Opening>> = const { RefCell::new(None) };
}

/// The database that the current thread is opening. A panic meanwhile means that its files are damaged.
pub fn opening() -> Option<Opening> {
    OPENING.with_borrow(Clone::clone)
}

/// Ends with its scope.
struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        OPENING.set(None);
    }
}

pub(crate) fn guarded<T>(
    path: &Path,
    remedy: &'static str,
    work: impl FnOnce() -> Result<T, fjall::Error>,
) -> Result<T, Fault> {
    OPENING.set(Some(Opening { path: path.to_owned(), remedy }));
    let _scope = Scope;
    // Everything that `work` borrows is dropped with it.
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(Fault::from),
        Err(panic) => Err(Fault::Damaged(format!("the embedded store failed: {}", said(&*panic)))),
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_while_opening_is_damage_and_the_hook_knows_the_directory() {
        let path = Path::new("somewhere");
        let outcome = guarded::<()>(path, "restore it", || {
            assert_eq!(opening(), Some(Opening { path: path.to_owned(), remedy: "restore it" }));
            panic!("level count should be {}", 7)
        });
        let Err(Fault::Damaged(detail)) = outcome else { panic!("{outcome:?}") };
        assert!(detail.contains("level count should be 7"), "{detail}");
        assert_eq!(opening(), None);
        assert!(matches!(guarded(path, "", || Ok(7)), Ok(7)));
        assert!(matches!(guarded::<()>(path, "", || Err(fjall::Error::Locked)), Err(Fault::InUse)));
        assert_eq!(opening(), None);
    }
}
