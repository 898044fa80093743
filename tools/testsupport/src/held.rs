//! An engine that is kept busy, for tests of the answers during this time.

use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use upesi_engine::EngineHandle;
use upesi_ledger::Command;

/// An engine with a queue of one: its thread is busy with a query, and a command fills the queue.
pub struct HeldEngine {
    release: Sender<()>,
    holder: JoinHandle<()>,
}

impl HeldEngine {
    /// Keeps the engine busy.
    pub fn hold(handle: &EngineHandle) -> Self {
        let (held, is_held) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let asking = handle.clone();
        let holder = std::thread::spawn(move || {
            let question = asking.read(move |_| {
                held.send(()).unwrap();
                released.recv().unwrap();
            });
            tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(question).unwrap();
        });
        is_held.recv().unwrap();
        handle.submit_quietly(Command::Tick).unwrap();
        Self { release, holder }
    }

    /// Lets the engine continue.
    pub fn release(self) {
        self.release.send(()).unwrap();
        self.holder.join().unwrap();
    }
}
