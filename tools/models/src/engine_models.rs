//! Models of the data that the engine, its edges and its archivist pass to each other.

/// The queue between the edges and the engine: no submission is lost, and no thread waits for a submission that has
/// arrived.
mod queue_model {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::time::Duration;

    use upesi_engine::SubmitError;
    use upesi_ledger::{Command, Ledger, LedgerConfig};

    use crate::check;
    use crate::queue::{Completion, Queue, Submission};

    /// Time does not pass in Loom, so every waiting thread must be woken.
    const FOR_EVER: Duration = Duration::MAX;

    /// The submissions that the consumer has taken, in order.
    type Taken = Arc<Mutex<Vec<u32>>>;

    /// A query that records its number when it is taken.
    fn numbered(number: u32, taken: &Taken) -> Submission {
        let taken = Arc::clone(taken);
        Submission::Question(Box::new(move |_: &Ledger| -> Completion {
            taken.lock().unwrap_or_else(PoisonError::into_inner).push(number);
            Box::new(|_| {})
        }))
    }

    /// Takes submissions until the queue is closed and empty.
    fn consume(queue: &Queue) {
        let (ledger, mut submissions) = (Ledger::new(LedgerConfig::default()), VecDeque::new());
        while queue.take_all(&mut submissions, FOR_EVER) {
            for submission in submissions.drain(..) {
                match submission {
                    Submission::Question(question) => drop(question(&ledger)),
                    Submission::Quiet(_) | Submission::Command { .. } => {
                        unreachable!("this model submits none")
                    }
                }
            }
        }
    }

    fn in_order(taken: &Taken) -> Vec<u32> {
        taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[test]
    fn queue_keeps_all_submissions_and_the_order_of_each_producer() {
        check(3, || {
            let (queue, taken) = (Arc::new(Queue::new(8)), Taken::default());
            let producer = |numbers: [u32; 2]| {
                let (queue, taken) = (Arc::clone(&queue), Arc::clone(&taken));
                loom::thread::spawn(move || {
                    for number in numbers {
                        queue.push(numbered(number, &taken)).unwrap();
                    }
                })
            };
            let producers = [producer([1, 2]), producer([11, 12])];
            let of_consumer = Arc::clone(&queue);
            let consumer = loom::thread::spawn(move || consume(&of_consumer));
            for producer in producers {
                producer.join().unwrap();
            }
            queue.close();
            consumer.join().unwrap();
            let (low, high): (Vec<_>, Vec<_>) = in_order(&taken).into_iter().partition(|number| *number < 10);
            assert_eq!((low, high), (vec![1, 2], vec![11, 12]));
        });
    }

    #[test]
    fn queue_wakes_the_waiter_of_the_first_submission() {
        check(3, || {
            let (queue, taken) = (Arc::new(Queue::new(8)), Taken::default());
            let of_consumer = Arc::clone(&queue);
            let consumer = loom::thread::spawn(move || {
                let mut submissions = VecDeque::new();
                assert!(of_consumer.take_all(&mut submissions, FOR_EVER));
                submissions.len()
            });
            queue.push(numbered(1, &taken)).unwrap();
            assert_eq!(consumer.join().unwrap(), 1);
        });
    }

    #[test]
    fn quiet_command_is_taken_with_the_next_awaited_one() {
        check(3, || {
            let (queue, taken) = (Arc::new(Queue::new(8)), Taken::default());
            let of_consumer = Arc::clone(&queue);
            let consumer = loom::thread::spawn(move || {
                let mut submissions = VecDeque::new();
                let mut count = 0;
                while count < 2 {
                    assert!(of_consumer.take_all(&mut submissions, FOR_EVER));
                    count += submissions.drain(..).count();
                }
            });
            queue.push(Submission::Quiet(Command::Tick)).unwrap();
            queue.push(numbered(1, &taken)).unwrap();
            // Ends only if both are taken.
            consumer.join().unwrap();
        });
    }

    #[test]
    fn nudge_ends_the_present_or_the_next_wait() {
        check(3, || {
            let queue = Arc::new(Queue::new(8));
            let of_consumer = Arc::clone(&queue);
            let consumer = loom::thread::spawn(move || of_consumer.take_all(&mut VecDeque::new(), FOR_EVER));
            queue.nudge();
            assert!(consumer.join().unwrap(), "a nudge must not close the queue");
        });
    }

    #[test]
    fn closed_queue_keeps_exactly_the_accepted_submissions() {
        check(3, || {
            let (queue, taken) = (Arc::new(Queue::new(8)), Taken::default());
            let (of_producer, taken_too) = (Arc::clone(&queue), Arc::clone(&taken));
            let producer = loom::thread::spawn(move || {
                let pushed = (1..=2).map(|number| of_producer.push(numbered(number, &taken_too)));
                pushed.collect::<Vec<_>>()
            });
            let of_consumer = Arc::clone(&queue);
            let consumer = loom::thread::spawn(move || consume(&of_consumer));
            queue.close();
            let pushed = producer.join().unwrap();
            consumer.join().unwrap();
            assert!(pushed.iter().all(|result| matches!(result, Ok(()) | Err(SubmitError::Stopped))));
            let let_in: Vec<u32> =
                (1..).zip(&pushed).filter(|(_, result)| result.is_ok()).map(|(number, _)| number).collect();
            assert_eq!(in_order(&taken), let_in);
        });
    }

    #[test]
    fn full_queue_rejects_until_it_is_emptied() {
        check(3, || {
            let (queue, taken) = (Arc::new(Queue::new(1)), Taken::default());
            queue.push(numbered(1, &taken)).unwrap();
            let (of_producer, taken_too) = (Arc::clone(&queue), Arc::clone(&taken));
            let producer = loom::thread::spawn(move || of_producer.push(numbered(2, &taken_too)));
            let mut submissions = VecDeque::new();
            assert!(queue.take_all(&mut submissions, FOR_EVER));
            let second = producer.join().unwrap();
            let (count, left) = (submissions.len(), queue.len());
            // The second is rejected if it came before the first was taken. Otherwise it was taken with the first, or
            // is still queued.
            match second {
                Ok(()) => assert_eq!(count + left, 2),
                Err(error) => assert_eq!((error, count, left), (SubmitError::Busy, 1, 0)),
            }
        });
    }
}

/// The progress of engine and archivist: the archivist always finishes, and memory never forgets a transfer that an
/// archive lookup has missed.
mod progress_model {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use loom::sync::Mutex;
    use loom::sync::atomic::AtomicBool;

