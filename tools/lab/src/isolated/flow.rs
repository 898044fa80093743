//! Feeds an engine with a stream: a bounded number of commands at a time, from one thread or several.

use std::cell::RefCell;
use std::iter::StepBy;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Barrier, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use upesi_engine::{
    DurableRecord, Effects, Engine, EngineHandle, EngineMetrics, EngineOptions, Participants, StartError,
    SubmitError,
};
use upesi_ledger::{CallbackKey, Command, Reply};

use super::IsolatedError;
use super::measurement::{ThreadTimes, UsedCpu, nanosecond_histogram, record};
use super::stream::Ready;
use crate::plan::stage::position::Flow;

pub(super) const SUBMITTER: &str = "lab-submit";
/// Pause before a command is submitted again after the engine was busy.
const BUSY_WAIT: Duration = Duration::from_millis(1);

impl Flow {
    /// The messages of one thread, as indexes.
    fn messages_of(self, submitter: usize, messages: usize) -> StepBy<Range<usize>> {
        (submitter.min(messages)..messages).step_by(self.submitters)
    }

    /// Commands that one thread has in progress at a time. Together they are `in_flight` for any number of threads.
    fn in_flight_of(self, submitter: usize) -> usize {
        let left_over = usize::from(submitter < self.in_flight % self.submitters);
        (self.in_flight / self.submitters + left_over).max(1)
    }
}

#[derive(Debug)]
pub(super) struct Fed {
    /// Time from the first submission to the last answer.
    pub took: Duration,
    pub latency_ns: Histogram<u64>,
    pub cpu: UsedCpu,
    pub submitting: usize,
    pub busy: u64,
}

/// Submits every command once and waits for every answer.
pub(super) fn feed(engine: &EngineHandle, ready: &Arc<Vec<Ready>>, flow: Flow) -> Result<Fed, IsolatedError> {
    let (begin, end) =
        (Arc::new(Barrier::new(flow.submitters + 1)), Arc::new(Barrier::new(flow.submitters + 1)));
    let mut threads = Vec::new();
    for submitter in 0..flow.submitters {
        let (begin, end, engine, ready) = (begin.clone(), end.clone(), engine.clone(), Arc::clone(ready));
        let work = move || {
            let mine = flow.messages_of(submitter, ready.len());
            begin.wait();
            let began = Instant::now();
            let submitted = submit_all(engine, ready, mine, flow.in_flight_of(submitter));
            let ended = Instant::now();
            // Wait until the CPU of this thread has been read, and again so that the thread does not end before.
            end.wait();
            end.wait();
            (submitted, began, ended)
        };
        let thread = std::thread::Builder::new().name(format!("{SUBMITTER}-{submitter}")).spawn(work);
        threads.push(thread.map_err(IsolatedError::thread)?);
    }
    let before = ThreadTimes::now();
    begin.wait();
    end.wait();
    let mut fed = Fed {
        took: Duration::ZERO,
        latency_ns: nanosecond_histogram(),
        cpu: before.since(),
        submitting: 0,
        busy: 0,
    };
    end.wait();
    // The first and the last moment that a submitter saw, because this thread may run again only when all is done.
    let mut span: Option<(Instant, Instant)> = None;
    for thread in threads {
        let (submitted, began, ended) = thread.join().map_err(|_| IsolatedError::panicked())?;
        let (latency_ns, busy) = submitted?;
        fed.submitting += usize::from(!latency_ns.is_empty());
        let _ = fed.latency_ns.add(&latency_ns);
        fed.busy += busy;
        span = Some(span.map_or((began, ended), |(first, last)| (first.min(began), last.max(ended))));
    }
    fed.took = span.map_or(Duration::ZERO, |(first, last)| last - first);
    Ok(fed)
}

struct Shared {
    engine: EngineHandle,
    ready: Arc<Vec<Ready>>,
    mine: StepBy<Range<usize>>,
    latency_ns: Histogram<u64>,
    busy: u64,
    failure: Option<IsolatedError>,
}

fn submit_all(
    engine: EngineHandle,
    ready: Arc<Vec<Ready>>,
    mine: StepBy<Range<usize>>,
    in_flight: usize,
) -> Result<(Histogram<u64>, u64), IsolatedError> {
    let runtime = Builder::new_current_thread().enable_time().build().map_err(IsolatedError::thread)?;
    let tasks = in_flight.min(mine.len());
    let latency_ns = nanosecond_histogram();
    let shared = Shared { engine, ready, mine, latency_ns, busy: 0, failure: None };
    let shared = Rc::new(RefCell::new(shared));
    let local = LocalSet::new();
    for _ in 0..tasks {
        local.spawn_local(submit_in_turn(Rc::clone(&shared)));
    }
    runtime.block_on(local);
    let mut shared = shared.borrow_mut();
    match shared.failure.take() {
        Some(failure) => Err(failure),
        None => Ok((shared.latency_ns.clone(), shared.busy)),
    }
}

/// Submits one command after the other until there are none left.
async fn submit_in_turn(shared: Rc<RefCell<Shared>>) {
    let (engine, ready) = (shared.borrow().engine.clone(), Arc::clone(&shared.borrow().ready));
    loop {
        let next = shared.borrow_mut().take_next();
        let Some(index) = next else { return };
        let began = Instant::now();
        loop {
            let Ready { command, payload, .. } = ready[index].clone();
            match engine.submit(command, payload).await {
                Ok(Reply::Accepted) => break record(&mut shared.borrow_mut().latency_ns, began.elapsed()),
                Err(SubmitError::Busy) => {
                    shared.borrow_mut().busy += 1;
                    tokio::time::sleep(BUSY_WAIT).await;
                }
                other => {
                    let reason = other.map_or_else(|error| error.to_string(), |reply| format!("{reply:?}"));
                    shared.borrow_mut().failure =
                        Some(IsolatedError::Refused { what: "a message of the stream", reason });
                    return;
                }
            }
        }
    }
}

impl Shared {
    /// The next message of this thread; `None` after a failure.
    fn take_next(&mut self) -> Option<usize> {
        if self.failure.is_some() { None } else { self.mine.next() }
    }
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
            // Reports that do not fit into the queue stay in the outbox, without harm here.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_submitters_have_as_much_to_do_and_as_much_is_under_way_at_every_scale() {
        for submitters in [1, 2, 3, 4, 8] {
            for in_flight in [8, 50, 1_024, 1_000] {
                let flow = Flow { submitters, in_flight };
                let under_way = (0..submitters).map(|submitter| flow.in_flight_of(submitter));
                assert_eq!(under_way.sum::<usize>(), in_flight, "{flow:?}");
            }
            let flow = Flow { submitters, in_flight: 64 };
            let mut taken = vec![0; 1_001];
            for submitter in 0..submitters {
                let mine: Vec<usize> = flow.messages_of(submitter, taken.len()).collect();
                assert!(mine.len().abs_diff(taken.len() / submitters) <= 1, "{} of {submitters}", mine.len());
                mine.into_iter().for_each(|index| taken[index] += 1);
            }
            assert_eq!(taken, vec![1; 1_001], "each message by one thread");
        }
    }

    #[test]
    fn where_there_are_fewer_messages_than_threads_the_others_have_nothing() {
        let flow = Flow { submitters: 4, in_flight: 4 };
        let counts = [0, 1, 2, 3].map(|submitter| flow.messages_of(submitter, 2).count());
        assert_eq!(counts, [1, 1, 0, 0]);
    }
}
