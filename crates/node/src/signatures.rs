//! Signatures of messages: verification, the hub's own signatures, reload of keys.

mod own;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::interval;
use upesi_admin::{HubKeys, SignatureKeyRules};
use upesi_delivery::Signer;
use upesi_engine::{Clock, Participants, SharedParticipants};
use upesi_fspiop::{Operation, Resource, SyncError};
use upesi_gateway::{Authenticator, Parts};
use upesi_http::Method;
use upesi_jws::{
    Freshness, KeyFileError, KeyRing, KeyView, RecordedKey, Records, Request, SIGNATURE, SignatureFault,
    is_signature_object, verify,
};
use upesi_keys::Keys;
use upesi_ledger::Participant;
use upesi_process::exposition::{counter, escape, gauge, head};
use upesi_settings::{Choice as _, Settings, SignatureMode, SignatureModes, Unprotected};
use upesi_types::{ErrorCode, FspId, Timestamp};

pub(super) use self::own::Signing;
use super::error::HubError;

/// Label for all senders that are not participants.
const UNKNOWN: &str = "unknown";

/// Signatures according to the settings.
pub(super) struct Signatures {
    verifier: Option<Arc<Verifier>>,
    signing: Option<Arc<Signing>>,
    reload_interval: Duration,
    reload_now: Notify,
    participants: SharedParticipants,
    clock: Arc<dyn Clock>,
    /// Whether a file on disk cannot be used, so that older keys or no keys are in use.
    is_failing: AtomicBool,
}

/// Verifies messages of participants.
struct Verifier {
    /// Directory of key files, if there is one.
    directory: Option<PathBuf>,
    allows_es256: bool,
    base_path: String,
    unsigned_delete: Unprotected,
    unprotected_date: Unprotected,
    modes: SignatureModes,
    keys: RwLock<Keyrings>,
    participants: SharedParticipants,
    clock: Arc<dyn Clock>,
    verified: AtomicU64,
    /// Messages that failed verification, by participant, reason and mode.
    faults: Mutex<BTreeMap<(String, &'static str, SignatureMode), u64>>,
}

/// The valid keys, from files and from the ledger.
struct Keyrings {
    in_files: KeyRing,
    /// Generation of the participants at that moment.
    generation: u64,
    all: Arc<KeyRing>,
}

impl Signatures {
    /// Reads the configured keys.
    pub(super) fn load(
        settings: &Settings,
        keys: &Keys,
        participants: &SharedParticipants,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, HubError> {
        let jws = &settings.jws;
        let modes = settings.signature_modes();
        let verifier = match modes.verifies_any() {
            false => None,
            true => Some(Arc::new(Verifier {
                directory: jws.keys_dir.clone(),
                allows_es256: jws.es256,
                base_path: jws.base_path.clone(),
                unsigned_delete: jws.unsigned_delete.into(),
                unprotected_date: jws.unprotected_date,
                keys: RwLock::new(Keyrings::of_files(load(jws.keys_dir.as_deref(), jws.es256)?)),
                modes,
                participants: participants.clone(),
                clock: Arc::clone(clock),
                verified: AtomicU64::new(0),
                faults: Mutex::default(),
            })),
        };
        let signing = Signing::open(settings, keys, clock)?.map(Arc::new);
        let is_failing = verifier.as_ref().is_some_and(|verifier| verifier.has_unusable_files());
        Ok(Self {
            verifier,
            signing,
            reload_interval: settings.tls.reload_interval_s,
            reload_now: Notify::new(),
            participants: participants.clone(),
            clock: Arc::clone(clock),
            is_failing: AtomicBool::new(is_failing),
        })
    }

    /// Signs the hub's own messages.
    pub(super) fn signer(&self) -> Option<Signer> {
        self.signing.as_ref().map(|signing| signing.signer())
    }

    /// The public keys of the hub, for verification by DFSPs.
    pub(super) fn hub_keys(&self) -> HubKeys {
        let signing = self.signing.clone();
        Arc::new(move || signing.as_ref().map(|signing| signing.announced()).unwrap_or_default())
    }

    /// The view of participants' keys for operators, and the rules for new keys.
    pub(super) fn participants_keys(&self, settings: &Settings) -> SignatureKeyRules {
        let verifier = self.verifier.clone();
        let in_files = move || verifier.as_ref().map(|verifier| verifier.in_files()).unwrap_or_default();
        SignatureKeyRules { allows_es256: settings.jws.es256, in_files: Arc::new(in_files) }
    }

    /// Verifies requests, if any participant's signatures are verified.
    pub(super) fn authenticator(&self) -> Option<impl Authenticator + use<>> {
        self.verifier.clone().map(GatewayVerifier)
    }

    /// Triggers a reload of the keys.
    pub(super) fn reload_soon(&self) {
        self.reload_now.notify_one();
    }

    /// Reloads the keys at every interval. Returns immediately if there are none.
    pub(super) async fn keep(self: Arc<Self>) {
        if self.verifier.is_none() && self.signing.is_none() {
            return;
        }
        let mut due = interval(self.reload_interval);
        due.tick().await;
        loop {
            tokio::select! {
                _ = due.tick() => {}
                () = self.reload_now.notified() => tracing::info!("reloading the signing keys"),
            }
            let signatures = Arc::clone(&self);
            // Files are read, which must not delay operators' requests.
            let _ = tokio::task::spawn_blocking(move || signatures.reload()).await;
        }
    }

    /// Reloads all keys. Keys that cannot be used leave the current ones in use.
    fn reload(&self) {
        let ring = self.verifier.as_ref().map_or(Ok(false), |verifier| verifier.reload());
        let own = self.signing.as_ref().map_or(Ok(()), |signing| signing.reload());
        if let Err(error) = &ring {
            tracing::error!(%error, "cannot use the keys of participants; the current keys stay in use");
        }
        if let Err(error) = &own {
            tracing::error!(%error, "cannot use the hub's signing key; the current key stays in use");
        }
        self.is_failing.store(ring.unwrap_or(true) || own.is_err(), Ordering::Relaxed);
    }

    /// Writes the metrics, if messages are signed or verified.
    pub(super) fn write(&self, text: &mut String) {
        if let Some(verifier) = &self.verifier {
            verifier.write(text);
        }
        if self.verifier.is_some() || self.signing.is_some() {
            self.write_ends(text);
            let failing = u64::from(self.is_failing.load(Ordering::Relaxed));
            let help =
                "1 while a file of signing keys cannot be used, so that older keys or no keys are in use";
            gauge(text, "upesi_jws_reload_failing", help, failing);
        }
    }

    /// Writes the time until the last key of each signer expires, including the hub. Signers with a key without an
    /// expiry are omitted.
    fn write_ends(&self, text: &mut String) {
        let (participants, now) = (self.participants.get(), self.clock.now());
        let hub = self.signing.as_ref().and_then(|signing| signing.ends_at());
        let hub = participants.hub_name().zip(hub).map(|(name, end)| (name.to_string(), end));
        let of_participants = self.verifier.as_ref().map(|verifier| verifier.ends(&participants));
        let name = "upesi_jws_key_expiry_seconds";
        head(text, name, "gauge", "Time until the last signing key of a participant or of the hub expires");
        for (fsp, end) in of_participants.into_iter().flatten().chain(hub) {
            let left_s = (end.as_ms() - now.as_ms()).div_euclid(1_000);
            // Writing into a String does not fail.
            let _ = writeln!(text, "{name}{{fsp=\"{}\"}} {left_s}", escape(&fsp));
        }
    }

    /// Stops signing, after all messages have been sent.
    pub(super) fn shutdown(&self) {
        if let Some(signing) = &self.signing {
            signing.shutdown();
        }
    }
}

impl Verifier {
    /// Reloads the files. Returns whether one of them cannot be used. The keys of its participant are not changed.
    fn reload(&self) -> Result<bool, KeyFileError> {
        let Some(directory) = &self.directory else { return Ok(false) };
        let mut ring = load(Some(directory), self.allows_es256)?;
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        ring.keep_unusable(&keys.in_files);
        let has_unusable = !ring.unusable().is_empty();
        keys.in_files = ring;
        self.join(&mut keys);
        Ok(has_unusable)
    }