    use crate::check;
    use crate::progress::{ArchiveProgress, Eviction};

    #[test]
    fn archivist_reaches_the_last_record() {
        for fold_every_records in [1, 2] {
            check(3, move || {
                let progress = Arc::new(ArchiveProgress::new(fold_every_records, 0));
                let of_archivist = Arc::clone(&progress);
                let archivist = loom::thread::spawn(move || {
                    let mut seq = 0;
                    loop {
                        let (goal, is_last) = of_archivist.wait_for_more(seq);
                        assert!(goal > seq || is_last, "woken without a reason");
                        seq = goal;
                        of_archivist.publish(seq);
                        if is_last {
                            return seq;
                        }
                    }
                });
                for seq in 1..=3 {
                    progress.journal_reached(seq);
                }
                progress.close(3);
                assert_eq!(archivist.join().unwrap(), 3);
                assert_eq!(progress.watermark(), 3);
            });
        }
    }

    #[test]
    fn archivist_starts_without_a_close() {
        check(3, || {
            let progress = Arc::new(ArchiveProgress::new(2, 0));
            let of_archivist = Arc::clone(&progress);
            let archivist = loom::thread::spawn(move || of_archivist.wait_for_more(0));
            progress.journal_reached(1);
            progress.journal_reached(2);
            assert_eq!(archivist.join().unwrap(), (2, false));
        });
    }

    #[test]
    fn watermark_is_never_newer_than_its_epoch() {
        check(3, || {
            let progress = Arc::new(ArchiveProgress::new(1, 0));
            let of_archivist = Arc::clone(&progress);
            let archivist = loom::thread::spawn(move || (1..=3).for_each(|seq| of_archivist.publish(seq)));
            let (epoch, watermark) = progress.epoch_and_watermark();
            assert!(watermark <= epoch + 1, "record {watermark} belongs to a later epoch than {epoch}");
            archivist.join().unwrap();
        });
    }

    /// A transfer that finished with record 2 is in memory. The archivist puts it into the archive and continues. A
    /// client looks it up in the archive and then submits. The only assumption is that writes before a publication are
    /// visible after it. The engine forgets all that it may. Then it must not decide on a lookup that found nothing.
    #[test]
    fn forgotten_transfer_is_found_by_the_lookup() {
        const RECORD: u64 = 2;
        check(2, || {
            let progress = Arc::new(ArchiveProgress::new(1, 0));
            let is_archived = Arc::new(AtomicBool::new(false));
            let submitted = Arc::new(Mutex::new(None));

            let (of_archivist, archive) = (Arc::clone(&progress), Arc::clone(&is_archived));
            let archivist = loom::thread::spawn(move || {
                for seq in 1..=3 {
                    if seq == RECORD {
                        archive.store(true, Ordering::Relaxed);
                    }
                    of_archivist.publish(seq);
                }
            });
            let (of_caller, archive, to_engine) =
                (Arc::clone(&progress), Arc::clone(&is_archived), Arc::clone(&submitted));
            let caller = loom::thread::spawn(move || {
                let epoch = of_caller.epoch();
                let is_found = archive.load(Ordering::Relaxed);
                *to_engine.lock().unwrap() = Some((epoch, is_found));
            });

            let (mut eviction, mut forgotten_to) = (Eviction::default(), 0);
            for _ in 0..3 {
                // The order of an engine's turn: take queued submissions, forget transfers, decide.
                let submission = submitted.lock().unwrap().take();
                if let Some(due) = eviction.due(&progress) {
                    forgotten_to = due.forget_to;
                }
                if let Some((epoch, is_found)) = submission {
                    let is_known = forgotten_to < RECORD || is_found || eviction.outdates(epoch);
                    assert!(
                        is_known,
                        "the transfer is found neither in memory nor in the archive: looked up in epoch \
                         {epoch}, {eviction:?}"
                    );
                }
            }
            archivist.join().unwrap();
            caller.join().unwrap();
        });
    }
}

/// The last durable record: a follower that waits for the next one wakes when it is published, and when the log is
/// closed.
mod durable_seq_model {
    use std::sync::Arc;

