//! The desk where the engine lays answers: each is handed out, though the runtime is woken once for many.

use std::sync::Arc;

use tokio::sync::oneshot;
use upesi_engine::SubmitError;

use crate::check;
use crate::desk::Desk;
use crate::queue::Answer;

fn answer() -> Answer {
    Err(SubmitError::Busy)
}

/// Lays the answers of one batch and rings once, as the committer does.
fn lay_batch(desk: &Desk, batch: Vec<oneshot::Sender<Answer>>) {
    let mut is_rung = false;
    for to in batch {
        is_rung |= desk.lay((to, answer(), None));
    }
    if is_rung {
        desk.ring();
    }
}

#[test]
fn every_answer_is_handed_out() {
    check(4, || {
        let desk = Arc::new(Desk::default());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let of_runtime = Arc::clone(&desk);
        let runtime = loom::thread::spawn(move || {
            loom::future::block_on(async {
                let (mut taken, mut held) = (Vec::new(), Vec::new());
                // Ends only if all come: Loom reports who waits for a ring that was forgotten.
                while !receivers.is_empty() {
                    of_runtime.hand_out(&mut taken, &mut held).await;
                    receivers.retain_mut(|receiver| receiver.try_recv().is_err());
                }
            });
        });
        let mut senders = senders.into_iter();
        lay_batch(&desk, senders.by_ref().take(2).collect());
        lay_batch(&desk, senders.collect());
        runtime.join().unwrap();
    });
}

#[test]
fn two_that_lay_answers_forget_none() {
    // The engine's thread and the journal's may both commit, one after the other; here they do it at once.
    check(3, || {
        let desk = Arc::new(Desk::default());
        let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..2).map(|_| oneshot::channel()).unzip();
        let threads: Vec<_> = senders
            .into_iter()
            .map(|sender| {
                let desk = Arc::clone(&desk);
                loom::thread::spawn(move || lay_batch(&desk, vec![sender]))
            })
            .collect();
        loom::future::block_on(async {
            let (mut taken, mut held) = (Vec::new(), Vec::new());
            while !receivers.is_empty() {
                desk.hand_out(&mut taken, &mut held).await;
                receivers.retain_mut(|receiver| receiver.try_recv().is_err());
            }
        });
        for thread in threads {
            thread.join().unwrap();
        }
    });
}
