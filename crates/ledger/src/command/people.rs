//! What people do about their own log-in: enrol, show a code, choose another password.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;

use upesi_types::Timestamp;

use super::{AdminOutcome, AdminRefusal, Decision};
use crate::Ledger;
use crate::change::Change;
use crate::event::Event;
use crate::operator::{Operator, Person, Sealed, Secret};

/// What a person does about its own log-in. The hub has verified password and code; that a code was not used before,
/// and that all is still as it was then, is decided here.
#[derive(Clone, Debug)]
pub struct Entrance {
    /// The person.
    pub operator: Box<str>,
    /// The interval of the code that was shown.
    pub code_step: u64,
    /// What for.
    pub kind: EntranceKind,
}

/// What a person shows a code for.
#[derive(Clone, Debug)]
pub enum EntranceKind {
    /// To take a password and a second factor, in place of earlier ones.
    Enrol {
        /// Digest of the enrolment's token, which is good for nothing then.
        token: [u8; 32],
        /// The second factor under the password.
        sealed: Sealed,
    },
    /// To choose another password.
    SetPassword {
        /// Number of the password that was shown.
        credential: u32,
        /// The second factor under the new one.
        sealed: Sealed,
    },
    /// To open a session, or to go on with it.
    Session {
        /// Number of the password that was shown.
        credential: u32,
        /// What is done, for the audit trail.
        change: Change,
        /// The second factor sealed in a better way than before, which takes another number.
        sealed: Option<Sealed>,
    },
}

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(super) fn decide_entrance(&self, entrance: &Entrance, now: Timestamp, out: &mut Decision) -> Outcome {
        let Entrance { operator: name, code_step, kind } = entrance;
        let operator = self.operators.named(name).filter(|operator| operator.is_active);
        let operator = operator.ok_or_else(|| AdminRefusal::OperatorUnknown { name: name.clone() })?;
        let set = |sealed: &Sealed| Event::PersonSet {
            name: name.clone(),
            person: Person {
                id: operator.next_credential,
                sealed: *sealed,
                set_at: now,
                code_step: *code_step,
            },
        };
        match kind {
            EntranceKind::Enrol { token, sealed } => {
                let (owner, enrolment) =
                    self.operators.by_enrolment(token).ok_or(AdminRefusal::CredentialUnknown)?;
                if owner.name != *name || enrolment.has_expired(now) {
                    return Err(AdminRefusal::CredentialUnknown);
                }
                let credential = enrolment.id;
                out.events.push(Event::CredentialRemoved { name: name.clone(), credential });
                out.events.push(set(sealed));
            }
            EntranceKind::SetPassword { credential, sealed } => {
                check_code(operator, *credential, *code_step)?;
                out.events.push(set(sealed));
            }
            EntranceKind::Session { credential, sealed: Some(sealed), .. } => {
                check_code(operator, *credential, *code_step)?;
                out.events.push(set(sealed));
            }
            EntranceKind::Session { credential, sealed: None, .. } => {
                check_code(operator, *credential, *code_step)?;
                out.events.push(Event::CodeUsed { name: name.clone(), code_step: *code_step });
            }
        }
        Ok(AdminOutcome::Done)
    }
}

/// A code is good once, also for two who show it at the same moment.
fn check_code(operator: &Operator, credential: u32, code_step: u64) -> Result<(), AdminRefusal> {
    let person = operator.person.filter(|person| person.id == credential);
    let person = person.ok_or(AdminRefusal::CredentialUnknown)?;
    if code_step <= person.code_step { Err(AdminRefusal::CodeUsed) } else { Ok(()) }
}

impl Change {
    /// What a person does about its own log-in.
    pub fn of_entrance(entrance: &Entrance, ledger: &Ledger) -> Self {
        let operator = ledger.operators().named(&entrance.operator);
        let before = operator.and_then(|operator| operator.person);
        let before = before.map_or("none".to_owned(), |person| format!("{:?}", person.sealed));
        let what = format!("password and second factor of operator {}", entrance.operator);
        match &entrance.kind {
            EntranceKind::Enrol { token, sealed } => {
                let by = format!("{sealed:?}, by {:?}", Secret::Enrolment(*token));
                Self::new(what, before, by)
            }
            EntranceKind::SetPassword { sealed, .. } => Self::new(what, before, format!("{sealed:?}")),
            EntranceKind::Session { change, .. } => change.clone(),
        }
    }
}
