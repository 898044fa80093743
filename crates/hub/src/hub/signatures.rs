//! Signatures of messages: who must sign, what the hub signs, keys that are read again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::interval;
use upesi_admin::{HubKey, HubKeyState, HubKeys, SignatureKeyRules};
use upesi_delivery::Signer;
use upesi_engine::{Clock, Participants, SharedParticipants};
use upesi_fspiop::{Operation, Resource, SyncError};
use upesi_gateway::{Authenticator, Parts};
use upesi_http::{Method, Workers};
use upesi_jws::{
    Fault, Freshness, KeyFileError, KeyRing, KeyView, PrivateKey, Recorded, Records, Request, SIGNATURE,
    verify,
};
use upesi_keys::{KeyError, Keys, Place};
use upesi_types::{ErrorCode, FspId, Timestamp};

use super::HubError;
use crate::config::{Settings, SignatureMode, SignatureModes};
use crate::exposition::{counter, gauge, head};

/// Senders that are no participants count together.
const UNKNOWN: &str = "unknown";

/// Signatures as the settings want them.
pub(super) struct Signatures {
    verifier: Option<Arc<Verifier>>,
    signing: Option<Arc<Signing>>,
    reload_interval: Duration,
    reload_now: Notify,
    /// Whether the files on the disk cannot be used, so that older ones are in force.
    is_failing: AtomicBool,
}

/// Verifies what participants send.
struct Verifier {
    /// The keys in files, if there are any.
    directory: Option<PathBuf>,
    allows_es256: bool,
    base_path: String,
    modes: SignatureModes,
    keys: RwLock<Keyrings>,
    participants: SharedParticipants,
    clock: Arc<dyn Clock>,
    verified: AtomicU64,
    /// Messages that were not verified, by participant, reason and mode.
    faults: Mutex<BTreeMap<(String, &'static str, SignatureMode), u64>>,
}

/// The keys that count: those in files, and those in the ledger.
struct Keyrings {
    in_files: KeyRing,
    /// The participants at that moment.
    generation: u64,
    all: Arc<KeyRing>,
}

impl Signatures {
    /// Reads the keys that the settings name.
    pub(super) fn load(
        settings: &Settings,
        keys: &Keys,
        participants: &SharedParticipants,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, HubError> {
        let jws = &settings.jws;
        let modes = SignatureModes::read(jws.mode, &jws.exceptions).map_err(HubError::Settings)?;
        let verifier = match modes.verifies_any() {
            false => None,
            true => Some(Arc::new(Verifier {
                directory: (!jws.keys_dir.is_empty()).then(|| Path::new(&jws.keys_dir).to_owned()),
                allows_es256: jws.es256,
                base_path: jws.base_path.clone(),
                keys: RwLock::new(Keyrings::of_files(load(Path::new(&jws.keys_dir), jws.es256)?)),
                modes,
                participants: participants.clone(),
                clock: Arc::clone(clock),
                verified: AtomicU64::new(0),
                faults: Mutex::default(),
            })),
        };
        let signing = Signing::open(settings, keys, clock)?.map(Arc::new);
        Ok(Self {
            verifier,
            signing,
            reload_interval: Duration::from_secs(settings.tls.reload_interval_s),
            reload_now: Notify::new(),
            is_failing: AtomicBool::new(false),
        })
    }

    /// Signs what the hub makes itself.
    pub(super) fn signer(&self) -> Option<Signer> {
        self.signing.as_ref().map(|signing| signing.signer())
    }

    /// The public keys of the hub, for those who verify what it signs.
    pub(super) fn hub_keys(&self) -> HubKeys {
        let signing = self.signing.clone();
        Arc::new(move || signing.as_ref().map(|signing| signing.announced()).unwrap_or_default())
    }

    /// What operators are told of the keys of participants, and by which rules new ones are taken.
    pub(super) fn participants_keys(&self, settings: &Settings) -> SignatureKeyRules {
        let verifier = self.verifier.clone();
        let in_files = move || verifier.as_ref().map(|verifier| verifier.in_files()).unwrap_or_default();
        SignatureKeyRules { allows_es256: settings.jws.es256, in_files: Arc::new(in_files) }
    }

    /// Judges requests, if any participant has to sign.
    pub(super) fn authenticator(&self) -> Option<impl Authenticator + use<>> {
        self.verifier.clone().map(Judge)
    }

    /// Has the keys read again now.
    pub(super) fn reload_soon(&self) {
        self.reload_now.notify_one();
    }

    /// Reads the keys again at every interval. Ends at once if there are none.
    pub(super) async fn keep(self: Arc<Self>) {
        if self.verifier.is_none() && self.signing.is_none() {
            return;
        }
        let mut due = interval(self.reload_interval);
        due.tick().await;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = self.reload_now.notified() => tracing::info!("reading the keys of signatures again"),
            }
            let signatures = Arc::clone(&self);
            // Files are read, which must not delay operators' requests.
            let _ = tokio::task::spawn_blocking(move || signatures.reload()).await;
        }
    }