    fn has_unusable_files(&self) -> bool {
        !self.keys.read().unwrap_or_else(PoisonError::into_inner).in_files.unusable().is_empty()
    }

    /// The participants whose signatures are verified and whose keys all expire, with the last expiry.
    fn ends(&self, participants: &Participants) -> Vec<(String, Timestamp)> {
        let keys = self.keys();
        let is_judged = |name: &str| self.modes.of(name) != SignatureMode::Off;
        let signers = participants.ids().filter_map(|id| participants.get(id));
        let signers = signers.filter(|signer| signer.is_active && is_judged(signer.name.as_str()));
        let end = |participant: &Participant| {
            Some((participant.name.to_string(), keys.last_end(participant.name.as_str())?))
        };
        signers.filter_map(end).collect()
    }

    fn in_files(&self) -> Vec<KeyView> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).in_files.views().collect()
    }

    /// The currently valid keys. The keys of the ledger are read again when participants have changed.
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
        // Read before the participants: if they change in between, the next call reads them again.
        let generation = self.participants.generation();
        let participants = self.participants.get();
        let (all, unusable) = keys.in_files.with(&records(&participants), &keys.all);
        for sha256 in unusable {
            tracing::warn!(%sha256, "a participant's key in the ledger is not allowed by these settings");
        }
        *keys = Keyrings { in_files: std::mem::take(&mut keys.in_files), generation, all: Arc::new(all) };
    }

    fn judge(
        &self,
        operation: Operation,
        head: &Parts,
        body: &[u8],
        is_sender_proven: bool,
    ) -> Result<(), SyncError> {
        let source = head.headers.get("fspiop-source").and_then(|source| source.to_str().ok());
        let source = source.unwrap_or_default();
        let mode = self.modes.of(source);
        let is_signed = || {
            let mut values = head.headers.get_all(SIGNATURE).iter();
            values.any(|value| is_signature_object(value.as_bytes()))
        };
        // Such messages need no signature, but must not carry a wrong one.
        let may_be_unsigned = match head.method {
            Method::GET => true,
            Method::DELETE => self.unsigned_delete.accepts(is_sender_proven),
            _ => false,
        };
        if mode == SignatureMode::Off || (may_be_unsigned && !is_signed()) {
            return Ok(());
        }
        let keys = self.keys();
        let request = Request {
            method: &head.method,
            uri: &head.uri,
            headers: &head.headers,
            body,
            base_path: &self.base_path,
            accepts_unprotected_date: self.unprotected_date.accepts(is_sender_proven),
        };
        match verify(request, &keys, freshness(operation), self.clock.now()) {
            Ok(()) => {
                self.verified.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(fault) => self.fault(source, mode, &fault),
        }
    }

    fn fault(&self, source: &str, mode: SignatureMode, fault: &SignatureFault) -> Result<(), SyncError> {
        let known = FspId::parse(source).and_then(|name| {
            let participants = self.participants.get();
            participants.named(&name).map(|participant| participant.name.to_string())
        });
        let fsp = known.unwrap_or_else(|| UNKNOWN.to_owned());
        tracing::debug!(%fsp, %fault, mode = mode.word(), "a message has no valid signature of its sender");
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
        counter(text, "upesi_jws_verified", "Messages with a valid signature of their sender", verified);
        let keys = self.keys().len();
        gauge(text, "upesi_jws_participants", "Participants whose public keys are known", keys as u64);
        let name = "upesi_jws_key_file_unusable";
        head(text, name, "gauge", "1 for a participant whose key file cannot be used");
        let in_files = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        for fsp in in_files.in_files.unusable().keys() {
            let _ = writeln!(text, "{name}{{fsp=\"{}\"}} 1", escape(fsp));
        }
        drop(in_files);
        let name = "upesi_jws_faults";
        head(text, name, "counter", "Messages whose signature is missing or invalid");
        for ((fsp, reason, mode), count) in self.faults.lock().unwrap_or_else(PoisonError::into_inner).iter()
        {
            let (fsp, mode) = (escape(fsp), mode.word());
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

/// A value that is never a generation of participants.
const NEVER: u64 = u64::MAX;

/// Maximum number of unusable files that are logged individually.
const UNUSABLE_LOGGED_MAX: usize = 20;

/// Reads the keys in files, if there is a directory. A file that cannot be used affects only its participant.
fn load(directory: Option<&Path>, allows_es256: bool) -> Result<KeyRing, KeyFileError> {
    let Some(directory) = directory else { return Ok(KeyRing::empty(allows_es256)) };
    let ring = KeyRing::load(directory, allows_es256)?;
    for (fsp, error) in ring.unusable().iter().take(UNUSABLE_LOGGED_MAX) {
        tracing::error!(%fsp, %error, "cannot use the key file of a participant; its earlier keys stay in use, if there are any");
    }
    let more = ring.unusable().len().saturating_sub(UNUSABLE_LOGGED_MAX);
    if more > 0 {
        tracing::error!(more, "cannot use more key files of participants");
    }
    Ok(ring)
}

/// The keys in the ledger.
fn records(participants: &Participants) -> Records<'_> {
    let mut records = Records::default();
    for (id, known) in participants.signature_keys().iter() {
        let Some(participant) = participants.get(id) else { continue };
        let name = participant.name.as_str();
        records.keys.extend(known.keys.iter().map(|key| RecordedKey {
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

/// Whether a replayed request would have an effect: a registration moves or removes a party, and an answer to a lookup
/// also answers the next one. All other messages have an id that is already known.
fn freshness(operation: Operation) -> Freshness {
    match (operation.resource(), operation.method()) {
        (Resource::Participants, method) if method != upesi_fspiop::Method::Get => Freshness::Recent,
        (Resource::Parties, upesi_fspiop::Method::Put) => Freshness::Recent,
        _ => Freshness::Any,
    }
}

/// The verifier behind the gateway's trait.
struct GatewayVerifier(Arc<Verifier>);

impl Authenticator for GatewayVerifier {
    fn authenticate(
        &self,
        operation: Operation,
        head: &Parts,
        body: &[u8],
        is_sender_proven: bool,
    ) -> Result<(), SyncError> {
        self.0.judge(operation, head, body, is_sender_proven)
    }
}

impl From<KeyFileError> for HubError {
    fn from(source: KeyFileError) -> Self {
        Self::Keys(source)
    }
}

#[cfg(test)]
mod tests;
