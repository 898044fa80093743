//! A consumer that can be closed without waiting for unavailable brokers.

use std::ops::Deref;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;

use crate::settings::Context;

/// Time limit for sending the consumer's last commit to the brokers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A consumer that is closed in a separate thread. librdkafka waits without limit for the answer to a commit
/// (confluentinc/librdkafka#3740). Otherwise a node could neither stop nor use renewed certificates in that time.
pub(crate) struct Reader(Option<BaseConsumer<Context>>);

impl Reader {
    pub(crate) const fn new(consumer: BaseConsumer<Context>) -> Self {
        Self(Some(consumer))
    }
}

impl Deref for Reader {
    type Target = BaseConsumer<Context>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("the consumer is taken on drop")
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let consumer = self.0.take();
        let (closed, is_closed) = channel();
        let closing = thread::Builder::new().name("kafka-close".to_owned()).spawn(move || {
            drop(consumer);
            let _ = closed.send(());
        });
        match closing {
            Ok(_) if is_closed.recv_timeout(CLOSE_TIMEOUT).is_ok() => {}
            Ok(_) => {
                tracing::warn!(
                    "the consumer offset was not committed; it will be committed after the next start"
                )
            }
            Err(error) => tracing::warn!(%error, "closing the consumer on the calling thread"),
        }
    }
}
