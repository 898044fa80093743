//! The last durable record: a follower that waits for the next wakes when it is published, and at the close.

use std::sync::Arc;

use crate::check;
use crate::durable_seq::DurableSeq;

/// Follows from record 1 to the close, and returns the last record that it came to.
fn follow(durable: &DurableSeq) -> u64 {
    let mut seen = 0;
    while let Some(reached) = durable.wait_past(seen) {
        assert!(reached > seen, "a record is durable once");
        seen = reached;
    }
    seen
}

#[test]
fn a_follower_sees_every_publication_before_the_close() {
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
fn a_publication_wakes_a_follower_without_a_further_one() {
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
