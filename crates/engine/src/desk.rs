//! Answers on their way back to those who wait.
//!
//! Waking a task of another thread's runtime costs a system call. A batch has many answers, so they are laid on a desk,
//! one per runtime, and each runtime is woken once; its own task then hands them out, which costs it next to nothing.
//!
//! Callbacks that must not overtake an answer come with it. They may go once those who wait have had their turn: a connection
//! that has its answer writes it before it lets another task of its worker run.

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, PoisonError};

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::held::Held;
use crate::queue::Answer;
use crate::sync::{Mutex, MutexGuard, Notify};

/// An answer, whom it is for, and what waits until it is written.
pub(crate) type Letter = (oneshot::Sender<Answer>, Answer, Option<Held>);

/// Where the answers for the tasks of one runtime are laid.
#[derive(Default)]
pub(crate) struct Desk {
    letters: Mutex<Vec<Letter>>,
    rung: Notify,
}

thread_local! {
    /// The desk of the runtime that this thread last ran.
    static DESK: RefCell<Option<(Id, Arc<Desk>)>> = const { RefCell::new(None) };
}

impl Desk {
    /// The desk of the runtime that runs this task; none outside of one.
    pub(crate) fn of_this_runtime() -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        DESK.with_borrow_mut(|present| match present {
            Some((id, desk)) if *id == runtime.id() => Some(Arc::clone(desk)),
            _ => {
                let desk = Arc::new(Self::default());
                runtime.spawn(serve(Arc::clone(&desk)));
                *present = Some((runtime.id(), Arc::clone(&desk)));
                Some(desk)
            }
        })
    }

    /// Lays an answer down; tells whether it is the first since they were last taken.
    pub(crate) fn lay(&self, letter: Letter) -> bool {
        let mut letters = self.letters();
        letters.push(letter);
        letters.len() == 1
    }

    /// Tells the runtime that there are answers.
    pub(crate) fn ring(&self) {
        self.rung.notify_one();
    }

    /// Waits for the ring and hands out what lies there, through `taken`, which is empty before and after. Collects what waits
    /// until those answers are written.
    pub(crate) async fn hand_out(&self, taken: &mut Vec<Letter>, held: &mut Vec<Held>) {
        self.rung.notified().await;
        mem::swap(taken, &mut *self.letters());
        for (to, answer, waiting) in taken.drain(..) {
            // A caller that hung up learns the outcome by callback.
            let _ = to.send(answer);
            held.extend(waiting);
        }
    }

    fn letters(&self) -> MutexGuard<'_, Vec<Letter>> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands answers out for as long as the runtime lives.
async fn serve(desk: Arc<Desk>) {
    let (mut taken, mut held) = (Vec::new(), Vec::new());
    loop {
        desk.hand_out(&mut taken, &mut held).await;
        if !held.is_empty() {
            // Behind all that were woken by their answers.
            yield_now().await;
            Held::release_all(&mut held);
        }
    }
}
