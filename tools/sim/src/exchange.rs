//! The parts of a payer's exchanges: errors, phases, and the contents of answers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use upesi_http::StatusCode;
use upesi_types::{Amount, Currency, ErrorCode, FspId, TransferId};

use crate::condition::Text;
use crate::money::{amount_of, currency_of};
use crate::scan;

/// The reason why an exchange, or a payment, ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExchangeError {
    /// The hub answered the request with an error. There will be no callback.
    #[error("the hub answered the request with {0}")]
    Refused(StatusCode),
    #[error("no answer to the request")]
    Unanswered,
    #[error("transfer number {0} was originated before")]
    Repeated(u64),
    #[error("the callback carried error {0}")]
    Code(ErrorCode),
    #[error("the callback reported ABORTED")]
    Aborted,
    #[error("the callback cannot be parsed")]
    Unreadable,
    #[error("no callback in time")]
    Late,
}

/// The content of the answer to a lookup.
#[derive(Clone, Debug)]
pub struct FoundParty {
    pub fsp: FspId,
    /// The whole `PUT /parties` body.
    pub body: Bytes,
}

impl FoundParty {
    pub(crate) fn read(body: &Bytes) -> Option<Self> {
        let fsp = std::str::from_utf8(scan::text_member(body, b"\"fspId\"")?).ok()?;
        Some(Self { fsp: FspId::parse(fsp)?, body: body.clone() })
    }
}

/// The content of the answer to a quote.
#[derive(Clone, Debug)]
pub struct Terms {
    pub amount: Amount,
    pub currency: Currency,
    /// The packet that the transfer must carry, base64url.
    pub ilp_packet: Bytes,
    pub condition: Text,
    /// The whole `PUT /quotes` body.
    pub body: Bytes,
}

impl Terms {
    pub(crate) fn read(body: &Bytes) -> Option<Self> {
        let transfer_amount = scan::member(body, b"transferAmount")?;
        let packet = scan::text_member(body, b"\"ilpPacket\"")?;
        Some(Self {
            amount: amount_of(transfer_amount)?,
            currency: currency_of(transfer_amount)?,
            ilp_packet: body.slice_ref(packet),
            condition: scan::text_member(body, b"\"condition\"")?.try_into().ok()?,
            body: body.clone(),
        })
    }
}

/// The steps of a payment, with or without an FX transfer, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// `GET /parties` until `PUT /parties`.
    Lookup,
    /// `POST /quotes` until `PUT /quotes`.
    Quote,
    /// `POST /fxTransfers` until `PUT /fxTransfers`.
    FxTransfer,
    /// `POST /transfers` until `PUT /transfers`.
    Transfer,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Lookup, Self::Quote, Self::FxTransfer, Self::Transfer];

    /// The steps of a payment in one currency.
    pub const OF_PAYMENT: [Self; 3] = [Self::Lookup, Self::Quote, Self::Transfer];

    /// The name, as in reports: `lookup`, `quote`, `conversion`, `transfer`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Quote => "quote",
            Self::FxTransfer => "conversion",
            Self::Transfer => "transfer",
        }
    }
}

/// The step and the reason of a payment's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {} failed: {error}", phase.name())]
pub struct PaymentFailure {
    /// The step that failed. A transfer was sent only if it is [`Phase::Transfer`] and the error is not
    /// [`ExchangeError::Repeated`]. The hub accepted the transfer unless the error is `Refused` or `Unanswered`.
    pub phase: Phase,
    pub error: ExchangeError,
}

/// The course of a payment.
#[derive(Clone, Debug)]
pub struct PaymentReport {
    pub number: u64,
    /// The id of its transfer, sent or not.
    pub transfer_id: TransferId,
    pub intended: Instant,
    /// Arrival time of the callback of each finished phase, by [`Phase`]. A phase starts at the end of the previous
    /// one, and the first at `intended`. Phases that failed or were not reached have none.
    pub ends: [Option<Instant>; Phase::ALL.len()],
    /// Time of the end, with success or without.
    pub ended: Instant,
    /// Whether the money moved, as far as the payer knows.
    pub result: Result<(), PaymentFailure>,
}

impl PaymentReport {
    /// Duration of a phase; `None` if it did not end with success.
    pub fn duration(&self, phase: Phase) -> Option<Duration> {
        let before = Phase::OF_PAYMENT.into_iter().take_while(|before| *before != phase).last();
        let began = before.map_or(Some(self.intended), |before| self.ends[before as usize])?;
        Some(self.ends[phase as usize]?.saturating_duration_since(began))
    }

    /// Duration of the whole payment, from the intended start.
    pub fn total(&self) -> Duration {
        self.ended.saturating_duration_since(self.intended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_after_any_members() {
        let condition = "c".repeat(43);
        let body = Bytes::from(format!(
            r#"{{"payeeReceiveAmount":{{"amount":"12","currency":"USD"}},"transferAmount":{{"currency":"KES","amount":"12.5"}},
            "ilpPacket":"AYIC","condition":"{condition}","expiration":"2030-01-01T00:00:00.000Z"}}"#
        ));
        let terms = Terms::read(&body).unwrap();
        assert_eq!((terms.amount.to_string().as_str(), terms.currency.as_str()), ("12.5", "KES"));
        assert_eq!((&terms.ilp_packet[..], &terms.condition[..]), (&b"AYIC"[..], condition.as_bytes()));
        for (from, to) in
            [("transferAmount", "x"), ("AYIC", "\\"), ("ccc", "cc"), ("KES", "KE"), ("12.5", "x")]
        {
            let broken = String::from_utf8(body.to_vec()).unwrap().replace(from, to);
            assert!(Terms::read(&broken.into()).is_none(), "{from}");
        }
    }

    #[test]
    fn phase_starts_at_the_end_of_the_previous_one() {
        let intended = Instant::now();
        let at = |ms| intended + Duration::from_millis(ms);
        let failure = PaymentFailure { phase: Phase::Transfer, error: ExchangeError::Late };
        let report = PaymentReport {
            number: 1,
            transfer_id: TransferId::from_random_bytes([1; 16]),
            intended,
            ends: [Some(at(3)), Some(at(10)), None, None],
            ended: at(30),
            result: Err(failure),
        };
        let durations = Phase::OF_PAYMENT.map(|phase| report.duration(phase).map(|time| time.as_millis()));
        assert_eq!(durations, [Some(3), Some(7), None]);
        assert_eq!(report.total(), Duration::from_millis(30));
        assert_eq!(failure.to_string(), "the transfer failed: no callback in time");
    }
}
