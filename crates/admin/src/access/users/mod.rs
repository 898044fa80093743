//! The hub's own users: passwords, second factors, sessions.

mod attempts;
mod sealing;
mod sessions;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use upesi_keys::Secret;
use upesi_ledger::SealedSecret;
use upesi_types::Timestamp;

use self::attempts::Attempts;
pub(crate) use self::sealing::{PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, Password, Seed, UnsealedSecret};
use self::sessions::Sessions;
pub(crate) use self::sessions::{FACTOR_MS, IDLE_MS, ProviderLogin, Session, SessionOrigin, id_of};
use super::Token;
pub(crate) use sealing::{base32, device_uri, step_of};

/// Maximum number of passwords that are hashed at the same time: each needs 19 MiB and a core for some tens of
/// milliseconds.
const HASHED_AT_ONCE: usize = 1;
/// Maximum number of waiting logins from unknown addresses; further ones are rejected.
const STRANGERS_WAITING_MAX: usize = 8;
/// Maximum number of waiting logins from known addresses of users.
const KNOWN_WAITING_MAX: usize = 8;
/// Maximum number of enrolments that wait for their first code, and their time limit.
const ENROLMENTS_MAX: usize = 64;
const ENROLMENT_MS: i64 = 10 * 60_000;

/// Other logins are in progress: this one was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy;

/// An enrolment with a password, before the first code.
#[derive(Clone, Debug)]
pub(crate) struct BegunEnrolment {
    pub(crate) operator: Box<str>,
    /// Number of the enrolment among the operator's credentials.
    pub(crate) credential: u32,
    pub(crate) sealed: SealedSecret,
    pub(crate) seed: Seed,
    begun_at: Timestamp,
}

/// The hub's data about users outside the ledger.
#[derive(Debug)]
pub(crate) struct UserRegistry {
    /// A secret that is mixed into the keys of second factors.
    secret: Option<Secret>,
    hashing: Semaphore,
    strangers: Semaphore,
    known: Semaphore,
    attempts: Mutex<Attempts>,
    sessions: Mutex<Sessions>,
    enrolments: Mutex<BTreeMap<[u8; 32], BegunEnrolment>>,
}

