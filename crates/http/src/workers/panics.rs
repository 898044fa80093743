//! Panics of tasks. A runtime catches them and continues. So a test would pass, and a process that does not end at a
//! panic would continue without one of its parts.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::thread;

/// Message of the first panic on the threads of these workers.
#[derive(Debug, Default)]
pub(super) struct Panics {
    first: Mutex<Option<String>>,
}

thread_local! {
    static WATCHED: RefCell<Option<Arc<Panics>>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

impl Panics {
    pub(super) fn new() -> Arc<Self> {
        HOOK.call_once(|| {
            let usual = take_hook();
            set_hook(Box::new(move |panic| {
                note(panic);
                usual(panic);
            }));
        });
        Arc::default()
    }

    pub(super) fn watch_this_thread(self: &Arc<Self>) {
        WATCHED.set(Some(Arc::clone(self)));
    }

    /// Panics once if there was a panic.
    pub(super) fn go_on(&self) {
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(said), false) = (first, thread::panicking()) {
            panic!("a task panicked: {said}");
        }
    }
}

fn note(panic: &PanicHookInfo<'_>) {
    // Neither is available while a thread ends.
    let watched = WATCHED.try_with(|watched| watched.try_borrow().ok()?.clone()).ok().flatten();
    if let Some(panics) = watched {
        panics.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic.to_string());
    }
}
