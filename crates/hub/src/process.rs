//! What a process of ours does, whatever it runs: its version, its end by a panic, signals.

use std::convert::Infallible;
use std::future::pending;

use tokio::signal::unix::{SignalKind, signal};

use crate::exit::Exit;
use crate::terminal::note;

// What this binary was built from.

/// The version and the commit, as `upesi --version` says them.
pub const VERSION: &str = env!("UPESI_VERSION");

/// The commit, with a `+` where sources differed from it; `None` for debug builds and outside of a git checkout.
pub fn commit() -> Option<&'static str> {
    Some(env!("UPESI_BUILT_FROM")).filter(|commit| !commit.is_empty())
}

// How a panic ends the process.

/// Has a panic of any thread end the process, however the command was built. A panic of the embedded store while it
/// opens its files ends it as the damage that it is: the embedded store would not survive unwinding. Any other
/// panic is a mistake of the program, and aborts it.
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

// How a process is told to stop, and to read its certificates again. Signals are caught from the call on, not only
// from when its future is polled.

/// Waits for SIGTERM or SIGINT and tells which it was. Where signals cannot be had the process runs until it is killed,
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

/// Waits for SIGHUPs, and calls this at each.
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