impl Default for UserRegistry {
    fn default() -> Self {
        Self::new(None)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The address of a caller; callers without one share one.
pub(crate) fn address_of(text: Option<&str>) -> IpAddr {
    text.and_then(|text| text.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

impl UserRegistry {
    /// `secret` is mixed into the keys of second factors, if the hub has one.
    pub(crate) fn new(secret: Option<Secret>) -> Self {
        Self {
            secret,
            hashing: Semaphore::new(HASHED_AT_ONCE),
            strangers: Semaphore::new(STRANGERS_WAITING_MAX),
            known: Semaphore::new(KNOWN_WAITING_MAX),
            attempts: Mutex::default(),
            sessions: Mutex::default(),
            enrolments: Mutex::default(),
        }
    }

    /// Counts an attempt as failed until it has succeeded.
    ///
    /// # Errors
    /// Seconds to wait.
    pub(crate) fn begin(&self, name: &str, address: IpAddr, now: Timestamp) -> Result<(), u64> {
        locked(&self.attempts).begin(name, address, now)
    }

    /// Records that the attempt succeeded.
    pub(crate) fn succeeded(&self, name: &str, address: IpAddr) {
        locked(&self.attempts).succeeded(name, address);
    }

    /// The secret of a second factor, if the password is right. For an unknown user it takes equally long, and fails.
    pub(crate) async fn open(
        &self,
        password: Password,
        operator: &str,
        address: IpAddr,
        sealed: Option<SealedSecret>,
    ) -> Result<Option<UnsealedSecret>, Busy> {
        let (name, secret) = (operator.to_owned(), self.secret.clone());
        let open = move || {
            let sealed_or_decoy = sealed.unwrap_or_else(sealing::decoy);
            let opened = sealing::open(&password, secret.as_ref(), &name, &sealed_or_decoy);
            sealed.and(opened)
        };
        self.hash(operator, address, open).await
    }

    /// A secret sealed under a password; `None` if the system returned no random bits.
    pub(crate) async fn seal(
        &self,
        password: Password,
        operator: &str,
        address: IpAddr,
        seed: Seed,
    ) -> Result<Option<SealedSecret>, Busy> {
        let (name, secret) = (operator.to_owned(), self.secret.clone());
        let seal = move || sealing::seal(&password, secret.as_ref(), &name, &seed);
        self.hash(operator, address, seal).await
    }

    /// Runs on a separate thread.
    async fn hash<T: Send + 'static>(
        &self,
        operator: &str,
        address: IpAddr,
        work: impl FnOnce() -> Option<T> + Send + 'static,
    ) -> Result<Option<T>, Busy> {
        let is_known = locked(&self.attempts).knows(operator, address);
        let waiting = if is_known { &self.known } else { &self.strangers };
        let _place = waiting.try_acquire().map_err(|_| Busy)?;
        let _turn = self.hashing.acquire().await.map_err(|_| Busy)?;
        Ok(tokio::task::spawn_blocking(work).await.unwrap_or_default())
    }

    pub(crate) fn open_session(&self, token: &Token, session: Session) {
        locked(&self.sessions).open(token, session);
    }

    /// The session of a token; counts as its use.
    pub(crate) fn session(&self, token: &Token, now: Timestamp) -> Option<Session> {
        locked(&self.sessions).by_token(token, now)
    }

    /// All sessions that have not ended.
    pub(crate) fn sessions(&self, now: Timestamp) -> Vec<Session> {
        locked(&self.sessions).list(now)
    }

    /// Changes a session; false if there is none.
    pub(crate) fn change_session(&self, id: &str, change: impl FnOnce(&mut Session)) -> bool {
        locked(&self.sessions).change(id, change)
    }

    /// Ends the sessions that match a condition.
    pub(crate) fn end_sessions(&self, which: impl Fn(&Session) -> bool) {
        locked(&self.sessions).end(which);
    }

    /// Stores an enrolment until its first code is shown. The oldest one is dropped if there are too many.
    pub(crate) fn begin_enrolment(
        &self,
        token: &Token,
        (operator, credential): (Box<str>, u32),
        (sealed, seed): (SealedSecret, Seed),
        now: Timestamp,
    ) {
        let mut begun = locked(&self.enrolments);
        begun.retain(|_, one| now.ms_since(one.begun_at) < ENROLMENT_MS);
        if begun.len() >= ENROLMENTS_MAX
            && let Some(oldest) = begun.iter().min_by_key(|(_, one)| one.begun_at).map(|(digest, _)| *digest)
        {
            begun.remove(&oldest);
        }
        begun.insert(token.digest(), BegunEnrolment { operator, credential, sealed, seed, begun_at: now });
    }

    /// The enrolment of a token, if it was begun and has not expired.
    pub(crate) fn enrolment(&self, token: &Token, now: Timestamp) -> Option<BegunEnrolment> {
        let begun = locked(&self.enrolments);
        let found = begun.get(&token.digest()).filter(|one| now.ms_since(one.begun_at) < ENROLMENT_MS);
        found.cloned()
    }

    /// Removes a completed enrolment.
    pub(crate) fn end_enrolment(&self, token: &Token) {
        locked(&self.enrolments).remove(&token.digest());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const AWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

    #[tokio::test]
    async fn logins_queue_and_unknown_addresses_leave_places_for_known_ones() {
        let people = Arc::new(UserRegistry::default());
        people.succeeded("amina", HOME);
        let turn = people.hashing.acquire().await.unwrap();
        let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let work = |address| {
            let (people, running, most) = (Arc::clone(&people), Arc::clone(&running), Arc::clone(&most));
            tokio::spawn(async move {
                let work = move || {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    running.fetch_sub(1, Ordering::SeqCst);
                    Some(())
                };
                people.hash("amina", address, work).await
            })
        };
        let mut waiting: Vec<_> = (0..STRANGERS_WAITING_MAX).map(|_| work(AWAY)).collect();
        while people.strangers.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(people.hash("amina", AWAY, || Some(())).await, Err(Busy));
        assert_eq!(people.hash("brian", HOME, || Some(())).await, Err(Busy));
        waiting.push(work(HOME));
        while people.known.available_permits() == KNOWN_WAITING_MAX {
            tokio::task::yield_now().await;
        }
        drop(turn);
        for one in waiting {
            assert_eq!(one.await.unwrap(), Ok(Some(())));
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    }
}
