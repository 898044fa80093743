//! Logins by identity providers that are in progress.
//!
//! The browser keeps the data of such a login in a sealed cookie, so an unauthenticated client uses no memory of the
//! hub. The key of the seal lasts as long as the process.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use upesi_oidc::LoginSecrets;
use upesi_types::Timestamp;

/// Time within which the user must have logged in at the provider.
pub(crate) const FLOW_MS: i64 = 10 * 60_000;
/// Maximum length of the sealed text. Browsers store cookies of at most 4096 bytes.
const SEALED_CHARS_MAX: usize = 4_000;
/// Maximum number of exchanges with providers at the same time, and of those for one address.
const EXCHANGES_MAX: usize = 16;
const EXCHANGES_PER_ADDRESS_MAX: usize = 4;
/// Number of the latest completed logins whose answers are not accepted again.
const COMPLETED_MAX: usize = 1_024;
/// Additional data of the seal: its purpose.
const PURPOSE: &[u8] = b"upesi login by an identity provider";

/// A login that a browser has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BegunLogin {
    /// The provider's label.
    pub(crate) provider: String,
    pub(crate) secrets: LoginSecrets,
    /// The page that the user wants.
    pub(crate) next: String,
    pub(crate) begun_at_ms: i64,
    /// The session whose user logs in again.
    pub(crate) renews: Option<RenewedSession>,
}

/// A session whose user logs in again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RenewedSession {
    pub(crate) id: String,
    pub(crate) operator: String,
}

impl BegunLogin {
    /// Whether the answer came in time.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        (0..FLOW_MS).contains(&now.ms_since(Timestamp::from_ms(self.begun_at_ms)))
    }

    /// Whether an answer belongs to it.
    pub(crate) fn has_state(&self, state: &str) -> bool {
        verify_slices_are_equal(self.secrets.state.as_bytes(), state.as_bytes()).is_ok()
    }
}

/// The seal of logins in progress, and the exchanges with providers.
pub(crate) struct ProviderLogins {
    /// `None` if the system returned no random bits.
    key: Option<RandomizedNonceKey>,
    exchanges: Mutex<BTreeMap<IpAddr, usize>>,
    /// The states of completed logins, the latest last.
    completed: Mutex<VecDeque<Box<str>>>,
}

impl Default for ProviderLogins {
    fn default() -> Self {
        let mut bytes = [0; 32];
        let key = rand::fill(&mut bytes).ok();
        let key = key.and_then(|()| RandomizedNonceKey::new(&AES_256_GCM, &bytes).ok());
        Self { key, exchanges: Mutex::default(), completed: Mutex::default() }
    }
}

impl fmt::Debug for ProviderLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLogins").finish_non_exhaustive()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProviderLogins {
    /// The login as a text for the browser, which cannot read or change it; `None` if it is too long, or if the system
    /// returned no random bits.
    pub(crate) fn seal(&self, login: &BegunLogin) -> Option<String> {
        let mut text = serde_json::to_vec(login).ok()?;
        let nonce = self.key.as_ref()?.seal_in_place_append_tag(Aad::from(PURPOSE), &mut text).ok()?;
        let sealed = URL_SAFE_NO_PAD.encode([&nonce.as_ref()[..], &text].concat());
        (sealed.len() <= SEALED_CHARS_MAX).then_some(sealed)
    }

    /// The login in a text that this process has sealed.
    pub(crate) fn open(&self, sealed: &str) -> Option<BegunLogin> {
        if sealed.len() > SEALED_CHARS_MAX {
            return None;
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, text) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let text = self.key.as_ref()?.open_in_place(nonce, Aad::from(PURPOSE), text).ok()?;
        serde_json::from_slice(text).ok()
    }

    /// Permission for an exchange with a provider; `None` if too many are in progress.
    pub(crate) fn exchange(&self, address: IpAddr) -> Option<Exchange<'_>> {
        let mut exchanges = locked(&self.exchanges);
        let own = exchanges.get(&address).copied().unwrap_or_default();
        if exchanges.values().sum::<usize>() >= EXCHANGES_MAX || own >= EXCHANGES_PER_ADDRESS_MAX {
            return None;
        }
        exchanges.insert(address, own + 1);
        Some(Exchange { logins: self, address })
    }

    /// Whether a login was completed before.
    pub(crate) fn is_completed(&self, login: &BegunLogin) -> bool {
        locked(&self.completed).iter().any(|state| **state == *login.secrets.state)
    }

    /// Notes that a login is completed.
    pub(crate) fn complete(&self, login: &BegunLogin) {
        let mut completed = locked(&self.completed);
        if completed.len() >= COMPLETED_MAX {
            completed.pop_front();
        }
        completed.push_back(login.secrets.state.as_str().into());
    }
}

