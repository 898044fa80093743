//! Submits commands to an engine, with a limit on those in progress, and reports its callbacks as delivered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use upesi_engine::{
    DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, Participants, StartError,
    SubmitError,
};
use upesi_ledger::{CallbackKey, Command, Reply};

use super::IsolatedError;
use super::stream::ReadyRequest;

/// Commands in progress at a time.
const IN_FLIGHT: usize = 4_096;
/// Pause before a command is submitted again after the engine was busy.
const BUSY_WAIT: Duration = Duration::from_millis(1);

/// Submits every command once and waits for every answer. Fails if the engine rejects one.
pub(super) fn feed(engine: &EngineHandle, ready: &Arc<Vec<ReadyRequest>>) -> Result<(), IsolatedError> {
    let runtime = Builder::new_current_thread().enable_time().build().map_err(IsolatedError::thread)?;
    let next = Arc::new(AtomicUsize::new(0));
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..IN_FLIGHT.min(ready.len()) {
            tasks.spawn(submit_in_turn(engine.clone(), Arc::clone(ready), Arc::clone(&next)));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|_| IsolatedError::panicked())??;
        }
        Ok(())
    })
}

/// Submits one command after the other until the list is empty.
async fn submit_in_turn(
    engine: EngineHandle,
    ready: Arc<Vec<ReadyRequest>>,
    next: Arc<AtomicUsize>,
) -> Result<(), IsolatedError> {
    while let Some(message) = ready.get(next.fetch_add(1, Ordering::Relaxed)) {
        loop {
            let ReadyRequest { command, payload } = message.clone();
            match engine.submit(command, payload).await {
                Ok(Reply::Accepted) => break,
                Err(SubmitError::Busy) => tokio::time::sleep(BUSY_WAIT).await,
                other => {
                    let reason = other.map_or_else(|error| error.to_string(), |reply| format!("{reply:?}"));
                    return Err(IsolatedError::Refused { what: "a message of the stream", reason });
                }
            }
        }
    }
    Ok(())
}

/// Reports every callback as delivered, like a courier that needs no time.
struct Deliver {
    engine: Arc<OnceLock<EngineHandle>>,
    keys: Vec<CallbackKey>,
}

impl Effects for Deliver {
    fn publish(&mut self, record: &Arc<DurableRecord>) {
        self.keys.extend(record.keys());
    }

    fn redeliver(&mut self, _keys: &[CallbackKey]) {}

    fn flush(&mut self) {
        if let (false, Some(engine)) = (self.keys.is_empty(), self.engine.get()) {
            // Reports that do not fit into the queue are dropped. Their callbacks stay in the outbox, which is harmless
            // here.
            let _ = engine.submit_quietly(Command::Delivered(std::mem::take(&mut self.keys)));
        }
    }

    fn participants(&mut self, _participants: Arc<Participants>) {}
}

/// Starts an engine whose callbacks are reported as delivered.
pub(crate) fn start_delivering(
    options: EngineOptions,
    metrics: EngineMetrics,
) -> Result<(Engine, EngineHandle), StartError> {
    let slot = Arc::new(OnceLock::new());
    let effects = Deliver { engine: Arc::clone(&slot), keys: Vec::new() };
    let (engine, handle) = Engine::start(options, metrics, Box::new(effects))?;
    let _ = slot.set(handle.clone());
    Ok((engine, handle))
}
