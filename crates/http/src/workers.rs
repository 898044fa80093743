//! Worker threads: each runs one single-threaded tokio runtime, so that all work of a connection stays on one core.

mod cores;
mod panics;

use std::cell::Cell;
use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinHandle};

use self::cores::Cores;
use self::panics::Panics;

/// Number of worker threads started so far in this process.
static STARTED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of the calling worker thread, unique in this process; `None` on any other thread. It serves as a key for
/// data of one worker, such as its connections.
pub fn current_worker() -> Option<usize> {
    NUMBER.get()
}

/// Number of threads of this process that can run concurrently: the cores that it may use, within its quota; 1 if
/// unknown.
pub fn available_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Reason why the workers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    /// The requested count is zero.
    #[error("at least one worker thread is needed")]
    None,
    /// The system could not create a thread or a runtime; check the limits on threads and open files.
    #[error("worker {index} could not be started (check the limits on threads and open files): {source}")]
    Refused {
        /// Number of the worker, from 0.
        index: usize,
        source: std::io::Error,
    },
}

/// Spawns futures on one worker.
#[derive(Clone, Debug)]
pub struct WorkerHandle {
    runtime: Handle,
    index: usize,
    /// Set if the handle was taken from [`Workers::scope`].
    scope: Option<Arc<Scope>>,
}

impl WorkerHandle {
    /// Starts a future on this worker. A call from another thread wakes the worker.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.runtime.spawn(future);
        if let Some(scope) = &self.scope {
            scope.add(task.abort_handle());
        }
        task
    }

    /// Number of this worker, from 0.
    pub const fn index(&self) -> usize {
        self.index
    }
}

/// A fixed number of worker threads. Dropping it stops them without waiting; [`Workers::shutdown`] also waits.
#[derive(Debug)]
pub struct Workers {
    handles: Vec<WorkerHandle>,
    next: AtomicUsize,
    threads: Mutex<Vec<Thread>>,
    panics: Arc<Panics>,
    /// Set if these are the workers of another value, used for tasks that end together.
    scope: Option<Arc<Scope>>,
}

#[derive(Debug)]
struct Thread {
    /// Dropping it ends the worker's runtime.
    stop: oneshot::Sender<()>,
    join: thread::JoinHandle<()>,
}

impl Workers {
    /// Starts `count` threads named `name-0`, `name-1` and so on, without assigning cores.
    pub fn start(count: usize, name: &str) -> Result<Self, WorkersError> {
        Self::start_on(count, name, None)
    }

    /// Starts threads like [`Self::start`], each on a core of its own if there are as many cores as workers. Otherwise,
    /// the system tends to gather threads that wake each other on one core and to leave another idle.
    pub fn start_on_cores(count: usize, name: &str) -> Result<Self, WorkersError> {
        Self::start_on(count, name, Cores::for_each_of(count))
    }

    fn start_on(count: usize, name: &str, cores: Option<Cores>) -> Result<Self, WorkersError> {
        if count == 0 {
            return Err(WorkersError::None);
        }
        let mut handles = Vec::with_capacity(count);
        let mut threads = Vec::with_capacity(count);
        let panics = Panics::new();
        for index in 0..count {
            let refused = |source| WorkersError::Refused { index, source };
            let mut builder = Builder::new_current_thread();
            let watched = Arc::clone(&panics);
            builder.on_thread_start(move || {
                watched.watch_this_thread();
                if let Some(cores) = cores {
                    // Threads for blocking work are started by a worker, and would share its core.
                    cores.spread();
                }
            });
            let runtime = builder.enable_all().build().map_err(refused)?;
            handles.push(WorkerHandle { runtime: runtime.handle().clone(), index, scope: None });
            let (stop, stopped) = oneshot::channel::<()>();
            let number = STARTED.fetch_add(1, Ordering::Relaxed);
            let watched = Arc::clone(&panics);
            let run = move || {
                watched.watch_this_thread();
                NUMBER.set(Some(number));
                if let Some(cores) = cores {
                    cores.keep_to(index);
                }
                // Ends when the sender is dropped; tasks that still run are dropped with the runtime.
                let _ = runtime.block_on(stopped);
            };
            let join = thread::Builder::new().name(format!("{name}-{index}")).spawn(run).map_err(refused)?;
            threads.push(Thread { stop, join });
        }
        let (next, threads) = (AtomicUsize::new(0), Mutex::new(threads));
        Ok(Self { handles, next, threads, panics, scope: None })
    }

