//! A consumer whose end does not wait for brokers that are away.

use std::ops::Deref;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rdkafka::consumer::BaseConsumer;

use crate::client::Context;

/// How long brokers may take to be told what the consumer committed last.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// Closes in a thread of its own: librdkafka waits for the answer to a commit for as long as it takes, which may be for
/// ever (confluentinc/librdkafka#3740), and a node could neither stop nor take renewed certificates.
pub(crate) struct Reader(Option<BaseConsumer<Context>>);

impl Reader {
    pub(crate) const fn new(consumer: BaseConsumer<Context>) -> Self {
        Self(Some(consumer))
    }
}

impl Deref for Reader {
    type Target = BaseConsumer<Context>;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is taken when it is dropped")
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