    /// Reads all keys again. What cannot be used leaves in force what was.
    fn reload(&self) {
        let ring = self.verifier.as_ref().map_or(Ok(()), |verifier| verifier.reload());
        let own = self.signing.as_ref().map_or(Ok(()), |signing| signing.reload());
        if let Err(error) = &ring {
            tracing::error!(%error, "the keys of participants cannot be used; those in force stay");
        }
        if let Err(error) = &own {
            tracing::error!(%error, "the hub's key of signatures cannot be used; the one in force stays");
        }
        self.is_failing.store(ring.is_err() || own.is_err(), Ordering::Relaxed);
    }

    /// The metrics, if messages are signed or verified.
    pub(super) fn write(&self, text: &mut String) {
        if let Some(verifier) = &self.verifier {
            verifier.write(text);
        }
        if self.verifier.is_some() || self.signing.is_some() {
            let failing = u64::from(self.is_failing.load(Ordering::Relaxed));
            let help = "1 while the keys of signatures cannot be used and older ones are in force";
            gauge(text, "upesi_jws_reload_failing", help, failing);
        }
    }

    /// Stops signing. All messages have left by then.
    pub(super) fn shutdown(&self) {
        if let Some(signing) = &self.signing {
            signing.shutdown();
        }
    }
}

impl Verifier {
    fn reload(&self) -> Result<(), KeyFileError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let ring = load(directory, self.allows_es256)?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        keys.in_files = ring;
        self.join(&mut keys);
        Ok(())
    }

    fn in_files(&self) -> Vec<KeyView> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).in_files.views().collect()
    }

    /// The keys that count now. Those of the ledger are looked at again when participants have changed.
    fn keys(&self) -> Arc<KeyRing> {
        let is_fresh = |keys: &Keyrings| keys.generation == self.participants.generation();
        {
            let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
            if is_fresh(&keys) {
                return Arc::clone(&keys.all);
            }
        }
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if !is_fresh(&keys) {
            self.join(&mut keys);
        }
        Arc::clone(&keys.all)
    }

    fn join(&self, keys: &mut Keyrings) {
        // Before the participants: if they change in between, they are looked at once more.
        let generation = self.participants.generation();
        let participants = self.participants.get();
        let (all, unusable) = keys.in_files.with(&records(&participants), &keys.all);
        for sha256 in unusable {
            tracing::warn!(%sha256, "a key of a participant in the ledger cannot be used by these settings");
        }
        *keys = Keyrings { in_files: std::mem::take(&mut keys.in_files), generation, all: Arc::new(all) };
    }

    fn judge(&self, operation: Operation, head: &Parts, body: &[u8]) -> Result<(), SyncError> {
        let source = head.headers.get("fspiop-source").and_then(|source| source.to_str().ok());
        let source = source.unwrap_or_default();
        let mode = self.modes.of(source);
        // Questions need no signature, but must not carry a wrong one.
        if mode == SignatureMode::Off || (head.method == Method::GET && !head.headers.contains_key(SIGNATURE))
        {
            return Ok(());
        }
        let keys = self.keys();
        let request = Request {
            method: &head.method,
            uri: &head.uri,
            headers: &head.headers,
            body,
            base_path: &self.base_path,
        };
        match verify(request, &keys, freshness(operation), self.clock.now()) {
            Ok(()) => {
                self.verified.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(fault) => self.fault(source, mode, &fault),
        }
    }

    fn fault(&self, source: &str, mode: SignatureMode, fault: &Fault) -> Result<(), SyncError> {
        let known = FspId::parse(source).and_then(|name| {
            let participants = self.participants.get();
            participants.named(&name).map(|participant| participant.name.to_string())
        });
        let fsp = known.unwrap_or_else(|| UNKNOWN.to_owned());
        tracing::debug!(%fsp, %fault, mode = mode.name(), "a signature is not its sender's");
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        *faults.entry((fsp, fault.label(), mode)).or_default() += 1;
        drop(faults);
        match mode {
            SignatureMode::Enforce => Err(SyncError::new(ErrorCode::INVALID_SIGNATURE, &fault.to_string())),
            SignatureMode::Warn | SignatureMode::Off => Ok(()),
        }
    }

    fn write(&self, text: &mut String) {
        let verified = self.verified.load(Ordering::Relaxed);
        counter(text, "upesi_jws_verified", "Messages whose signature is their sender's", verified);
        let keys = self.keys().len();
        gauge(text, "upesi_jws_participants", "Participants whose public keys are known", keys as u64);
        let name = "upesi_jws_faults";
        head(text, name, "counter", "Messages whose signature is missing or not their sender's");
        for ((fsp, reason, mode), count) in self.faults.lock().unwrap_or_else(PoisonError::into_inner).iter()
        {
            let (fsp, mode) = (fsp.replace('\\', "\\\\").replace('"', "\\\""), mode.name());
            // Writing into a String does not fail.
            let _ =
                writeln!(text, "{name}_total{{fsp=\"{fsp}\",reason=\"{reason}\",mode=\"{mode}\"}} {count}");
        }
    }
}

