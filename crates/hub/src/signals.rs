//! How a process is told to stop.

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
