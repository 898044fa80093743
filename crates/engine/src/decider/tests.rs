//! The engine's thread after the commit thread has ended, and the times of its ticks.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use upesi_journal::sim_disk::SimDisk;
use upesi_ledger::command::{AdminCommand, NewSettlementModel};
use upesi_tables::archive::MemoryArchive;

use super::*;
use crate::engine::{AssembledEngine, assemble};
use crate::options::Storage;
use crate::record::NoEffects;
use crate::recovery::recover;

/// A commit thread that has ended.
struct Ended;

impl CommitThread for Ended {
    fn submit(&mut self, job: Box<CommitJob>) -> Result<(), Box<CommitJob>> {
        Err(job)
    }

    fn try_recv(&mut self) -> Option<Box<CommitJob>> {
        None
    }

    fn recv(&mut self) -> Option<Box<CommitJob>> {
        None
    }
}

#[test]
fn batch_that_the_commit_thread_rejects_stops_the_engine_unacknowledged() {
    let storage = Storage { disk: Arc::new(SimDisk::new(1)), archive: Arc::new(MemoryArchive::new()) };
    let options =
        EngineOptions { storage: Some(storage), overlap_bytes_min: 0, ..EngineOptions::new("nowhere") };
    let recovered = recover(&options).unwrap();
    let (metrics, ticks) = (EngineMetrics::default(), Ticks::Asked(false));
    let AssembledEngine { shared, handle, mut decider, .. } =
        assemble(recovered, options, metrics, Box::new(NoEffects), Ended, ticks);
    let model = AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("DEFERREDNET", None));
    let mut answer = pin!(handle.submit(Command::Admin(model), Payload::default()));
    let mut poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    let mut submissions = VecDeque::new();
    assert!(shared.queue.take_now(&mut submissions));
    let refused = decider.turn(&mut submissions);
    assert!(matches!(refused, Err(JournalError::Poisoned)), "{refused:?}");
    assert_eq!(poll(), Poll::Ready(Err(SubmitError::Stopped)));
    assert_eq!((decider.ledger().last_seq(), shared.durable.get()), (1, 0), "decided, not durable");
}

#[test]
fn tick_is_due_at_its_instant_then_after_an_interval_or_immediately() {
    const LONG: Duration = Duration::from_secs(3_600);
    let mut ticks = Ticks::At(Instant::now());
    assert!(ticks.is_due());
    for (at_once, is_due) in [(false, false), (true, true)] {
        ticks.rearm(at_once, LONG);
        assert_eq!(ticks.is_due(), is_due);
    }
}
