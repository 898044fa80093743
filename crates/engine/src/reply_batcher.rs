//! Sends replies to waiting senders, one wake-up for each runtime.
//!
//! Waking a task of another thread's runtime costs a system call, and a batch has many replies. Replies are therefore
//! collected in one [`ReplyBatcher`] per runtime. Each runtime is woken once, and its own task then sends the replies,
//! which costs next to nothing.
//!
//! Callbacks that must not overtake a reply are held together with it. They are released after the waiting tasks have
//! run: a connection that has its reply writes it before another task of its worker runs. If another node of the
//! cluster forwards the reply, the callbacks wait for that as well.

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::sleep;

use crate::held::HeldRecord;
use crate::queue::Answer;
use crate::sync::{Mutex, MutexGuard, Notify};

/// An answer, the channel to its receiver, and the callbacks that wait until it is written.
pub(crate) type Reply = (oneshot::Sender<Answer>, Answer, Option<HeldRecord>);

/// Collects the replies for the tasks of one runtime.
#[derive(Default)]
pub(crate) struct ReplyBatcher {
    replies: Mutex<Vec<Reply>>,
    notified: Notify,
}

/// Time allowed for another node to forward a response to the DFSP. That node sends no confirmation.
pub const ANSWER_TAKES: Duration = Duration::from_millis(50);

/// The target of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyTo {
    /// The connection of the DFSP at this node.
    #[default]
    Dfsp,
    /// Another node of the cluster, which forwards it.
    Node,
}

impl ReplyTo {
    /// Time from this node's write until the reply is at the DFSP.
    pub const fn takes(self) -> Duration {
        match self {
            Self::Dfsp => Duration::ZERO,
            Self::Node => ANSWER_TAKES,
        }
    }
}

/// The batchers of one runtime, by target of the replies.
type Batchers = [Option<Arc<ReplyBatcher>>; 2];

thread_local! {
    /// The batchers of the runtime that this thread last ran.
    static BATCHERS: RefCell<Option<(Id, Batchers)>> = const { RefCell::new(None) };
}

impl ReplyBatcher {
    /// The batcher of the runtime that runs this task; `None` outside a runtime.
    pub(crate) fn for_this_runtime(to: ReplyTo) -> Option<Arc<Self>> {
        let runtime = Handle::try_current().ok()?;
        BATCHERS.with_borrow_mut(|present| {
            if present.as_ref().is_none_or(|(id, _)| *id != runtime.id()) {
                *present = Some((runtime.id(), Batchers::default()));
            }
            let batcher = present.as_mut().map(|(_, batchers)| &mut batchers[to as usize])?;
            let batcher = batcher.get_or_insert_with(|| {
                let batcher = Arc::new(Self::default());
                runtime.spawn(run(Arc::clone(&batcher), to));
                batcher
            });
            Some(Arc::clone(batcher))
        })
    }

    /// Adds a reply. Returns whether it is the first since the last [`drain`](Self::drain); the runtime must then be
    /// notified.
    pub(crate) fn push(&self, reply: Reply) -> bool {
        let mut replies = self.replies();
        replies.push(reply);
        replies.len() == 1
    }

    /// Wakes the runtime.
    pub(crate) fn notify(&self) {
        self.notified.notify_one();
    }

    /// Waits for [`notify`](Self::notify) and sends the collected replies, using `taken` as a buffer, which is empty
    /// before and after. Adds the callbacks that wait for those replies to `held`.
    pub(crate) async fn drain(&self, taken: &mut Vec<Reply>, held: &mut Vec<HeldRecord>) {
        self.notified.notified().await;
        mem::swap(taken, &mut *self.replies());
        for (to, answer, waiting) in taken.drain(..) {
            // A client that disconnected learns the outcome by callback.
            let _ = to.send(answer);
            held.extend(waiting);
        }
    }

    fn replies(&self) -> MutexGuard<'_, Vec<Reply>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends replies for the lifetime of the runtime.
async fn run(batcher: Arc<ReplyBatcher>, to: ReplyTo) {
    let (mut taken, mut held) = (Vec::new(), Vec::new());
    loop {
        batcher.drain(&mut taken, &mut held).await;
        if held.is_empty() {
            continue;
        }
        if to == ReplyTo::Node {
            let mut held = mem::take(&mut held);
            tokio::spawn(async move {
                sleep(to.takes()).await;
                HeldRecord::release_all(&mut held);
            });
        } else {
            // Runs after all tasks that were woken by their replies.
            yield_now().await;
            HeldRecord::release_all(&mut held);
        }
    }
}
