//! `/participants/{name}/signatureKeys`, `/signatures/participants`: the public keys for participants' signatures.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Serialize, Serializer};
use upesi_engine::Clock as _;
use upesi_jws::{KeyView, SubmittedKey};
use upesi_ledger::command::NewSignatureKey;
use upesi_ledger::{
    AdminCommand, KEY_OVERLAP_HOURS, KEY_OVERLAP_HOURS_MAX, Ledger, ParticipantKeys, PublicKeyDer,
    SignatureKey, SignatureKeyState,
};
use upesi_types::{FspId, Timestamp, hex, unhex};

use super::call::{Segments, participant_name};
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Instant, empty, json, ok};
use crate::public_keys::{HubKey, HubKeys, SignatureKeyRules, pem};

/// State of a key at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// A key that is not revoked.
    Known(SignatureKeyState),
    /// A key that verifies nothing any more.
    Revoked,
}

impl Serialize for KeyState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl KeyState {
    /// Its name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Known(state) => state.as_str(),
            Self::Revoked => "revoked",
        }
    }
}

/// A public key of a participant.
#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyEntry {
    pub sha256: String,
    pub state: KeyState,
    pub source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_date: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starts: Option<Instant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Instant>,
}

#[derive(Serialize)]
struct KeysView {
    keys: Vec<KeyEntry>,
}

/// A participant with its public keys.
#[derive(Serialize)]
pub struct SignerView {
    pub name: String,
    pub keys: Vec<KeyEntry>,
}

#[derive(Serialize)]
struct SignersView {
    participants: Vec<SignerView>,
}

#[derive(Serialize)]
struct AddedView {
    sha256: String,
}

impl KeyEntry {
    fn recorded(key: &SignatureKey, among: &ParticipantKeys, now: Timestamp) -> Self {
        Self {
            sha256: hex(&key.public_key.sha256()),
            state: KeyState::Known(among.state_of(key, now)),
            source: "ledger",
            public_key: Some(pem(&key.public_key.0)),
            created_date: Some(Instant(key.added_at)),
            starts: Some(Instant(key.starts_at)),
            ends: key.ends_at.map(Instant),
        }
    }

    fn in_file(key: &KeyView, end: Option<Timestamp>, now: Timestamp) -> Self {
        let ends = key.until.into_iter().chain(end).min();
        let state = match end {
            _ if ends.is_some_and(|ends| ends <= now) => SignatureKeyState::Retired,
            _ if key.from.is_some_and(|from| now < from) => SignatureKeyState::Next,
            Some(_) => SignatureKeyState::Previous,
            None => SignatureKeyState::Current,
        };
        Self {
            sha256: hex(&key.sha256),
            state: KeyState::Known(state),
            source: "file",
            public_key: Some(pem(&key.public_key)),
            created_date: None,
            starts: key.from.map(Instant),
            ends: ends.map(Instant),
        }
    }

    fn counts(&self) -> bool {
        !matches!(self.state, KeyState::Known(SignatureKeyState::Retired) | KeyState::Revoked)
    }
}

/// All keys of a participant: from the ledger, from its file, and revoked ones.
fn entries(ledger: &Ledger, name: &FspId, in_files: &[KeyView], now: Timestamp) -> Vec<KeyEntry> {
    // Records of one moment have distinct instants.
    let now = now.max(ledger.last_time());
    let all = ledger.signature_keys();
    let nothing = ParticipantKeys::default();
    let found = ledger.participant_named(name).and_then(|participant| all.of(participant.id));
    let known = found.unwrap_or(&nothing);
    let recorded = known.keys.iter().map(|key| KeyEntry::recorded(key, known, now));
    let is_elsewhere = |key: &&&KeyView| all.owner_of(&key.sha256).is_none() && !all.is_revoked(&key.sha256);
    let own = in_files.iter().filter(|key| is_of(key, name));
    let own: Vec<&KeyView> = own.collect();
    let from_file =
        own.iter().filter(is_elsewhere).map(|key| KeyEntry::in_file(key, known.files_end_at, now));
    let revoked = known.revoked.iter().map(|revoked| KeyEntry {
        sha256: hex(&revoked.sha256),
        state: KeyState::Revoked,
        source: "ledger",
        public_key: None,
        created_date: None,
        starts: None,
        ends: Some(Instant(revoked.at)),
    });
    recorded.chain(from_file).chain(revoked).collect()
}

pub(crate) async fn list(
    call: Call,
    State(rules): State<SignatureKeyRules>,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let (in_files, now) = ((rules.in_files)(), call.engine.clock().now());
    let keys = call.ask(move |ledger| {
        ledger.participant_named(&name)?;
        Some(entries(ledger, &name, &in_files, now))
    });
    let keys = keys.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
    ok(&KeysView { keys })
}

