//! The batcher of the engine's replies: each is sent, though the runtime is woken once for many.

use std::sync::Arc;

use tokio::sync::oneshot;
use upesi_engine::SubmitError;

use crate::check;
use crate::queue::Answer;
use crate::reply_batcher::ReplyBatcher;

fn answer() -> Answer {
    Err(SubmitError::Busy)
}

/// Pushes the replies of one batch and notifies once, as the committer does.
fn push_batch(batcher: &ReplyBatcher, batch: Vec<oneshot::Sender<Answer>>) {
    let mut is_notified = false;
    for to in batch {
        is_notified |= batcher.push((to, answer(), None));
    }
    if is_notified {
        batcher.notify();
    }
}

#[test]
fn every_reply_is_sent() {
    check(4, || {
        let batcher = Arc::new(ReplyBatcher::default());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let of_runtime = Arc::clone(&batcher);
        let runtime = loom::thread::spawn(move || {
            loom::future::block_on(async {
                let (mut taken, mut held) = (Vec::new(), Vec::new());
                // Ends only if all come: Loom reports a thread that waits for a notification that was forgotten.
                while !receivers.is_empty() {
                    of_runtime.drain(&mut taken, &mut held).await;
                    receivers.retain_mut(|receiver| receiver.try_recv().is_err());
                }
            });
        });
        let mut senders = senders.into_iter();
        push_batch(&batcher, senders.by_ref().take(2).collect());
        push_batch(&batcher, senders.collect());
        runtime.join().unwrap();
    });
}

#[test]
fn two_threads_that_push_lose_no_reply() {
    // The engine's thread and the journal's may both commit, one after the other; here they do it at once.
    check(3, || {
        let batcher = Arc::new(ReplyBatcher::default());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
        let threads: Vec<_> = senders
            .into_iter()
            .map(|sender| {
                let batcher = Arc::clone(&batcher);
                loom::thread::spawn(move || push_batch(&batcher, vec![sender]))
            })
            .collect();
        loom::future::block_on(async {
            let (mut taken, mut held) = (Vec::new(), Vec::new());
            while !receivers.is_empty() {
                batcher.drain(&mut taken, &mut held).await;
                receivers.retain_mut(|receiver| receiver.try_recv().is_err());
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