    use crate::check;
    use crate::durable_seq::DurableSeq;

    /// Follows from record 1 to the close. Returns the last record that it reached.
    fn follow(durable: &DurableSeq) -> u64 {
        let mut seen = 0;
        while let Some(reached) = durable.wait_past(seen) {
            assert!(reached > seen, "a follower sees each record once");
            seen = reached;
        }
        seen
    }

    #[test]
    fn follower_sees_every_publication_before_the_close() {
        check(3, || {
            let durable = Arc::new(DurableSeq::new(0));
            let followed = Arc::clone(&durable);
            let follower = loom::thread::spawn(move || follow(&followed));
            durable.publish(1);
            durable.publish(3);
            durable.close();
            assert_eq!(follower.join().unwrap(), 3);
        });
    }

    #[test]
    fn publication_alone_wakes_a_follower() {
        check(3, || {
            let durable = Arc::new(DurableSeq::new(0));
            let followed = Arc::clone(&durable);
            // Loom reports a thread that is never woken.
            let follower = loom::thread::spawn(move || followed.wait_past(0));
            durable.publish(2);
            assert_eq!(follower.join().unwrap(), Some(2));
        });
    }

    #[test]
    fn all_followers_wake() {
        check(2, || {
            let durable = Arc::new(DurableSeq::new(0));
            let followers: Vec<_> = (0..2)
                .map(|_| {
                    let durable = Arc::clone(&durable);
                    loom::thread::spawn(move || durable.wait_past(0))
                })
                .collect();
            durable.publish(1);
            for follower in followers {
                assert_eq!(follower.join().unwrap(), Some(1));
            }
        });
    }
}

/// The batcher of the engine's replies: each reply is sent, although the runtime is woken only once for many.
mod reply_batcher_model {
    use std::sync::Arc;

    use tokio::sync::oneshot;
    use upesi_engine::SubmitError;

    use crate::check;
    use crate::held::HeldRecord;
    use crate::queue::Answer;
    use crate::reply_batcher::ReplyBatcher;

    fn answer() -> Answer {
        Err(SubmitError::Busy)
    }

    /// Pushes the replies of one batch and notifies once, as the committer does.
    fn push_batch(batcher: &ReplyBatcher, batch: Vec<oneshot::Sender<Answer>>) {
        push_with_callbacks(batcher, batch.into_iter().map(|to| (to, None)));
    }

    /// Pushes replies. Some of them hold callbacks back.
    fn push_with_callbacks(
        batcher: &ReplyBatcher,
        batch: impl Iterator<Item = (oneshot::Sender<Answer>, Option<HeldRecord>)>,
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
    fn batcher_sends_every_reply() {
        check(4, || {
            let batcher = Arc::new(ReplyBatcher::default());
            let (senders, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
            let of_runtime = Arc::clone(&batcher);
            let runtime = loom::thread::spawn(move || {
                loom::future::block_on(async {
                    let (mut taken, mut held) = (Vec::new(), Vec::new());
                    // Ends only if all replies come: Loom reports a thread that waits for a notification that was
                    // forgotten.
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
    fn batcher_with_two_threads_loses_no_reply() {
        // The engine's thread and the journal's thread both commit, one after the other. Here they commit at once.
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

    /// The answer comes first and its callback after it. A callback that a reply holds back is released once, with that
    /// reply or after it, and never before.
    #[test]
    fn callback_is_released_after_its_reply() {
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
                        for HeldRecord(number) in held.drain(..) {
                            assert!(answered[number], "the callback of {number} overtakes its reply");
                            released[number] += 1;
                        }
                    }
                });
            });
            let mut senders = senders.into_iter().zip([Some(HeldRecord(0)), None, Some(HeldRecord(2))]);
            push_with_callbacks(&batcher, senders.by_ref().take(2));
            push_with_callbacks(&batcher, senders);
            runtime.join().unwrap();
        });
    }
}
