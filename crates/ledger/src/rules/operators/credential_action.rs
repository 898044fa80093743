//! Users' own login actions: enrol, log in with a code, change the password.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;

use upesi_types::Timestamp;

use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::operator::{Operator, Secret};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::operators::user_credential::{SealedSecret, UserCredential};
use crate::rules::operators::change::Change;

type Outcome = Result<AdminOutcome, AdminRefusal>;

/// A user's own login action. The hub has already verified password and code. The ledger decides that the code was not
/// used before and that the credentials have not changed since.
#[derive(Clone, Debug)]
pub struct CredentialAction {
    /// The operator name of the user.
    pub operator: Box<str>,
    /// The time step of the submitted code.
    pub code_step: u64,
    /// The purpose of the code.
    pub kind: CredentialActionKind,
}

/// The purpose of a submitted code.
#[derive(Clone, Debug)]
pub enum CredentialActionKind {
    /// Set a password and a second factor, replacing earlier ones.
    Enrol {
        /// Digest of the enrolment token, which becomes invalid.
        token: [u8; 32],
        /// The second factor, encrypted under the password.
        sealed: SealedSecret,
    },
    /// Change the password.
    SetPassword {
        /// Number of the password that was submitted.
        credential: u32,
        /// The second factor, encrypted under the new password.
        sealed: SealedSecret,
    },
    /// Open or continue a session.
    Session {
        /// Number of the password that was submitted.
        credential: u32,
        /// The action, for the audit trail.
        change: Change,
        /// The second factor, encrypted in a stronger form than before. It gets a new number.
        sealed: Option<SealedSecret>,
    },
}

impl Ledger {
    pub(crate) fn decide_entrance(
        &self,
        entrance: &CredentialAction,
        now: Timestamp,
        out: &mut Decision,
    ) -> Outcome {
        let CredentialAction { operator: name, code_step, kind } = entrance;
        let operator = self.operators.named(name).filter(|operator| operator.is_active);
        let operator = operator.ok_or_else(|| AdminRefusal::OperatorUnknown { name: name.clone() })?;
        let set = |sealed: &SealedSecret| Event::PersonSet {
            name: name.clone(),
            person: UserCredential {
                id: operator.next_credential,
                sealed: *sealed,
                set_at: now,
                code_step: *code_step,
            },
        };
        match kind {
            CredentialActionKind::Enrol { token, sealed } => {
                let (owner, enrolment) =
                    self.operators.by_enrolment(token).ok_or(AdminRefusal::CredentialUnknown)?;
                if owner.name != *name || enrolment.has_expired(now) {
                    return Err(AdminRefusal::CredentialUnknown);
                }
                let credential = enrolment.id;
                out.events.push(Event::CredentialRemoved { name: name.clone(), credential });
                out.events.push(set(sealed));
            }
            CredentialActionKind::SetPassword { credential, sealed } => {
                check_code(operator, *credential, *code_step)?;
                out.events.push(set(sealed));
            }
            CredentialActionKind::Session { credential, sealed: Some(sealed), .. } => {
                check_code(operator, *credential, *code_step)?;
                out.events.push(set(sealed));
            }
            CredentialActionKind::Session { credential, sealed: None, .. } => {
                check_code(operator, *credential, *code_step)?;
                out.events.push(Event::CodeUsed { name: name.clone(), code_step: *code_step });
            }
        }
        Ok(AdminOutcome::Done)
    }
}

/// Checks that the code was not used before. Of two requests with the same code, only the first succeeds.
fn check_code(operator: &Operator, credential: u32, code_step: u64) -> Result<(), AdminRefusal> {
    let person = operator.person.filter(|person| person.id == credential);
    let person = person.ok_or(AdminRefusal::CredentialUnknown)?;
    if code_step <= person.code_step { Err(AdminRefusal::CodeUsed) } else { Ok(()) }
}

impl Change {
    /// The change that a user's own login action makes.
    pub fn of_entrance(entrance: &CredentialAction, ledger: &Ledger) -> Self {
        let operator = ledger.operators().named(&entrance.operator);
        let before = operator.and_then(|operator| operator.person);
        let before = before.map_or("none".to_owned(), |person| format!("{:?}", person.sealed));
        let what = format!("password and second factor of operator {}", entrance.operator);
        match &entrance.kind {
            CredentialActionKind::Enrol { token, sealed } => {
                let by = format!("{sealed:?}, by {:?}", Secret::Enrolment(*token));
                Self::new(what, before, by)
            }
            CredentialActionKind::SetPassword { sealed, .. } => {
                Self::new(what, before, format!("{sealed:?}"))
            }
            CredentialActionKind::Session { change, .. } => change.clone(),
        }
    }
}
