//! Public keys of participants for signatures of messages: the next, the current and the previous key.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::{Timestamp, hex};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::ParticipantId;
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct};

/// Longest public key, in bytes. An RSA key of 8,192 bits has 1,062.
pub const SIGNATURE_KEY_BYTES_MAX: usize = 1_200;
/// Longest overlap of a key with earlier keys, in hours.
pub const KEY_OVERLAP_HOURS_MAX: u16 = 720;
/// Default overlap, in hours.
pub const KEY_OVERLAP_HOURS: u16 = 24;

/// A public key as an X.509 `SubjectPublicKeyInfo` in DER. The ledger does not parse it.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKeyDer(pub Box<[u8]>);

impl PublicKeyDer {
    /// SHA-256 of the key, which identifies it.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(&self.0).into()
    }
}

impl Debug for PublicKeyDer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.sha256()))
    }
}

impl Stored for PublicKeyDer {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.bytes(&self.0);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        decoder.bytes().map(|bytes| Self(bytes.into()))
    }
}

impl Show for PublicKeyDer {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Owned(hex(&self.0)))
    }
}

/// A signature key of a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureKey {
    pub public_key: PublicKeyDer,
    /// Time when it was added.
    pub added_at: Timestamp,
    /// Start of the validity of its certificate, if it was added with one. The key verifies nothing before that time.
    pub not_before: Option<Timestamp>,
    /// Time when the participant starts to sign with it. The key also verifies messages before that time.
    pub starts_at: Timestamp,
    /// The end of its validity: it no longer verifies messages from this instant on.
    pub ends_at: Option<Timestamp>,
}

/// The state of a key at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureKeyState {
    /// The participant will sign with it.
    Next,
    /// The participant signs with it.
    Current,
    /// The participant signed with it earlier, and such messages may still arrive.
    Previous,
    /// The key no longer verifies messages.
    Retired,
}

impl SignatureKeyState {
    /// The state's name, as operators see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Current => "current",
            Self::Previous => "previous",
            Self::Retired => "retired",
        }
    }
}

/// A key that is permanently rejected, for every participant and also in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevokedKey {
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// Time of the revocation.
    pub at: Timestamp,
}

/// The keys of a participant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParticipantKeys {
    /// Valid keys, and keys that ended since the last one was added, in order of addition.
    pub keys: Vec<SignatureKey>,
    /// Revoked keys, in order of revocation.
    pub revoked: Vec<RevokedKey>,
    /// The end of the validity of the participant's keys in files. They precede the first key that was added here.
    pub files_end_at: Option<Timestamp>,
}

/// The keys of all participants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignatureKeys(BTreeMap<ParticipantId, ParticipantKeys>);

stored_struct! {
    SignatureKey { public_key, added_at, not_before, starts_at, ends_at }
    RevokedKey { sha256, at }
    ParticipantKeys { keys, revoked, files_end_at }
}

impl SignatureKey {
    /// Whether the key no longer verifies messages.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.ends_at.is_some_and(|end| end <= now)
    }

    fn ends_by(&mut self, at: Timestamp) {
        if self.ends_at.is_none_or(|end| end > at) {
            self.ends_at = Some(at);
        }
    }
}

impl ParticipantKeys {
    /// A key that was added and not revoked.
    pub fn find(&self, sha256: &[u8; 32]) -> Option<&SignatureKey> {
        self.keys.iter().find(|key| key.public_key.sha256() == *sha256)
    }

    pub fn revocation_of(&self, sha256: &[u8; 32]) -> Option<&RevokedKey> {
        self.revoked.iter().find(|revoked| revoked.sha256 == *sha256)
    }

    /// The state of a key at an instant. The most recently started key is the current one.
    pub fn state_of(&self, key: &SignatureKey, now: Timestamp) -> SignatureKeyState {
        let has_started = |key: &SignatureKey| key.starts_at <= now;
        if key.has_ended(now) {
            return SignatureKeyState::Retired;
        }
        if !has_started(key) {
            return SignatureKeyState::Next;
        }
        let is_later = |other: &SignatureKey| {
            has_started(other) && !other.has_ended(now) && other.starts_at > key.starts_at
        };
        if self.keys.iter().any(is_later) { SignatureKeyState::Previous } else { SignatureKeyState::Current }
    }

    /// Number of valid keys, not counting one of them.
    pub(crate) fn usable_besides(&self, sha256: &[u8; 32], now: Timestamp) -> usize {
        let counts = |key: &&SignatureKey| !key.has_ended(now) && key.public_key.sha256() != *sha256;
        self.keys.iter().filter(counts).count()
    }

    fn add(&mut self, now: Timestamp, key: SignatureKey, others_end_at: Timestamp) {
        let sha256 = key.public_key.sha256();
        self.keys.retain(|known| !known.has_ended(now) && known.public_key.sha256() != sha256);
        for known in self.keys.iter_mut().filter(|known| known.starts_at <= key.starts_at) {
            known.ends_by(others_end_at);
        }
        self.keys.push(key);
        self.files_end_at = Some(self.files_end_at.map_or(others_end_at, |end| end.min(others_end_at)));
    }

    fn revoke(&mut self, now: Timestamp, sha256: [u8; 32]) {
        self.keys.retain(|known| known.public_key.sha256() != sha256);
        self.revoked.push(RevokedKey { sha256, at: now });
    }
}

impl SignatureKeys {
    /// The keys of a participant, if it ever had one here.
    pub fn of(&self, participant: ParticipantId) -> Option<&ParticipantKeys> {
        self.0.get(&participant)
    }

    /// All participants that ever had a key here, with their keys.
    pub fn iter(&self) -> impl Iterator<Item = (ParticipantId, &ParticipantKeys)> {
        self.0.iter().map(|(participant, keys)| (*participant, keys))
    }

    pub fn owner_of(&self, sha256: &[u8; 32]) -> Option<ParticipantId> {
        self.iter().find(|(_, keys)| keys.find(sha256).is_some()).map(|(participant, _)| participant)
    }

    /// Whether a key was revoked for any participant.
    pub fn is_revoked(&self, sha256: &[u8; 32]) -> bool {
        self.0.values().any(|keys| keys.revocation_of(sha256).is_some())
    }

    pub(crate) fn add(
        &mut self,
        now: Timestamp,
        participant: ParticipantId,
        key: SignatureKey,
        others_end_at: Timestamp,
    ) {
        self.0.entry(participant).or_default().add(now, key, others_end_at);
    }

    pub(crate) fn revoke(&mut self, now: Timestamp, participant: ParticipantId, sha256: [u8; 32]) {
        self.0.entry(participant).or_default().revoke(now, sha256);
    }
}

impl Show for SignatureKey {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Fields(vec![
            ("sha256", PrintedValue::Text(Cow::Owned(hex(&self.public_key.sha256())))),
            ("publicKey", self.public_key.show()),
            ("notBefore", self.not_before.show()),
            ("startsAt", self.starts_at.show()),
            ("endsAt", self.ends_at.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} from {}", self.public_key, self.starts_at)
    }
}

impl Stored for SignatureKeys {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.0.iter(), |encoder, (participant, keys)| {
            participant.encode(encoder);
            encoder.sized(|encoder| keys.encode(encoder));
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let mut all = Self::default();
        let entries =
            decoder.list(|d| Ok((ParticipantId::decode(d)?, ParticipantKeys::decode(&mut d.sized()?)?)))?;
        for (participant, keys) in entries {
            if all.0.insert(participant, keys).is_some() {
                return Err(DecodeError("it has the keys of a participant twice"));
            }
        }
        Ok(all)
    }
}
