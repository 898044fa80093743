//! The count of open connections: whoever waits for the last to close learns of it, and sees what all have done.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::AtomicUsize;

use crate::check;
use crate::open_connections::OpenConnections;

/// What closing connections leave behind, ordered by nothing but their count.
struct Server {
    open: Arc<OpenConnections>,
    served: AtomicUsize,
}

impl Server {
    fn new() -> Arc<Self> {
        Arc::new(Self { open: Arc::new(OpenConnections::new()), served: AtomicUsize::new(0) })
    }

    /// Opens a connection, which then closes on a thread of its own.
    fn serve(self: &Arc<Self>) -> loom::thread::JoinHandle<()> {
        let (server, connection) = (Arc::clone(self), self.open.open());
        loom::thread::spawn(move || {
            server.served.fetch_add(1, Ordering::Relaxed);
            drop(connection);
        })
    }

    /// Ends only if all close and tell it: Loom reports who waits for a waking that was forgotten.
    fn wait(&self) -> usize {
        loom::future::block_on(self.open.all_closed());
        self.served.load(Ordering::Relaxed)
    }
}

#[test]
fn who_waits_for_the_last_connection_sees_what_all_have_done() {
    check(3, || {
        let server = Server::new();
        let connections = [server.serve(), server.serve()];
        assert_eq!(server.wait(), 2);
        connections.into_iter().for_each(|connection| connection.join().unwrap());
        assert_eq!(server.open.count(), 0);
    });
}

#[test]
fn all_who_wait_are_told() {
    check(2, || {
        let server = Server::new();
        let connection = server.serve();
        let other = Arc::clone(&server);
        let other = loom::thread::spawn(move || other.wait());
        assert_eq!((server.wait(), other.join().unwrap()), (1, 1));
        connection.join().unwrap();
    });
}
