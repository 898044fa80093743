//! The text of the metrics, rendered at a limited rate.

mod format;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};
use upesi_http::Bytes;

pub(crate) use self::format::Format;

/// The metrics in the OpenMetrics text format. However many clients request them, they are rendered at most once in an
/// interval. An earlier request waits for the next rendering, so that no answer is older than its request.
#[derive(Clone)]
pub struct MetricsText {
    make: Arc<dyn Fn() -> String + Send + Sync>,
    interval: Duration,
    last: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl MetricsText {
    /// Rendered by `make`, at most once in `interval`.
    pub fn new(interval: Duration, make: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), interval, last: Arc::default() }
    }

    /// The current or a later text.
    pub(crate) async fn text(&self) -> Bytes {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((made, text)) = &*last {
            if *made > asked {
                return text.clone();
            }
            sleep_until(*made + self.interval).await;
        }
        let made = Instant::now();
        let text = Bytes::from((self.make)());
        *last = Some((made, text.clone()));
        text
    }
}

impl fmt::Debug for MetricsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsText").field("interval", &self.interval).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn text_is_rendered_once_per_interval_for_all_clients() {
        let made = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&made);
        let text = MetricsText::new(Duration::from_secs(1), move || {
            counter.fetch_add(1, Ordering::Relaxed).to_string()
        });
        let start = Instant::now();
        assert_eq!(text.text().await, "0");
        assert_eq!(start.elapsed(), Duration::ZERO, "the first does not wait");
        let asking: Vec<_> = (0..50)
            .map(|_| {
                let text = text.clone();
                tokio::spawn(async move { text.text().await })
            })
            .collect();
        for asked in asking {
            assert_eq!(asked.await.unwrap(), "1");
        }
        assert_eq!((start.elapsed(), made.load(Ordering::Relaxed)), (Duration::from_secs(1), 2));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(text.text().await, "2");
        assert_eq!(start.elapsed(), Duration::from_secs(6), "a client that asks rarely does not wait");
    }
}
