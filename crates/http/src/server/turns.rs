//! Turns on a thread: one party must not delay the tasks of others.
//!
//! A step of a handshake takes up to a millisecond of CPU, and so does a step of an HTTP/2 connection with many
//! requests. If one party began hundreds at once, all of them would run before the next step of another party. So a
//! party queues once its steps have taken more than [`FREE`] of a window: only one of its tasks at a time runs a step,
//! after all tasks that are ready. An idle thread loses nothing by this.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::yield_now;
use tokio::time::Instant;

const WINDOW: Duration = Duration::from_millis(10);
/// CPU time that a party's steps may take in each window before it queues.
const FREE: Duration = Duration::from_millis(2);

/// Turns of the parties on one thread.
#[derive(Debug)]
pub(super) struct FairTurns<P>(Mutex<Window<P>>);

#[derive(Debug)]
struct Window<P> {
    /// `None` before the first step.
    ends: Option<Instant>,
    /// Parties with a step in this window, or with queued tasks.
    parties: HashMap<P, Party>,
}

#[derive(Debug)]
struct Party {
    /// CPU time of its steps in this window.
    took: Duration,
    /// A semaphore of one permit: the task that holds it runs the next step.
    queue: Arc<Semaphore>,
}

impl<P> Default for FairTurns<P> {
    fn default() -> Self {
        Self(Mutex::new(Window { ends: None, parties: HashMap::new() }))
    }
}

impl<P: Copy + Eq + Hash> FairTurns<P> {
    /// Runs a task of a party.
    pub(super) async fn run<F: Future>(&self, party: P, task: F) -> F::Output {
        let mut task = pin!(task);
        let mut turn = self.turn();
        poll_fn(|context| {
            let _step = ready!(turn.poll(Some(party), context));
            task.as_mut().poll(context)
        })
        .await
    }

    /// Turns of a task.
    pub(super) const fn turn(&self) -> FairTurn<'_, P> {
        FairTurn { turns: self, queued: None }
    }

    fn window(&self) -> MutexGuard<'_, Window<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns of one task.
pub(super) struct FairTurn<'a, P> {
    turns: &'a FairTurns<P>,
    queued: Option<Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>>,
}

impl<'a, P: Copy + Eq + Hash> FairTurn<'a, P> {
    /// The next step, when the task has its turn. A task without a party never queues.
    pub(super) fn poll(&mut self, party: Option<P>, context: &mut Context<'_>) -> Poll<Step<'a, P>> {
        if self.queued.is_none() {
            let queue = party.and_then(|party| self.turns.window().queue_of(&party, Instant::now()));
            self.queued = queue.map(|queue| Box::pin(next_in(queue)) as _);
        }
        let place = match &mut self.queued {
            Some(queued) => Some(ready!(queued.as_mut().poll(context))),
            None => None,
        };
        self.queued = None;
        Poll::Ready(self.begin(party, place))
    }

    /// A step that does not wait for a turn; its time counts.
    pub(super) fn step(&self, party: Option<P>) -> Step<'a, P> {
        self.begin(party, None)
    }

    fn begin(&self, party: Option<P>, place: Option<OwnedSemaphorePermit>) -> Step<'a, P> {
        Step { turns: self.turns, party, begun: Instant::now(), _place: place }
    }
}

/// Waits for the head of the queue, after the other tasks that are ready.
async fn next_in(queue: Arc<Semaphore>) -> OwnedSemaphorePermit {
    let place = queue.acquire_owned().await.expect("the queue is never closed");
    yield_now().await;
    place
}

/// A step of a task, until it is dropped.
pub(super) struct Step<'a, P: Copy + Eq + Hash> {
    turns: &'a FairTurns<P>,
    party: Option<P>,
    begun: Instant,
    _place: Option<OwnedSemaphorePermit>,
}

impl<P: Copy + Eq + Hash> Drop for Step<'_, P> {
    fn drop(&mut self) {
        if let Some(party) = self.party {
            self.turns.window().note(party, self.begun);
        }
    }
}

impl<P: Eq + Hash> Window<P> {
    /// The queue of a party that has used its free time.
    fn queue_of(&mut self, party: &P, now: Instant) -> Option<Arc<Semaphore>> {
        self.move_to(now);
        let party = self.parties.get(party).filter(|party| party.took >= FREE)?;
        Some(Arc::clone(&party.queue))
    }

