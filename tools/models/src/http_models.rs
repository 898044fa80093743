//! Models of the server's connection state.

/// The count of open connections: a thread that waits for the last close is woken, and sees the effects of all
/// connections.
mod open_connections_model {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use loom::sync::atomic::AtomicUsize;

    use crate::check;
    use crate::open_connections::OpenConnections;

    /// Effects of closing connections. Only the count of connections orders them.
    struct Server {
        open: Arc<OpenConnections>,
        served: AtomicUsize,
    }

    impl Server {
        fn new() -> Arc<Self> {
            Arc::new(Self { open: Arc::new(OpenConnections::new()), served: AtomicUsize::new(0) })
        }

        /// Opens a connection, which then closes on a separate thread.
        fn serve(self: &Arc<Self>) -> loom::thread::JoinHandle<()> {
            let (server, connection) = (Arc::clone(self), self.open.open());
            loom::thread::spawn(move || {
                server.served.fetch_add(1, Ordering::Relaxed);
                drop(connection);
            })
        }

        /// Ends only if all connections close and report it: Loom reports a thread that is never woken.
        fn wait(&self) -> usize {
            loom::future::block_on(self.open.all_closed());
            self.served.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn waiter_for_the_last_connection_sees_the_effects_of_all() {
        check(3, || {
            let server = Server::new();
            let connections = [server.serve(), server.serve()];
            assert_eq!(server.wait(), 2);
            connections.into_iter().for_each(|connection| connection.join().unwrap());
            assert_eq!(server.open.count(), 0);
        });
    }

    #[test]
    fn last_close_wakes_all_waiters() {
        check(2, || {
            let server = Server::new();
            let connection = server.serve();
            let other = Arc::clone(&server);
            let other = loom::thread::spawn(move || other.wait());
            assert_eq!((server.wait(), other.join().unwrap()), (1, 1));
            connection.join().unwrap();
        });
    }
}

/// Orders to connections: an order reaches a connection at its first poll, or wakes it.
mod supervision_model {
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::task::Poll;
    use std::time::Duration;

    use crate::supervision::{Order, SupervisedConnection, Supervisor};
    use crate::{Limits, check};

    const LIMITS: Limits = Limits {
        head_deadline: Duration::from_secs(10),
        idle_timeout: Duration::from_secs(120),
        unread_timeout: Duration::from_secs(10),
    };

    /// The task of a connection that receives no bytes: it is polled once, and again when it is woken.
    fn wait_for_order(watched: &SupervisedConnection) -> Order {
        loom::future::block_on(poll_fn(|context| match watched.order(context) {
            Order::Serve => Poll::Pending,
            order => Poll::Ready(order),
        }))
    }

    #[test]
    fn order_during_the_first_poll_reaches_the_connection() {
        check(3, || {
            let supervisor = Arc::new(Supervisor::new(&LIMITS));
            let connection = supervisor.watch(1, None, None);
            let of_operator = Arc::clone(&supervisor);
            let operator = loom::thread::spawn(move || of_operator.finish_all());
            // This wait ends only if the order arrives, because Loom reports a thread that is never woken.
            assert_eq!(wait_for_order(&connection.0), Order::Finish);
            operator.join().unwrap();
            drop(connection);
            assert!(supervisor.sweep(), "an ended connection must be removed");
        });
    }

    #[test]
    fn order_to_all_reaches_a_new_connection() {
        check(3, || {
            let supervisor = Arc::new(Supervisor::new(&LIMITS));
            let of_operator = Arc::clone(&supervisor);
            let operator = loom::thread::spawn(move || of_operator.finish_all());
            let connection = supervisor.watch(1, None, None);
            assert_eq!(wait_for_order(&connection.0), Order::Finish);
            operator.join().unwrap();
            drop(connection);
            assert!(supervisor.sweep(), "an ended connection must be removed");
        });
    }

    #[test]
    fn connection_that_ends_while_it_makes_way_is_counted_once() {
        check(3, || {
            let supervisor = Arc::new(Supervisor::new(&LIMITS));
            let connection = supervisor.watch(1, None, None);
            let watched = Arc::clone(&connection.0);
            let accepting = loom::thread::spawn(move || watched.make_way(Order::Abort));
            drop(connection);
            accepting.join().unwrap();
            assert_eq!(supervisor.leaving(), 0, "no connection is leaving");
        });
    }

    #[test]
    fn order_to_make_way_reaches_the_connection() {
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
}
