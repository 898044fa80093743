//! Manages operators and their credentials.

use upesi_types::Timestamp;

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::changes::{NewCredential, NewOperator};
use crate::operators::operator::{
    CREDENTIALS_MAX, Credential, ENROLMENT_HOURS_MAX, OPERATORS_MAX, Secret, TOKEN_DAYS_MAX, is_operator_name,
};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_set_operator(&self, new: &NewOperator, out: &mut Decision) -> Outcome {
        let NewOperator { name, roles, is_active, .. } = new;
        if !is_operator_name(name) {
            return Err(AdminRefusal::OperatorName);
        }
        if let Some((one, other)) = roles.excluded() {
            return Err(AdminRefusal::RolesExcluded { one, other });
        }
        let participant = new.participant.as_ref().map(|name| self.known_participant(name)).transpose()?;
        let participant = participant.map(|participant| participant.id);
        if roles.iter().any(|role| role.is_of_dfsp() != participant.is_some()) {
            return Err(AdminRefusal::OperatorScope);
        }
        match self.operators.named(name) {
            None if self.operators.iter().len() >= OPERATORS_MAX => return Err(AdminRefusal::OperatorsFull),
            None => {}
            Some(known) if known.participant != participant => {
                return Err(AdminRefusal::OperatorFixed);
            }
            Some(known) if known.roles == *roles && known.is_active == *is_active => {
                return Ok(AdminOutcome::AlreadyDone);
            }
            Some(_) => {}
        }
        out.events.push(Event::OperatorSet {
            name: name.clone(),
            roles: *roles,
            participant,
            is_active: *is_active,
        });
        Ok(AdminOutcome::Done)
    }

    /// Adds a credential. Expired tokens are removed to make space.
    pub(crate) fn decide_add_credential(
        &self,
        new: &NewCredential,
        now: Timestamp,
        out: &mut Decision,
    ) -> Outcome {
        let NewCredential { name, secret, expires_at } = new;
        let operator = self.operators.named(name);
        let operator = operator.ok_or_else(|| AdminRefusal::OperatorUnknown { name: name.clone() })?;
        let life_max_ms = match secret {
            Secret::Token(_) => TOKEN_DAYS_MAX * DAY_MS,
            Secret::Enrolment(_) => ENROLMENT_HOURS_MAX * HOUR_MS,
        };
        if *expires_at <= now || expires_at.ms_since(now) > life_max_ms {
            return Err(AdminRefusal::CredentialLife);
        }
        if self.operators.by_digest(secret.digest()).is_some() {
            return Err(AdminRefusal::CredentialTaken);
        }
        let is_gone = |known: &&Credential| known.has_expired(now);
        let gone = operator.credentials.iter().filter(is_gone).count();
        if operator.credentials.len() - gone >= CREDENTIALS_MAX {
            return Err(AdminRefusal::CredentialsFull);
        }
        for known in operator.credentials.iter().filter(is_gone) {
            out.events.push(Event::CredentialRemoved { name: name.clone(), credential: known.id });
        }
        let credential = Credential {
            id: operator.next_credential,
            secret: secret.clone(),
            created_at: now,
            expires_at: *expires_at,
        };
        out.events.push(Event::CredentialAdded { name: name.clone(), credential });
        Ok(AdminOutcome::Done)
    }

    pub(crate) fn decide_remove_credential(&self, name: &str, id: u32, out: &mut Decision) -> Outcome {
        let operator = self.operators.named(name);
        let operator = operator.ok_or_else(|| AdminRefusal::OperatorUnknown { name: name.into() })?;
        let is_of_person = operator.person.is_some_and(|person| person.id == id);
        if !is_of_person && !operator.credentials.iter().any(|known| known.id == id) {
            return Err(AdminRefusal::CredentialUnknown);
        }
        out.events.push(Event::CredentialRemoved { name: name.into(), credential: id });
        Ok(AdminOutcome::Done)
    }
}
