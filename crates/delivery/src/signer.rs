//! The hub's signature under what it makes itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use upesi_http::{WorkerHandle, Workers};
use upesi_jws::{PrivateKey, SIGNATURE};

use crate::OutgoingRequest;

/// Signs messages that the hub makes itself, on threads of its own: an RSA signature takes as long as many transfers,
/// and a key in a token is slower still. What waits for them is bounded by what lanes have in flight. Clones share the
/// key.
#[derive(Clone, Debug)]
pub struct Signer {
    key: Arc<RwLock<Arc<PrivateKey>>>,
    threads: Arc<[WorkerHandle]>,
    next: Arc<AtomicUsize>,
}

impl Signer {
    /// Signs by this key, on these threads.
    pub fn new(key: PrivateKey, threads: &Workers) -> Self {
        let threads = threads.iter().cloned().collect();
        Self { key: Arc::new(RwLock::new(Arc::new(key))), threads, next: Arc::default() }
    }

    /// Signs by another key from now on.
    pub fn replace(&self, key: PrivateKey) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
    }

    /// Adds the signature. A message that cannot be signed goes out as it is, and its receiver decides.
    pub(crate) async fn sign(&self, mut request: OutgoingRequest) -> OutgoingRequest {
        let key = Arc::clone(&self.key.read().unwrap_or_else(PoisonError::into_inner));
        let signing = async move {
            match key.sign(&request.headers, &request.body) {
                Ok(value) => {
                    request.headers.insert(SIGNATURE, value);
                }
                Err(error) => {
                    tracing::error!(%error, uri = %request.target.path, "a message goes out unsigned")
                }
            }
            request
        };
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        match self.threads[turn].spawn(signing).await {
            Ok(request) => request,
            // The threads end only after all messages: nothing waits here then.
            Err(_) => std::future::pending().await,
        }
    }
}

impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.key, &other.key)
    }
}

impl Eq for Signer {}