/// Permission for one exchange, until it is dropped.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    logins: &'a ProviderLogins,
    address: IpAddr,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let mut exchanges = locked(&self.logins.exchanges);
        if let Some(own) = exchanges.get_mut(&self.address) {
            *own -= 1;
            if *own == 0 {
                exchanges.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(next: &str) -> BegunLogin {
        BegunLogin {
            provider: "oidc".to_owned(),
            secrets: LoginSecrets::random().unwrap(),
            next: next.to_owned(),
            begun_at_ms: 1_000,
            renews: None,
        }
    }

    #[test]
    fn only_the_process_that_sealed_a_login_opens_it() {
        let logins = ProviderLogins::default();
        let begun = login("/console");
        let sealed = logins.seal(&begun).unwrap();
        assert_eq!(logins.open(&sealed), Some(begun.clone()));
        assert_ne!(logins.seal(&begun).unwrap(), sealed, "each seal has its own nonce");
        assert_eq!(ProviderLogins::default().open(&sealed), None);
        for place in [0, 20, sealed.len() - 1] {
            let other = if &sealed[place..=place] == "A" { "B" } else { "A" };
            let mut changed = sealed.clone();
            changed.replace_range(place..=place, other);
            assert_eq!(logins.open(&changed), None, "{place}");
        }
        for text in ["", "A", "AAAAAAAAAAAAAAAA", "=", &"A".repeat(SEALED_CHARS_MAX + 1)] {
            assert_eq!(logins.open(text), None, "{text}");
        }
        // The longest page that a login page accepts fits, and a longer one is rejected.
        assert!(logins.seal(&login(&"x".repeat(crate::NEXT_BYTES_MAX))).is_some());
        assert_eq!(logins.seal(&login(&"x".repeat(4_000))), None);
    }

    #[test]
    fn login_ends_after_ten_minutes_and_has_one_state() {
        let begun = login("/console");
        for (ms, is_open) in [(999, false), (1_000, true), (600_999, true), (601_000, false)] {
            assert_eq!(begun.is_open(Timestamp::from_ms(ms)), is_open, "{ms}");
        }
        assert!(begun.has_state(&begun.secrets.state));
        for state in ["", "x", &begun.secrets.nonce, &begun.secrets.state[1..]] {
            assert!(!begun.has_state(state));
        }
    }

    #[test]
    fn exchanges_are_limited_per_address_and_in_total() {
        let logins = ProviderLogins::default();
        let address = |last| IpAddr::from([192, 0, 2, last]);
        let own: Vec<_> = (0..10).filter_map(|_| logins.exchange(address(1))).collect();
        assert_eq!(own.len(), EXCHANGES_PER_ADDRESS_MAX);
        let others: Vec<_> = (2..100).filter_map(|last| logins.exchange(address(last))).collect();
        assert_eq!(own.len() + others.len(), EXCHANGES_MAX);
        drop(own);
        assert!(logins.exchange(address(1)).is_some());
        drop(others);
        assert!(locked(&logins.exchanges).is_empty());
    }

    #[test]
    fn only_the_latest_completed_logins_are_remembered() {
        let logins = ProviderLogins::default();
        let begun: Vec<_> = (0..=COMPLETED_MAX).map(|_| login("/console")).collect();
        assert!(!logins.is_completed(&begun[0]));
        begun.iter().for_each(|one| logins.complete(one));
        assert!(!logins.is_completed(&begun[0]) && begun[1..].iter().all(|one| logins.is_completed(one)));
    }
}
