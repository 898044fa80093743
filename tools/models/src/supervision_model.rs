//! What connections are told: an order reaches a connection at its first poll, or wakes it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::supervision::{Order, Supervisor, Watched};
use crate::{Limits, check};

const LIMITS: Limits =
    Limits { head_deadline: Duration::from_secs(10), idle_timeout: Duration::from_secs(120) };

/// What a connection's task does where no byte arrives: it is polled once, and again when it is woken.
fn wait_for_order(watched: &Watched) -> Order {
    loom::future::block_on(poll_fn(|context| match watched.order(context) {
        Order::Serve => Poll::Pending,
        order => Poll::Ready(order),
    }))
}

#[test]
fn an_order_given_while_a_connection_is_first_polled_reaches_it() {
    check(3, || {
        let supervisor = Arc::new(Supervisor::new(&LIMITS));
        let connection = supervisor.watch(1, None, None);
        let of_operator = Arc::clone(&supervisor);
        let operator = loom::thread::spawn(move || of_operator.finish_all());
        // Ends only if the order comes: Loom reports who waits for a waking that was forgotten.
        assert_eq!(wait_for_order(&connection.0), Order::Finish);
        operator.join().unwrap();
        drop(connection);
        assert!(supervisor.sweep(), "it has ended, and is forgotten");
    });
}

#[test]
fn a_connection_that_comes_while_all_are_told_is_told_too() {
    check(3, || {
        let supervisor = Arc::new(Supervisor::new(&LIMITS));
        let of_operator = Arc::clone(&supervisor);
        let operator = loom::thread::spawn(move || of_operator.finish_all());
        let connection = supervisor.watch(1, None, None);
        assert_eq!(wait_for_order(&connection.0), Order::Finish);
        operator.join().unwrap();
        drop(connection);
        assert!(supervisor.sweep(), "it has ended, and is forgotten");
    });
}

#[test]
fn a_connection_that_ends_while_it_is_to_make_way_is_counted_once() {
    check(3, || {
        let supervisor = Arc::new(Supervisor::new(&LIMITS));
        let connection = supervisor.watch(1, None, None);
        let watched = Arc::clone(&connection.0);
        let accepting = loom::thread::spawn(move || watched.make_way(Order::Abort));
        drop(connection);
        accepting.join().unwrap();
        assert_eq!(supervisor.leaving(), 0, "nobody is leaving any more");
    });
}

#[test]
fn who_is_to_make_way_hears_of_it() {
    check(3, || {
        let supervisor = Arc::new(Supervisor::new(&LIMITS));
        let connection = supervisor.watch(1, None, None);
        let watched = Arc::clone(&connection.0);
        let accepting = loom::thread::spawn(move || assert!(watched.make_way(Order::Abort)));
        assert_eq!(wait_for_order(&connection.0), Order::Abort);
        accepting.join().unwrap();
        assert_eq!(supervisor.leaving(), 1);
        drop(connection);
        assert_eq!(supervisor.leaving(), 0);
        supervisor.sweep();
    });
}