    /// The same workers, for tasks that end together: [`Workers::shutdown`] of the returned value ends the tasks that
    /// were started by its handles, and stops no worker.
    pub fn scope(&self) -> Self {
        let scope = Arc::<Scope>::default();
        let in_scope =
            |worker: &WorkerHandle| WorkerHandle { scope: Some(Arc::clone(&scope)), ..worker.clone() };
        Self {
            handles: self.handles.iter().map(in_scope).collect(),
            next: AtomicUsize::new(0),
            threads: Mutex::default(),
            panics: Arc::clone(&self.panics),
            scope: Some(scope),
        }
    }

    /// Number of workers, at least one.
    pub fn count(&self) -> usize {
        self.handles.len()
    }

    /// Worker `index`, taken modulo the count.
    pub fn get(&self, index: usize) -> &WorkerHandle {
        &self.handles[index % self.handles.len()]
    }

    /// The next worker, in turn.
    pub fn round_robin(&self) -> &WorkerHandle {
        self.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// All workers in order.
    pub fn iter(&self) -> impl Iterator<Item = &WorkerHandle> {
        self.handles.iter()
    }

    /// Stops every worker and waits for its thread; tasks that still run are dropped. Further calls have no effect.
    /// Must not be called from a worker.
    ///
    /// Panics if a task of these workers has panicked: a runtime catches panics, and they must not stay unnoticed.
    pub fn shutdown(&self) {
        if let Some(scope) = &self.scope {
            scope.end();
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let joins: Vec<_> = threads
            .into_iter()
            .map(|thread| {
                drop(thread.stop);
                thread.join
            })
            .collect();
        for join in joins {
            // The panics are already recorded.
            let _ = join.join();
        }
        self.panics.go_on();
    }
}

/// Tasks that end together.
#[derive(Debug, Default)]
struct Scope {
    tasks: Mutex<ScopeTasks>,
}

#[derive(Debug, Default)]
struct ScopeTasks {
    handles: Vec<AbortHandle>,
    /// Number of handles after finished tasks were last removed.
    len_before: usize,
    has_ended: bool,
}

/// Number of handles that may remain before finished tasks are removed.
const SCOPE_TASKS_MIN: usize = 64;
/// Interval of checks whether the tasks of a scope have ended.
const SCOPE_LOOK_EVERY: Duration = Duration::from_millis(1);

impl Scope {
    fn add(&self, task: AbortHandle) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.has_ended {
            return task.abort();
        }
        if tasks.handles.len() >= SCOPE_TASKS_MIN.max(2 * tasks.len_before) {
            tasks.handles.retain(|task| !task.is_finished());
            tasks.len_before = tasks.handles.len();
        }
        tasks.handles.push(task);
    }

    /// Ends all tasks and waits until they have ended. Tasks that are added later end at once.
    fn end(&self) {
        let handles = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.has_ended = true;
            std::mem::take(&mut tasks.handles)
        };
        handles.iter().for_each(AbortHandle::abort);
        while !handles.iter().all(AbortHandle::is_finished) {
            thread::sleep(SCOPE_LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn tasks_run_on_the_named_thread_of_their_worker() {
        let workers = Workers::start(2, "edge").unwrap();
        let mut names = BTreeSet::new();
        for _ in 0..4 {
            let task = workers.round_robin().spawn(async { thread::current().name().map(str::to_owned) });
            let (send, receive) = std::sync::mpsc::channel();
            workers.get(0).spawn(async move { send.send(task.await.unwrap()) });
            names.insert(receive.recv().unwrap().unwrap());
        }
        assert_eq!(names, BTreeSet::from(["edge-0".to_owned(), "edge-1".to_owned()]));
        workers.shutdown();
        workers.shutdown();
    }

    #[test]
    fn only_workers_have_unique_numbers() {
        let (some, others) = (Workers::start(2, "edge").unwrap(), Workers::start(1, "admin").unwrap());
        let mut numbers = BTreeSet::new();
        for worker in some.iter().chain(others.iter()) {
            let (send, receive) = std::sync::mpsc::channel();
            worker.spawn(async move { send.send(current_worker()) });
            numbers.insert(receive.recv().unwrap().unwrap());
        }
        assert_eq!(numbers.len(), 3);
        assert_eq!(current_worker(), None);
    }

    fn allowed() -> Vec<usize> {
        Cores::of_this_thread().unwrap().numbers().collect()
    }

    /// The cores that the worker and its threads for blocking work may use.
    fn cores_of(worker: &WorkerHandle) -> [Vec<usize>; 2] {
        let (send, receive) = std::sync::mpsc::channel();
        worker.spawn(async move {
            let blocking = tokio::task::spawn_blocking(allowed);
            send.send([allowed(), blocking.await.unwrap()])
        });
        receive.recv().unwrap()
    }

    #[test]
    fn workers_are_pinned_only_if_each_has_a_core() {
        let all = allowed();
        let (own, more) = (
            Workers::start_on_cores(all.len(), "own").unwrap(),
            Workers::start_on_cores(all.len() + 1, "more").unwrap(),
        );
        for (worker, core) in own.iter().zip(&all) {
            assert_eq!(cores_of(worker), [vec![*core], all.clone()]);
        }
        let anywhere = Workers::start(all.len(), "anywhere").unwrap();
        for worker in more.iter().chain(anywhere.iter()) {
            assert_eq!(cores_of(worker), [all.clone(), all.clone()]);
        }
        assert_eq!(allowed(), all, "the starting thread keeps its cores");
    }

    #[test]
    fn shutdown_resumes_a_panic_of_a_task() {
        for is_blocking in [false, true] {
            let (sound, broken) = (Workers::start(1, "sound").unwrap(), Workers::start(2, "broken").unwrap());
            let absurd = || -> () { panic!("absurd {}", 7) };
            let (told, tell) = std::sync::mpsc::channel::<()>();
            broken.get(1).spawn(async move {
                let _told = told;
                if is_blocking {
                    let _ = tokio::task::spawn_blocking(absurd).await;
                } else {
                    absurd();
                }
            });
            assert!(tell.recv().is_err(), "it has ended");
            let panic = std::panic::catch_unwind(|| broken.shutdown()).unwrap_err();
            let said = panic.downcast_ref::<String>().unwrap();
            assert!(said.contains("absurd 7"), "{said}");
            broken.shutdown();
            sound.shutdown();
        }
    }

    #[test]
    fn zero_workers_is_an_error() {
        assert!(matches!(Workers::start(0, "edge"), Err(WorkersError::None)));
    }

    #[test]
    fn shutdown_of_a_scope_ends_its_tasks_and_no_others() {
        let workers = Workers::start(2, "edge").unwrap();
        let scope = workers.scope();
        let pending = std::future::pending::<()>;
        let other = workers.get(1).spawn(pending());
        let nested = scope.get(1).clone();
        let (send, receive) = std::sync::mpsc::channel();
        let outer = scope.get(0).spawn(async move { send.send(nested.spawn(pending())).unwrap() });
        let inner = receive.recv().unwrap();
        // Finished tasks are not retained.
        for _ in 0..10 * SCOPE_TASKS_MIN {
            let finished = scope.round_robin().spawn(async {});
            while !finished.is_finished() {
                thread::yield_now();
            }
        }
        let kept = scope.scope.as_ref().unwrap().tasks.lock().unwrap().handles.len();
        assert!(kept <= SCOPE_TASKS_MIN, "{kept} tasks are retained");
        scope.shutdown();
        assert!(outer.is_finished() && inner.is_finished() && !other.is_finished());
        let late = scope.get(0).spawn(pending());
        while !late.is_finished() {
            thread::yield_now();
        }
        let (send, receive) = std::sync::mpsc::channel();
        workers.get(0).spawn(async move { send.send(()) });
        receive.recv().unwrap();
        workers.shutdown();
        assert!(other.is_finished());
    }

    #[test]
    fn shutdown_drops_running_tasks() {
        let workers = Workers::start(1, "edge").unwrap();
        let task = workers.get(0).spawn(std::future::pending::<()>());
        workers.shutdown();
        assert!(task.is_finished());
    }
}
