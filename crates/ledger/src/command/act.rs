//! What operators do, each with its entry in the audit trail: effect and entry are one record.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::Timestamp;

use super::{AdminCommand, Decision, Expire, Reply};
use crate::Ledger;
use crate::callback::CallbackKey;
use crate::change::Change;
use crate::event::Event;
use crate::facts::Facts;
use crate::trail::{Attribution, AuditEntry, clip};

/// Something that an operator does or attempts.
#[derive(Clone, Debug)]
pub struct Act {
    /// Who, and how that is known.
    pub by: Attribution,
    /// What.
    pub deed: Deed,
}

/// What an operator does or attempts.
#[derive(Clone, Debug)]
pub enum Deed {
    /// A change of the ledger.
    Change(AdminCommand),
    /// The end of a reservation.
    Expire(Expire),
    /// Parked callbacks are tried again.
    Redeliver(Vec<CallbackKey>),
    /// A change of something that is no part of the ledger, which is made once the entry is durable.
    Elsewhere(Change),
    /// An attempt that was refused.
    Refused {
        /// What would have been changed.
        object: Box<str>,
        /// Why it was refused.
        why: Box<str>,
    },
}

impl Deed {
    /// Why it is done, if it says so itself.
    pub fn reason(&self) -> Option<Box<str>> {
        match self {
            Self::Change(command) => command.reason().map(Into::into),
            Self::Expire(expire) => Some(expire.reason.clone()),
            Self::Redeliver(_) | Self::Elsewhere(_) | Self::Refused { .. } => None,
        }
    }
}

impl Ledger {
    /// Decides what is done, without the entry.
    pub(super) fn decide_deed(&self, act: &Act, facts: &Facts<'_>, out: &mut Decision) {
        match &act.deed {
            Deed::Change(command) => self.decide_change(command, facts, out),
            Deed::Expire(expire) => self.decide_expire(expire, facts, out),
            Deed::Redeliver(keys) => self.decide_redeliver(keys, out),
            Deed::Elsewhere(_) | Deed::Refused { .. } => {
                out.reply = Reply::Admin(Ok(super::AdminOutcome::Done));
            }
        }
    }

    /// Appends the entry, if anything was done or refused. What the rules refuse leaves no record here.
    pub(super) fn record_act(&self, act: &Act, now: Timestamp, out: &mut Decision) {
        let Reply::Admin(Ok(outcome)) = &out.reply else { return };
        let (change, refused) = match &act.deed {
            Deed::Change(command) => (Change::of(command, self).made(outcome), None),
            Deed::Expire(expire) => (Change::of_expire(expire).made(outcome), None),
            Deed::Redeliver(keys) => (Change::of_redelivery(keys.len()).made(outcome), None),
            Deed::Elsewhere(change) => (Some(change.clone()), None),
            Deed::Refused { object, why } => {
                (Some(Change::new(&**object, "".to_owned(), "".to_owned())), Some(clip(why.clone())))
            }
        };
        let Some(Change { what, from, to }) = change else { return };
        let Attribution { operator, known_by, address, on_behalf_of, action, reason } = act.by.clone();
        let by = Attribution {
            operator: clip(operator),
            known_by: clip(known_by),
            address: address.map(clip),
            on_behalf_of: on_behalf_of.map(clip),
            action: clip(action),
            reason: reason.map(clip),
        };
        let entry = AuditEntry {
            number: self.trail.count + 1,
            at: now,
            by,
            object: clip(what),
            before: clip(from),
            after: clip(to),
            refused,
            chain: [0; 32],
        };
        let entry = entry.linked(&self.trail.head, &out.events);
        out.events.push(Event::OperatorActed(Box::new(entry)));
    }
}
