//! The number of searches at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::ApiError;
use crate::error_name::ErrorName;

/// Maximum number of searches at a time. Further ones wait.
const SEARCHES_MAX: usize = 2;
/// Maximum time that a search waits for others.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The permits of searches. They read from the disk, so only few may occupy threads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Searches(Arc<Semaphore>);

impl Default for Searches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SEARCHES_MAX)))
    }
}

impl Searches {
    /// Waits for a permit.
    ///
    /// # Errors
    /// Other clients keep all permits.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let waited = timeout(WAIT_MAX, Arc::clone(&self.0).acquire_owned()).await;
        let permit = waited.ok().and_then(Result::ok);
        permit.ok_or_else(|| ApiError::new(ErrorName::Busy, "Other clients are searching: try again"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn third_search_waits_for_the_others_and_is_then_busy() {
        let searches = Searches::default();
        let (first, _second) = (searches.permit().await.unwrap(), searches.permit().await.unwrap());
        let refused = searches.permit().await.unwrap_err();
        assert_eq!((refused.status().as_u16(), refused.name()), (503, "busy"));
        let waiting = tokio::spawn(async move { searches.permit().await.is_ok() });
        tokio::time::sleep(WAIT_MAX / 2).await;
        drop(first);
        assert!(waiting.await.unwrap());
    }
}