impl Keyrings {
    fn of_files(in_files: KeyRing) -> Self {
        Self { in_files, generation: NEVER, all: Arc::default() }
    }
}

/// No number of a replacement of participants.
const NEVER: u64 = u64::MAX;

fn load(directory: &Path, allows_es256: bool) -> Result<KeyRing, KeyFileError> {
    match directory.as_os_str().is_empty() {
        true => Ok(KeyRing::empty(allows_es256)),
        false => KeyRing::load(directory, allows_es256),
    }
}

/// What the ledger has of keys.
fn records(participants: &Participants) -> Records<'_> {
    let mut records = Records::default();
    for (id, known) in participants.signature_keys().iter() {
        let Some(participant) = participants.get(id) else { continue };
        let name = participant.name.as_str();
        records.keys.extend(known.keys.iter().map(|key| Recorded {
            participant: name,
            public_key: &key.public_key.0,
            sha256: key.public_key.sha256(),
            from: key.not_before,
            until: key.ends_at,
        }));
        records.revoked.extend(known.revoked.iter().map(|revoked| revoked.sha256));
        records.files_until.extend(known.files_end_at.map(|end| (name.to_ascii_lowercase(), end)));
    }
    records
}

/// What a repetition of a request would do: a registration moves or removes a party, and an answer to a lookup answers
/// the next one, too. All else has an id that is known by then.
fn freshness(operation: Operation) -> Freshness {
    match (operation.resource(), operation.method()) {
        (Resource::Participants, method) if method != upesi_fspiop::Method::Get => Freshness::Recent,
        (Resource::Parties, upesi_fspiop::Method::Put) => Freshness::Recent,
        _ => Freshness::Any,
    }
}

/// The verifier, as the gateway asks it.
struct Judge(Arc<Verifier>);

impl Authenticator for Judge {
    fn authenticate(&self, operation: Operation, head: &Parts, body: &[u8]) -> Result<(), SyncError> {
        self.0.judge(operation, head, body)
    }
}

impl From<KeyFileError> for HubError {
    fn from(source: KeyFileError) -> Self {
        Self::Keys(source)
    }
}

// The hub's own keys: the one that signs, the one that will, those that did.

/// How long the key of before is still shown: what it signed may be under way.
const PREVIOUS_MS: i64 = 24 * 60 * 60 * 1_000;
/// Keys of before that are shown, at most.
const PREVIOUS_MAX: usize = 3;

