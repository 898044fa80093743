//! The batcher of the engine's replies: each is sent, though the runtime is woken once for many.

use std::sync::Arc;

use tokio::sync::oneshot;
use upesi_engine::SubmitError;

use crate::check;
use crate::held::Held;
use crate::queue::Answer;
use crate::reply_batcher::ReplyBatcher;

fn answer() -> Answer {
    Err(SubmitError::Busy)
}

/// Pushes the replies of one batch and notifies once, as the committer does.
fn push_batch(batcher: &ReplyBatcher, batch: Vec<oneshot::Sender<Answer>>) {
    push_with_callbacks(batcher, batch.into_iter().map(|to| (to, None)));
}

/// The same with callbacks that some of the replies hold back.
fn push_with_callbacks(
    batcher: &ReplyBatcher,
    batch: impl Iterator<Item = (oneshot::Sender<Answer>, Option<Held>)>,
) {
    let mut is_notified = false;
    for (to, held) in batch {
        is_notified |= batcher.push((to, answer(), held));
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

/// Answer first, callback after: what a reply holds back comes out once, with or after that reply, and never before.
#[test]
fn no_callback_goes_before_its_reply_is_sent() {
    check(3, || {
        let batcher = Arc::new(ReplyBatcher::default());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let of_runtime = Arc::clone(&batcher);
        let runtime = loom::thread::spawn(move || {
            loom::future::block_on(async {
                let (mut taken, mut held) = (Vec::new(), Vec::new());
                let (mut answered, mut released) = ([false; 3], [0; 3]);
                // Ends only if all replies and all callbacks come.
                while answered != [true; 3] || released != [1, 0, 1] {
                    of_runtime.drain(&mut taken, &mut held).await;
                    for (answered, receiver) in answered.iter_mut().zip(&mut receivers) {
                        *answered |= receiver.try_recv().is_ok();
                    }
                    for Held(number) in held.drain(..) {
                        assert!(answered[number], "the callback of {number} overtakes its reply");
                        released[number] += 1;
                    }
                }
            });
        });
        let mut senders = senders.into_iter().zip([Some(Held(0)), None, Some(Held(2))]);
        push_with_callbacks(&batcher, senders.by_ref().take(2));
        push_with_callbacks(&batcher, senders);
        runtime.join().unwrap();
    });
}
