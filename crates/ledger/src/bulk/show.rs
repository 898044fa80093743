//! What is printed of bulks.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use core::fmt::{self, Formatter};

use upesi_types::BulkId;

use super::{Bulk, BulkAnswer, BulkItem, BulkState, ItemResult, ItemState};
use crate::participant::ParticipantId;
use crate::show::{Names, Show, Shown};

impl Show for BulkId {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Owned(self.to_string()))
    }
}

impl Show for BulkAnswer {
    fn show(&self) -> Shown<'_> {
        self.fingerprint.show()
    }
}

impl Show for BTreeMap<u32, ItemResult> {
    fn show(&self) -> Shown<'_> {
        fn shown<'a>((place, result): (&u32, &'a ItemResult)) -> Shown<'a> {
            let mut fields = vec![("item", Shown::Number(i128::from(*place)))];
            fields.push(match result {
                ItemResult::Fulfil { fulfilment, .. } => ("fulfilment", fulfilment.show()),
                ItemResult::Abort(cause) => ("cause", cause.show()),
            });
            Shown::Fields(fields)
        }
        Shown::List(self.iter().map(shown).collect())
    }

    fn describe(&self, _: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let fulfilled = self.values().filter(|result| matches!(result, ItemResult::Fulfil { .. })).count();
        write!(f, "{fulfilled} items fulfilled, {} aborted", self.len() - fulfilled)
    }
}

impl Show for BulkItem {
    fn show(&self) -> Shown<'_> {
        let mut fields = vec![("transferId", self.transfer.show())];
        if let Some(asked) = &self.asked {
            if let Ok(amount) = &asked.amount {
                fields.push(("amount", amount.show()));
            }
            fields.push(("currency", asked.currency.show()));
        }
        if let ItemState::Refused(cause) | ItemState::Aborted(cause) = &self.state {
            fields.push(("cause", cause.show()));
        }
        Shown::Fields(fields)
    }
}

impl Show for Box<Bulk> {
    fn show(&self) -> Shown<'_> {
        let mut fields = vec![
            ("bulkTransferId", self.id.show()),
            ("bulkQuoteId", self.quote.show()),
            ("payer", self.payer.show()),
            ("payee", self.payee.show()),
            ("expiration", self.expires_at.show()),
            ("items", self.items.show()),
            ("state", Shown::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let BulkState::Rejected { cause, .. } = &self.state {
            fields.push(("cause", cause.show()));
        }
        Shown::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (payer, payee) = (party(self.payer), party(self.payee));
        write!(f, "{} {payer} → {payee} ", self.id)?;
        match &self.state {
            BulkState::Rejected { cause: Some(cause), .. } => {
                write!(f, "refused {}", names.cause(cause))
            }
            _ => write!(f, "of {} items until {}", self.items.len(), self.expires_at),
        }
    }
}