/// Signs what the hub makes itself.
pub(super) struct Signing {
    place: Place,
    next_place: Option<Place>,
    keys: Keys,
    signer: Signer,
    threads: Workers,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

/// The keys of which receivers may have heard.
struct Known {
    current: PrivateKey,
    next: Option<PrivateKey>,
    /// With the time until which each is shown.
    previous: Vec<(PrivateKey, Timestamp)>,
}

impl Signing {
    /// Opens the keys that the settings name; `None` if the hub signs nothing.
    pub(super) fn open(
        settings: &Settings,
        keys: &Keys,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Self>, HubError> {
        let place = |text: &str| match text {
            "" => Ok(None),
            text => Place::parse(text).map(Some).map_err(|error| HubError::Settings(error.to_string())),
        };
        let Some(current_place) = place(&settings.jws.signing_key_file)? else { return Ok(None) };
        let next_place = place(&settings.jws.next_key_file)?;
        let refused = |setting| move |source| HubError::PrivateKey { setting, source };
        let key = keys.open(&current_place).map_err(refused("jws.signing_key_file"))?;
        let current = PrivateKey::new(key);
        let next = open_next(keys, next_place.as_ref()).map_err(refused("jws.next_key_file"))?;
        let threads = Workers::start(keys.signatures_at_a_time(&current_place), "upesi-signer")?;
        Ok(Some(Self {
            signer: Signer::new(current.clone(), &threads),
            place: current_place,
            next_place,
            keys: keys.clone(),
            threads,
            clock: Arc::clone(clock),
            known: Mutex::new(Known { current, next, previous: Vec::new() }),
        }))
    }

    pub(super) fn signer(&self) -> Signer {
        self.signer.clone()
    }

    /// Opens the keys again, which lets each sign once. One that cannot be used leaves in force what was.
    pub(super) fn reload(&self) -> Result<(), KeyError> {
        let current = PrivateKey::new(self.keys.open(&self.place)?);
        let next = open_next(&self.keys, self.next_place.as_ref())?;
        let mut known = self.known();
        if current.public() != known.current.public() {
            let is_same = |key: &PrivateKey| key.public() == current.public();
            if !known.next.as_ref().is_some_and(is_same) {
                tracing::warn!(
                    "the hub signs by a key that was not shown before: receivers that do not have it refuse messages \
                     (jws.next_key_file shows the next one in time)"
                );
            }
            tracing::info!("the hub signs by another key");
            let until = self.clock.now().plus_ms(PREVIOUS_MS);
            let before = std::mem::replace(&mut known.current, current.clone());
            known.previous.retain(|(key, _)| key.public() != before.public() && !is_same(key));
            known.previous.insert(0, (before, until));
            known.previous.truncate(PREVIOUS_MAX);
            self.signer.replace(current);
        }
        known.next = next.filter(|next| next.public() != known.current.public());
        Ok(())
    }

    /// The public keys that receivers should have.
    pub(super) fn announced(&self) -> Vec<HubKey> {
        let (known, now) = (self.known(), self.clock.now());
        let shown =
            |state, key: &PrivateKey, until| HubKey::new(state, key.algorithm_name(), key.public(), until);
        let next = known.next.as_ref().map(|key| shown(HubKeyState::Next, key, None));
        let current = shown(HubKeyState::Current, &known.current, None);
        let previous = known.previous.iter().filter(|(_, until)| *until > now);
        let previous = previous.map(|(key, until)| shown(HubKeyState::Previous, key, Some(*until)));
        next.into_iter().chain([current]).chain(previous).collect()
    }

    /// Ends the threads.
    pub(super) fn shutdown(&self) {
        self.threads.shutdown();
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The next key; a file that is not there yet is none.
fn open_next(keys: &Keys, place: Option<&Place>) -> Result<Option<PrivateKey>, KeyError> {
    match place {
        Some(place) if place.file().is_none_or(std::path::Path::exists) => {
            Ok(Some(PrivateKey::new(keys.open(place)?)))
        }
        _ => Ok(None),
    }
}
