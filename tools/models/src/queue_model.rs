//! The queue between the edges and the engine: nothing is lost, and nobody waits for what is there.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use upesi_engine::SubmitError;
use upesi_ledger::{Command, Ledger, LedgerConfig};

use crate::check;
use crate::queue::{Completion, Queue, Submission};

/// Loom's time does not pass: whoever waits must be woken.
const FOR_EVER: Duration = Duration::MAX;

/// What the consumer has taken, in order.
type Taken = Arc<Mutex<Vec<u32>>>;

/// A question that puts its number down when it is taken.
fn numbered(number: u32, taken: &Taken) -> Submission {
    let taken = Arc::clone(taken);
    Submission::Question(Box::new(move |_: &Ledger| -> Completion {
        taken.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        Box::new(|_| {})
    }))
}

/// Takes questions until the queue is closed and empty.
fn consume(queue: &Queue) {
    let (ledger, mut submissions) = (Ledger::new(LedgerConfig::default()), VecDeque::new());
    while queue.take_all(&mut submissions, FOR_EVER) {
        for submission in submissions.drain(..) {
            match submission {
                Submission::Question(question) => drop(question(&ledger)),
                Submission::Quiet(_) | Submission::Command { .. } => unreachable!("nobody submits one here"),
            }
        }
    }
}

fn in_order(taken: &Taken) -> Vec<u32> {
    taken.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[test]
fn all_is_taken_and_of_each_producer_in_order() {
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
fn whoever_waits_for_the_first_submission_is_woken_by_it() {
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
fn a_command_that_nobody_waits_for_goes_with_the_next_that_somebody_does() {
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
fn a_nudge_ends_the_waiting_now_or_the_next_time() {
    check(3, || {
        let queue = Arc::new(Queue::new(8));
        let of_consumer = Arc::clone(&queue);
        let consumer = loom::thread::spawn(move || of_consumer.take_all(&mut VecDeque::new(), FOR_EVER));
        queue.nudge();
        assert!(consumer.join().unwrap(), "a nudge closes nothing");
    });
}

#[test]
fn what_was_let_in_before_the_close_is_taken_and_nothing_else() {
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
fn a_full_queue_says_so_and_is_full_no_more_once_it_is_taken() {
    check(3, || {
        let (queue, taken) = (Arc::new(Queue::new(1)), Taken::default());
        queue.push(numbered(1, &taken)).unwrap();
        let (of_producer, taken_too) = (Arc::clone(&queue), Arc::clone(&taken));
        let producer = loom::thread::spawn(move || of_producer.push(numbered(2, &taken_too)));
        let mut submissions = VecDeque::new();
        assert!(queue.take_all(&mut submissions, FOR_EVER));
        let second = producer.join().unwrap();
        let (count, left) = (submissions.len(), queue.len());
        // Refused when it came before the first was taken; else it is there, taken with the first or not yet.
        match second {
            Ok(()) => assert_eq!(count + left, 2),
            Err(error) => assert_eq!((error, count, left), (SubmitError::Busy, 1, 0)),
        }
    });
}
