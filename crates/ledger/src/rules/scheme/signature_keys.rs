//! Manages the public keys of participants for signatures.

use upesi_types::{FspId, Timestamp};

use crate::base::ids::ParticipantId;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::changes::NewSignatureKey;
use crate::scheme::participant::Participant;
use crate::scheme::signature_key::{
    KEY_OVERLAP_HOURS_MAX, ParticipantKeys, SIGNATURE_KEY_BYTES_MAX, SignatureKey,
};

const HOUR_MS: i64 = 3_600_000;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_add_signature_key(
        &self,
        new: &NewSignatureKey,
        now: Timestamp,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.signer(&new.name)?;
        if !(1..=SIGNATURE_KEY_BYTES_MAX).contains(&new.public_key.0.len()) {
            return Err(AdminRefusal::SignatureKeyLength);
        }
        let starts_at = [new.starts_at, new.not_before].into_iter().flatten().fold(now, Timestamp::max);
        let is_over = new.not_after.is_some_and(|end| end <= starts_at);
        if is_over || new.overlap_hours > KEY_OVERLAP_HOURS_MAX {
            return Err(AdminRefusal::SignatureKeyTimes);
        }
        let sha256 = new.public_key.sha256();
        if self.signature_keys.is_revoked(&sha256) {
            return Err(AdminRefusal::SignatureKeyRevoked);
        }
        self.check_not_anothers(participant.id, &sha256)?;
        let nothing = ParticipantKeys::default();
        let known = self.signature_keys.of(participant.id).unwrap_or(&nothing);
        let is_same = |key: &&SignatureKey| {
            key.ends_at == new.not_after && new.starts_at.is_none_or(|starts_at| starts_at == key.starts_at)
        };
        if known.find(&sha256).filter(|key| !key.has_ended(now)).is_some_and(|key| is_same(&key)) {
            return Ok(AdminOutcome::AlreadyDone);
        }
        let is_other_next = |key: &SignatureKey| {
            key.starts_at > now && !key.has_ended(now) && key.public_key != new.public_key
        };
        if known.keys.iter().any(is_other_next) {
            return Err(AdminRefusal::SignatureKeyNext);
        }
        if known.usable_besides(&sha256, now) >= self.config.limits.signature_keys {
            return Err(AdminRefusal::SignatureKeysFull);
        }
        let key = SignatureKey {
            public_key: new.public_key.clone(),
            added_at: now,
            not_before: new.not_before,
            starts_at,
            ends_at: new.not_after,
        };
        let others_end_at = starts_at.plus_ms(i64::from(new.overlap_hours) * HOUR_MS);
        out.events.push(Event::SignatureKeyAdded { participant: participant.id, key, others_end_at });
        Ok(AdminOutcome::Done)
    }

    /// Revokes a key. A key that is only in a file can also be revoked.
    pub(crate) fn decide_revoke_signature_key(
        &self,
        name: &FspId,
        sha256: [u8; 32],
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.signer(name)?;
        self.check_not_anothers(participant.id, &sha256)?;
        if self.signature_keys.is_revoked(&sha256) {
            return Ok(AdminOutcome::AlreadyDone);
        }
        let revoked = self.signature_keys.of(participant.id).map_or(0, |known| known.revoked.len());
        if revoked >= self.config.limits.revoked_keys {
            return Err(AdminRefusal::RevokedKeysFull);
        }
        out.events.push(Event::SignatureKeyRevoked { participant: participant.id, sha256 });
        Ok(AdminOutcome::Done)
    }

    /// Checks that no other participant has the key.
    fn check_not_anothers(&self, participant: ParticipantId, sha256: &[u8; 32]) -> Result<(), AdminRefusal> {
        match self.signature_keys.owner_of(sha256) {
            Some(owner) if owner != participant => {
                Err(AdminRefusal::SignatureKeyTaken { owner: self.participant(owner).name })
            }
            _ => Ok(()),
        }
    }

    /// The participant whose key is managed. A participant behind a proxy signs with its own key.
    fn signer(&self, name: &FspId) -> Result<&Participant, AdminRefusal> {
        match self.known_participant(name)? {
            hub if hub.id == ParticipantId::HUB => Err(AdminRefusal::SignatureKeyOfHub),
            participant => Ok(participant),
        }
    }
}