/// The valid keys of all participants, for DFSPs that verify signatures.
pub(crate) async fn list_all(
    call: Call,
    State(rules): State<SignatureKeyRules>,
) -> Result<Response, ApiError> {
    ok(&SignersView { participants: signers(&call, &rules).await? })
}

/// The participants with valid keys.
pub(crate) async fn signers(call: &Call, rules: &SignatureKeyRules) -> Result<Vec<SignerView>, ApiError> {
    let now = call.engine.clock().now();
    let mut in_files: BTreeMap<String, Vec<KeyView>> = BTreeMap::new();
    for key in (rules.in_files)() {
        in_files.entry(key.participant.to_ascii_lowercase()).or_default().push(key);
    }
    call.ask(move |ledger| {
        let names = ledger.participants().iter().map(|participant| participant.name);
        let view = |name: FspId| {
            let own = in_files.get(&name.as_str().to_ascii_lowercase()).map_or(&[][..], Vec::as_slice);
            let mut keys = entries(ledger, &name, own, now);
            keys.retain(KeyEntry::counts);
            (!keys.is_empty()).then(|| SignerView { name: name.to_string(), keys })
        };
        names.filter_map(view).collect()
    })
    .await
}

pub(crate) async fn add(
    call: Call,
    State(rules): State<SignatureKeyRules>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let key_field = fields.required("publicKey")?;
    let key = SubmittedKey::read(&key_field.text_or_object()?, rules.allows_es256)
        .map_err(|problem| key_field.refuse(&problem))?;
    let starts_at = fields.optional("starts").map(|field| field.instant()).transpose()?;
    let overlap = fields.optional("overlapHours");
    let overlap = overlap.map(|field| field.whole(KEY_OVERLAP_HOURS_MAX)).transpose()?;
    fields.only(&["publicKey", "starts", "overlapHours"])?;
    check_files(&rules, &name, &key.sha256)?;
    let at = |seconds: i64| Timestamp::from_ms(seconds.saturating_mul(1_000));
    let (not_before, not_after) = key.valid_s.map(|(from, to)| (at(from), at(to.saturating_add(1)))).unzip();
    let command = AdminCommand::AddSignatureKey(NewSignatureKey {
        name,
        public_key: PublicKeyDer(key.public_key),
        not_before,
        not_after,
        starts_at,
        overlap_hours: overlap.unwrap_or(KEY_OVERLAP_HOURS),
    });
    call.change(command).await?;
    json(StatusCode::CREATED, &AddedView { sha256: key.sha256 })
}

/// Names of files are participants' names, compared without regard to case.
fn is_of(key: &KeyView, name: &FspId) -> bool {
    key.participant.eq_ignore_ascii_case(name.as_str())
}

/// A key in another participant's file belongs to that participant.
fn check_files(rules: &SignatureKeyRules, name: &FspId, sha256: &str) -> Result<(), ApiError> {
    let in_files = (rules.in_files)();
    let is_other = |key: &&KeyView| hex(&key.sha256) == sha256 && !is_of(key, name);
    match in_files.iter().find(is_other) {
        None => Ok(()),
        Some(other) => {
            let detail = format!("Participant '{}' has this key in its file", other.participant);
            Err(ApiError::new(ErrorName::SignatureKeyTaken, &detail))
        }
    }
}

pub(crate) async fn revoke(
    call: Call,
    State(rules): State<SignatureKeyRules>,
    Segments((name, sha256)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let sha256: [u8; 32] = unhex(&sha256.to_ascii_lowercase())
        .ok_or_else(|| ApiError::malformed("\"sha256\" must be 64 hexadecimal digits"))?;
    let in_files = (rules.in_files)();
    let is_in_file = in_files.iter().any(|key| key.sha256 == sha256 && is_of(key, &name));
    let is_recorded = call.ask(move |ledger| {
        let found = ledger.participant_named(&name)?;
        let known = ledger.signature_keys().of(found.id);
        Some(
            known
                .is_some_and(|known| known.find(&sha256).is_some() || known.revocation_of(&sha256).is_some()),
        )
    });
    let is_recorded = is_recorded.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
    if !is_in_file && !is_recorded {
        return Err(ApiError::new(ErrorName::SignatureKeyNotFound, "The participant has no such key"));
    }
    call.change(AdminCommand::RevokeSignatureKey { name, sha256 }).await?;
    empty(StatusCode::NO_CONTENT)
}

/// The answer of `/signatures/keys`: the public keys of the hub, for receivers of its signatures.
#[derive(Serialize)]
struct HubKeysView {
    keys: Vec<HubKey>,
}

pub(crate) async fn list_hub_keys(State(keys): State<HubKeys>) -> Result<Response, ApiError> {
    ok(&HubKeysView { keys: keys() })
}
