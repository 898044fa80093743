//! The hub's own keys: the current one, the next one and former ones that are still published.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use upesi_admin::{HubKey, HubKeyState};
use upesi_delivery::Signer;
use upesi_engine::Clock;
use upesi_http::Workers;
use upesi_jws::{KeyFileError, PrivateKey, SubmittedKey};
use upesi_keys::{KeyError, Keys, PrivateKeyLocation};
use upesi_settings::Settings;
use upesi_types::Timestamp;

use crate::error::HubError;

/// Time that the former key stays published, because messages with its signature may be in transit.
const PREVIOUS_MS: i64 = 24 * 60 * 60 * 1_000;
/// Maximum number of former keys that are published.
const PREVIOUS_MAX: usize = 3;

/// Signs messages that the hub creates.
pub(crate) struct Signing {
    place: PrivateKeyLocation,
    next_place: Option<PrivateKeyLocation>,
    /// The certificate file of the signing key.
    certificate: Option<PathBuf>,
    keys: Keys,
    signer: Signer,
    threads: Workers,
    clock: Arc<dyn Clock>,
    known: Mutex<HubKeys>,
}

/// The keys that receivers may use.
struct HubKeys {
    current: PrivateKey,
    /// The end of its certificate's validity.
    ends_at: Option<Timestamp>,
    next: Option<PrivateKey>,
    /// Each with the time until which it is published.
    previous: Vec<(PrivateKey, Timestamp)>,
}

impl Signing {
    /// Opens the keys in the settings; `None` if the hub signs nothing.
    pub(super) fn open(
        settings: &Settings,
        keys: &Keys,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>, HubError> {
        let Some(current_place) = settings.jws.signing_key_file.clone() else { return Ok(None) };
        let next_place = settings.jws.next_key_file.clone();
        let refused = |setting| move |source| HubError::PrivateKey { setting, source };
        let key = keys.open(&current_place).map_err(refused("jws.signing_key_file"))?;
        let current = PrivateKey::new(key);
        let next = open_next(keys, next_place.as_ref()).map_err(refused("jws.next_key_file"))?;
        let certificate = settings.jws.signing_certificate_file.clone();
        let ends_at = end_of(certificate.as_deref(), &current)?;
        let threads = Workers::start(keys.signatures_at_a_time(&current_place), "upesi-signer")?;
        Ok(Some(Self {
            signer: Signer::new(current.clone(), &threads),
            place: current_place,
            next_place,
            certificate,
            keys: keys.clone(),
            threads,
            clock: Arc::clone(clock),
            known: Mutex::new(HubKeys { current, ends_at, next, previous: Vec::new() }),
        }))
    }

    pub(super) fn signer(&self) -> Signer {
        self.signer.clone()
    }

    /// Opens the keys again, and tests each with a signature. If one cannot be used, the keys in effect stay in effect.
    pub(super) fn reload(&self) -> Result<(), SigningError> {
        let current = PrivateKey::new(self.keys.open(&self.place)?);
        let next = open_next(&self.keys, self.next_place.as_ref())?;
        let ends_at = end_of(self.certificate.as_deref(), &current)?;
        let mut known = self.known();
        if current.public() != known.current.public() {
            let is_same = |key: &PrivateKey| key.public() == current.public();
            if !known.next.as_ref().is_some_and(is_same) {
                tracing::warn!(
                    "the hub signs with a key that it did not publish before: receivers without it reject its messages \
                     (jws.next_key_file publishes the next key in advance)"
                );
            }
            tracing::info!("the hub signs with another key");
            let until = self.clock.now().plus_ms(PREVIOUS_MS);
            let before = std::mem::replace(&mut known.current, current.clone());
            known.previous.retain(|(key, _)| key.public() != before.public() && !is_same(key));
            known.previous.insert(0, (before, until));
            known.previous.truncate(PREVIOUS_MAX);
            self.signer.replace(current);
        }
        known.ends_at = ends_at;
        known.next = next.filter(|next| next.public() != known.current.public());
        Ok(())
    }

    /// The end of its certificate's validity.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        self.known().ends_at
    }

    /// The public keys that receivers should know.
    pub(super) fn announced(&self) -> Vec<HubKey> {
        let (known, now) = (self.known(), self.clock.now());
        let shown =
            |state, key: &PrivateKey, until| HubKey::new(state, key.algorithm_name(), key.public(), until);
        let next = known.next.as_ref().map(|key| shown(HubKeyState::Next, key, None));
        let current = shown(HubKeyState::Current, &known.current, None).ending_at(known.ends_at);
        let previous = known.previous.iter().filter(|(_, until)| *until > now);
        let previous = previous.map(|(key, until)| shown(HubKeyState::Previous, key, Some(*until)));
        next.into_iter().chain([current]).chain(previous).collect()
    }

    /// Ends the threads.
    pub(super) fn shutdown(&self) {
        self.threads.shutdown();
    }

    fn known(&self) -> MutexGuard<'_, HubKeys> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reason why the hub's own key cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SigningError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error(transparent)]
    Certificate(#[from] KeyFileError),
}

/// The end of the validity of the key's certificate, if there is one.
fn end_of(certificate: Option<&Path>, key: &PrivateKey) -> Result<Option<Timestamp>, KeyFileError> {
    let Some(path) = certificate else { return Ok(None) };
    let read = SubmittedKey::load_certificate(path)?;
    if *read.public_key != *key.public() {
        let problem = "is not the certificate of the key of jws.signing_key_file".to_owned();
        return Err(KeyFileError::Content { path: path.to_owned(), problem });
    }
    let end = |(_, to): (i64, i64)| Timestamp::from_ms(to.saturating_add(1).saturating_mul(1_000));
    Ok(read.valid_s.map(end))
}

/// The next key; `None` if its file does not exist yet.
fn open_next(keys: &Keys, place: Option<&PrivateKeyLocation>) -> Result<Option<PrivateKey>, KeyError> {
    match place {
        Some(place) if place.file().is_none_or(Path::exists) => Ok(Some(PrivateKey::new(keys.open(place)?))),
        _ => Ok(None),
    }
}
