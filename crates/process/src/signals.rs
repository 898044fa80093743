//! Signals to stop, and to reload certificates. They are caught from the call on, not only when its future is polled.

use std::convert::Infallible;
use std::future::pending;

use tokio::signal::unix::{SignalKind, signal};

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
