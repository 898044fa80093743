//! How a process is told to stop, and to read its certificates again.

use std::convert::Infallible;
use std::future::pending;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT and tells which it was. Where signals cannot be had the process runs until it is killed,
/// which is safe.
pub async fn stop_signal() -> &'static str {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// Waits for SIGHUPs, and calls this at each.
pub async fn at_hang_up(mut act: impl FnMut()) -> Infallible {
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else { return pending().await };
    while hang_up.recv().await.is_some() {
        act();
    }
    pending().await
}