    /// Records a step that ends now.
    fn note(&mut self, party: P, begun: Instant) {
        let now = Instant::now();
        self.move_to(now);
        let party = self
            .parties
            .entry(party)
            .or_insert_with(|| Party { took: Duration::ZERO, queue: Arc::new(Semaphore::new(1)) });
        party.took += now - begun;
    }

    fn move_to(&mut self, now: Instant) {
        if self.ends.is_some_and(|ends| now < ends) {
            return;
        }
        self.ends = Some(now + WINDOW);
        self.parties.retain(|_, party| {
            party.took = Duration::ZERO;
            // A queued task also holds a reference to the queue.
            Arc::strong_count(&party.queue) > 1
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use tokio::time::advance;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs tasks of parties, each with steps of a millisecond. Returns the parties in the order of the steps.
    async fn run(turns: &FairTurns<u8>, tasks: &[(u8, usize)]) -> Vec<u8> {
        let order = Mutex::new(Vec::new());
        let task = |&(party, steps): &(u8, usize)| {
            let order = &order;
            let mut left = steps;
            let steps = poll_fn(move |context| {
                // The clock advances within one poll.
                let _ = pin!(advance(MS)).poll(context);
                order.lock().unwrap().push(party);
                left -= 1;
                if left == 0 {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            });
            turns.run(party, steps)
        };
        join_all(tasks.iter().map(task)).await;
        order.into_inner().unwrap()
    }

    fn place_of(party: u8, order: &[u8]) -> usize {
        order.iter().rposition(|of| *of == party).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn flood_of_one_party_does_not_run_before_another_party() {
        let crowd = vec![(1, 1); 100];
        let order = run(&FairTurns::default(), &[crowd, vec![(2, 1)]].concat()).await;
        assert_eq!(order.len(), 101);
        // Two milliseconds are free.
        assert_eq!(place_of(2, &order), 2, "{order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn parties_with_many_tasks_take_turns() {
        let (one, other) = (vec![(1, 3); 50], vec![(2, 3); 10]);
        let order = run(&FairTurns::default(), &[one, other].concat()).await;
        assert_eq!(order.len(), 180);
        // Thirty steps of the other party, as many of the first, and the free ones of both in every window.
        let place = place_of(2, &order);
        assert!(place <= 90, "{place}: {order:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn party_has_free_time_in_each_window_and_its_state_is_removed() {
        let turns = FairTurns::default();
        let start = Instant::now();
        turns.window().note(1, start);
        for (took, is_queued) in [(MS, false), (MS, true)] {
            let begun = Instant::now();
            advance(took).await;
            turns.window().note(1, begun);
            assert_eq!(turns.window().queue_of(&1, Instant::now()).is_some(), is_queued);
        }
        assert!(turns.window().queue_of(&2, Instant::now()).is_none(), "another party is free");
        assert!(turns.window().queue_of(&1, start + 9 * MS).is_some());
        let queue = turns.window().queue_of(&1, start + 9 * MS);
        assert!(turns.window().queue_of(&1, start + 10 * MS).is_none(), "the next window");
        assert_eq!(turns.window().parties.len(), 1, "tasks are in its queue");
        drop(queue);
        assert!(turns.window().queue_of(&1, start + 20 * MS).is_none());
        assert!(turns.window().parties.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn task_runs_again_only_after_a_wake() {
        let turns = Arc::new(FairTurns::default());
        let begun = Instant::now();
        advance(FREE).await;
        turns.window().note(1, begun);
        let (wake, mut woken) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(async move {
            let mut steps = 0;
            let counted = poll_fn(|context| {
                steps += 1;
                pin!(&mut woken).poll(context)
            });
            turns.run(1, counted).await.unwrap();
            steps
        });
        for _ in 0..10 {
            yield_now().await;
        }
        wake.send(()).unwrap();
        assert_eq!(task.await.unwrap(), 2, "one before it is woken and one after it");
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_task_passes_its_turn_on() {
        let turns = FairTurns::default();
        let begun = Instant::now();
        advance(FREE).await;
        turns.window().note(1, begun);
        let (mut first, mut second) =
            (Box::pin(turns.run(1, async { "first" })), Box::pin(turns.run(1, async { "second" })));
        let polled =
            poll_fn(|context| Poll::Ready((first.as_mut().poll(context), second.as_mut().poll(context))));
        assert_eq!(polled.await, (Poll::Pending, Poll::Pending));
        drop(first);
        assert_eq!(second.await, "second");
    }
}
