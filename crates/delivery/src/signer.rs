//! Signs messages that the hub creates.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use upesi_http::{WorkerHandle, Workers};
use upesi_jws::{PrivateKey, SIGNATURE};

use crate::OutgoingRequest;

/// Signs messages that the hub creates, on threads of its own: an RSA signature takes as long as many transfers, and a
/// key in a token is slower still. The number of waiting messages is limited by the requests that lanes have in flight.
/// Clones share the key.
#[derive(Clone, Debug)]
pub struct Signer {
    key: Arc<RwLock<Arc<PrivateKey>>>,
    threads: Arc<[WorkerHandle]>,
    next: Arc<AtomicUsize>,
}

impl Signer {
    /// Signs with this key, on these threads.
    pub fn new(key: PrivateKey, threads: &Workers) -> Self {
        let threads = threads.iter().cloned().collect();
        Self { key: Arc::new(RwLock::new(Arc::new(key))), threads, next: Arc::default() }
    }

    /// From now on, signs with another key.
    pub fn replace(&self, key: PrivateKey) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
    }

    /// Adds the signature. A message that cannot be signed is sent without one, and its receiver decides.
    pub(crate) async fn sign(&self, mut request: OutgoingRequest) -> OutgoingRequest {
        let key = Arc::clone(&self.key.read().unwrap_or_else(PoisonError::into_inner));
        let signing = async move {
            match key.sign(&request.headers, &request.body) {
                Ok(value) => {
                    request.headers.insert(SIGNATURE, value);
                }
                Err(error) => {
                    tracing::error!(%error, uri = %request.target.path, "cannot sign a message; it is sent unsigned")
                }
            }
            request
        };
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        match self.threads[turn].spawn(signing).await {
            Ok(request) => request,
            // The threads end only after all messages, so nothing waits here then.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use aws_lc_rs::digest::Digest;
    use upesi_http::{Bytes, HeaderMap, Method, Target};
    use upesi_keys::{Key, KeyFamily, NotSigned, Scheme};

    use super::*;

    /// Signs with one repeated byte, and records the threads.
    #[derive(Debug)]
    struct Stamp(u8, Mutex<BTreeSet<String>>);

    impl Key for Stamp {
        fn kind(&self) -> KeyFamily {
            KeyFamily::P256
        }

        fn public(&self) -> &[u8] {
            &[]
        }

        fn sign(&self, _scheme: Scheme, _digest: &Digest) -> Result<Vec<u8>, NotSigned> {
            self.1.lock().unwrap().insert(std::thread::current().name().unwrap().to_owned());
            Ok(vec![self.0; 3])
        }
    }

    fn request(is_hub_made: bool) -> OutgoingRequest {
        let mut headers = HeaderMap::new();
        for name in ["fspiop-uri", "fspiop-http-method", "fspiop-source"] {
            headers.insert(name, "x".parse().unwrap());
        }
        let target = Target::parse("http://greenbank/x").unwrap();
        let body = Bytes::from_static(b"{}");
        OutgoingRequest { target, method: Method::PUT, headers, body, is_hub_made, sender: None }
    }

    #[tokio::test]
    async fn messages_of_the_hub_are_signed_by_the_current_key_on_all_threads() {
        let threads = Workers::start(2, "signer").unwrap();
        let stamps = [0, 1].map(|byte| Arc::new(Stamp(byte, Mutex::default())));
        let [first, second] = stamps.clone().map(|stamp| PrivateKey::new(stamp));
        let signer = Signer::new(first.clone(), &threads);
        let other = Signer::new(first, &threads);
        let signature = async |is_hub_made| {
            let sent = request(is_hub_made).into_http(Some(&signer)).await;
            let value = sent.headers().get(SIGNATURE).map(|value| value.to_str().unwrap().to_owned());
            value.map(|value| value.split('"').nth(3).unwrap().to_owned())
        };
        for _ in 0..4 {
            assert_eq!(signature(true).await.as_deref(), Some("AAAA"));
        }
        let seen = stamps[0].1.lock().unwrap().iter().cloned().collect::<Vec<_>>();
        assert_eq!(seen, ["signer-0", "signer-1"]);
        assert_eq!(signature(false).await, None, "a DFSP's own");
        signer.clone().replace(second);
        assert_eq!(signature(true).await.as_deref(), Some("AQEB"), "clones share the key");
        assert!(signer == signer.clone() && signer != other);
    }
}
