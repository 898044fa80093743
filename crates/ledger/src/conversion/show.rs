//! What is printed of conversions.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec;
use core::fmt::{self, Formatter};

use upesi_types::ConversionId;

use super::{Conversion, ConversionAnswer, ConversionState};
use crate::participant::ParticipantId;
use crate::show::{Names, Show, Shown};

impl Show for ConversionId {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Owned(self.to_string()))
    }
}

impl Show for ConversionAnswer {
    fn show(&self) -> Shown<'_> {
        self.fingerprint.show()
    }
}

impl Show for Box<Conversion> {
    fn show(&self) -> Shown<'_> {
        (**self).show()
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        (**self).describe(names, f)
    }
}

impl Show for Conversion {
    fn show(&self) -> Shown<'_> {
        let mut fields = vec![
            ("commitRequestId", self.id.show()),
            ("determiningTransferId", self.determining_transfer.show()),
            ("side", Shown::Text(Cow::Borrowed(self.side.as_str()))),
            ("initiator", self.initiator.show()),
            ("fxp", self.fxp.show()),
            ("sourceAmount", self.source.amount.show()),
            ("sourceCurrency", self.source.currency.show()),
            ("targetAmount", self.target.amount.show()),
            ("targetCurrency", self.target.currency.show()),
            ("condition", self.condition.show()),
            ("expiration", self.expires_at.show()),
            ("state", Shown::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let ConversionState::Aborted { kind, cause, .. } = &self.state {
            fields.extend([("kind", kind.show()), ("cause", cause.show())]);
        }
        Shown::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (initiator, fxp) = (party(self.initiator), party(self.fxp));
        let (source, target) = (self.source, self.target);
        write!(
            f,
            "{} {initiator} → {fxp} {} {} for {} {} ",
            self.id, source.amount, source.currency, target.amount, target.currency
        )?;
        match &self.state {
            ConversionState::Reserved => write!(f, "RESERVED until {}", self.expires_at),
            ConversionState::Fulfilled => f.write_str("RESERVED and fulfilled"),
            ConversionState::Committed { .. } => f.write_str("COMMITTED"),
            ConversionState::Aborted { kind, cause, .. } => {
                write!(f, "{} {}", kind.as_str(), names.cause(cause))
            }
        }
    }
}
