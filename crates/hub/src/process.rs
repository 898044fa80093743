//! The parts of every process of this project: its version, its end by a panic, signals.

use std::convert::Infallible;
use std::future::pending;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::terminal::note;

// The version of this binary.

/// The version and the commit, as in `upesi --version`.
pub const VERSION: &str = env!("UPESI_VERSION");

/// The commit, with a `+` if the sources differed from it; `None` for debug builds and outside of a git checkout.
pub fn commit() -> Option<&'static str> {
    Some(env!("UPESI_BUILT_FROM")).filter(|commit| !commit.is_empty())
}

// The end of the process after a panic.

/// Makes a panic in any thread end the process, in every build profile. A panic of the embedded store while it opens
/// its files is reported as damage, because the store would not survive unwinding. Any other panic is a fault of the
/// program, and aborts it.
pub fn end_the_process() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        if let Some(opening) = upesi_tables::lsm::opening() {
            let (path, remedy) = (opening.path.display(), opening.remedy);
            note(format_args!("{path} is damaged: the embedded store cannot read its files; {remedy}"));
            std::process::exit(Exit::Data.code().into());
        }
        std::process::abort();
    }));
}

// Signals to stop, and to reload certificates. They are caught from the call on, not only when its future is polled.

/// Waits for SIGTERM or SIGINT and returns its name. If signals are not available, the process runs until it is killed,
/// which is safe.
pub fn stop_signal() -> impl Future<Output = &'static str> {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async {
        let (Ok(mut terminate), Ok(mut interrupt)) = signals else { return pending().await };
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    }
}

/// Waits for SIGHUP, and calls `act` for each.
pub fn at_hang_up(mut act: impl FnMut()) -> impl Future<Output = Infallible> {
    let signals = signal(SignalKind::hangup());
    async move {
        let Ok(mut hang_up) = signals else { return pending().await };
        while hang_up.recv().await.is_some() {
            act();
        }
        pending().await
    }
}
