//! The parts of a payer's exchanges: errors, phases, and the contents of answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use upesi_http::{HeaderMap, StatusCode};
use upesi_types::{Amount, Currency, ErrorCode, FspId, TransferId};

use crate::condition::Text;
use crate::dfsp::count;
use crate::message::Family;
use crate::payee::fault_key;
use crate::payer::{OriginateError, id_of};
use crate::quoting::{amount_of, currency_of};
use crate::reply::{Reply, Saying};
use crate::scan;
use crate::settings::mix;
use crate::simulator::Shared;

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
    #[error("the callback said ABORTED")]
    Aborted,
    #[error("the callback cannot be understood")]
    Unreadable,
    #[error("no callback in time")]
    Late,
}

impl From<OriginateError> for ExchangeError {
    fn from(error: OriginateError) -> Self {
        match error {
            OriginateError::Refused { status, .. } => Self::Refused(status),
            OriginateError::Unanswered(_) => Self::Unanswered,
            OriginateError::Repeated(number) => Self::Repeated(number),
        }
    }
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
    Conversion,
    /// `POST /transfers` until `PUT /transfers`.
    Transfer,
}

impl Phase {
    pub const ALL: [Self; 4] = [Self::Lookup, Self::Quote, Self::Conversion, Self::Transfer];

    /// The steps of a payment in one currency.
    pub const OF_PAYMENT: [Self; 3] = [Self::Lookup, Self::Quote, Self::Transfer];

    /// The name, as in reports: `lookup`, `quote`, `conversion`, `transfer`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Quote => "quote",
            Self::Conversion => "conversion",
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

#[derive(Clone, Debug)]
pub struct PaymentReport {
    pub number: u64,
    /// The id of its transfer, sent or not.
    pub transfer_id: TransferId,
    pub intended: Instant,
    /// Time at which the callback of each finished phase arrived, by [`Phase`]. A phase starts at the end of the
    /// previous one, and the first at `intended`. Phases that failed or were not reached have none.
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

// Amounts as DFSPs calculate with them: in the smallest unit of their currency. Rates are exact, in thousandths.

/// The number of digits after the decimal point of a currency (ISO 4217).
const fn decimals(currency: Currency) -> u32 {
    match &currency.to_bytes() {
        b"BIF" | b"CLP" | b"DJF" | b"GNF" | b"ISK" | b"JPY" | b"KMF" | b"KRW" | b"PYG" | b"RWF" | b"UGX"
        | b"UYI" | b"VND" | b"VUV" | b"XAF" | b"XOF" | b"XPF" => 0,
        b"BHD" | b"IQD" | b"JOD" | b"KWD" | b"LYD" | b"OMR" | b"TND" => 3,
        b"CLF" | b"UYW" => 4,
        _ => 2,
    }
}

/// Ten-thousandths in the smallest unit of a currency.
const fn step(currency: Currency) -> i64 {
    10_i64.pow(4 - decimals(currency))
}

/// An amount in the smallest unit of its currency. Further digits are cut off, and a negative amount becomes zero.
pub(crate) fn minor_units(amount: Amount, currency: Currency) -> u64 {
    u64::try_from(amount.units() / step(currency)).unwrap_or(0)
}

/// The fee of an amount, rounded down to the smallest unit of the currency.
pub(crate) fn fee(amount: Amount, per_mille: u16, currency: Currency) -> Amount {
    bought(amount, per_mille.into(), currency).unwrap_or(Amount::ZERO)
}

/// The amount that can be bought in a currency, rounded down to its smallest unit; `None` if it is too large.
pub(crate) fn bought(sold: Amount, rate_per_mille: u32, currency: Currency) -> Option<Amount> {
    let step = i128::from(step(currency));
    let exact = i128::from(sold.units()) * i128::from(rate_per_mille) / 1000;
    in_range(exact / step * step)
}

/// The price of an amount in a currency, rounded up to its smallest unit; `None` if it is too large, or the rate is 0.
pub(crate) fn price(bought: Amount, rate_per_mille: u32, currency: Currency) -> Option<Amount> {
    let step = i128::from(step(currency));
    let (wanted, worth_of_step) = (i128::from(bought.units()) * 1000, i128::from(rate_per_mille) * step);
    in_range((wanted + worth_of_step - 1).checked_div(worth_of_step)? * step)
}

fn in_range(units: i128) -> Option<Amount> {
    Amount::from_units(i64::try_from(units).ok()?)
}

// The payer's side of transaction requests and authorizations (FSPIOP API v1.1 §6.4 and §6.6). It confirms that it has
// received the request, and returns a one-time password when it is asked for one.

/// The password of every party.
const ONE_TIME_PASSWORD: &str = "160405";
const QR_CODE: &str = "UPESI-QR-160405";

/// Accepts a `POST /transactionRequests` and starts to answer it.
pub(crate) fn take(shared: &Arc<Shared>, payer: u32, headers: &HeaderMap, body: &[u8]) -> StatusCode {
    let id = scan::member(body, b"transactionRequestId").and_then(scan::text);
    match id.and_then(|id| std::str::from_utf8(id).ok()) {
        Some(id) => take_again(shared, payer, headers, id),
        None => {
            count(&shared.dfsp(payer).counters.unreadable);
            StatusCode::BAD_REQUEST
        }
    }
}

/// Accepts a GET of a transaction request: the answer depends on the id only.
pub(crate) fn take_again(shared: &Arc<Shared>, payer: u32, headers: &HeaderMap, id: &str) -> StatusCode {
    let counters = &shared.dfsp(payer).counters;
    let Some(parsed) = TransferId::parse(id) else {
        count(&counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&counters.requests_received);
    let key = fault_key(&parsed);
    let transaction_id = id_of(mix(key), mix(!key));
    let body =
        format!("{{\"transactionId\":\"{transaction_id}\",\"transactionRequestState\":\"RECEIVED\"}}").into();
    let path = format!("transactionRequests/{id}");
    Reply::new(shared, payer, Family::TransactionRequests, headers, path).start(key, Saying::Answer(body))
}

/// Accepts a `GET /authorizations/{ID}` and starts to answer it.
pub(crate) fn take_authorization(
    shared: &Arc<Shared>,
    payer: u32,
    headers: &HeaderMap,
    id: &str,
    query: Option<&str>,
) -> StatusCode {
    count(&shared.dfsp(payer).counters.requests_received);
    let path = format!("authorizations/{id}");
    Reply::new(shared, payer, Family::Authorizations, headers, path)
        .start_unnumbered(Saying::Answer(authorization(query.unwrap_or_default())))
}

fn authorization(query: &str) -> Bytes {
    let wants_code = query.split('&').any(|item| item == "authenticationType=QRCODE");
    let (kind, value) = if wants_code { ("QRCODE", QR_CODE) } else { ("OTP", ONE_TIME_PASSWORD) };
    format!(
        "{{\"authenticationInfo\":{{\"authentication\":\"{kind}\",\"authenticationValue\":\"{value}\"}},\
         \"responseType\":\"ENTERED\"}}"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_terms_are_those_of_the_transfer_whatever_stands_before() {
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
    fn phases_last_from_the_end_of_the_one_before() {
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

    #[test]
    fn amounts_count_in_the_smallest_unit_of_the_currency() {
        for (amount, currency, minor, fee_of_1_percent) in [
            ("12.5", "USD", 1250, "0.12"),
            ("0.9999", "USD", 99, "0"),
            ("12.5", "KWD", 12_500, "0.125"),
            ("1234", "JPY", 1234, "12"),
            ("12.5", "CLF", 125_000, "0.125"),
            ("99.99", "XXX", 9_999, "0.99"),
        ] {
            let (amount, currency) =
                (Amount::parse_wire(amount).unwrap(), Currency::parse(currency).unwrap());
            assert_eq!(minor_units(amount, currency), minor, "{amount} {currency}");
            assert_eq!(fee(amount, 10, currency).to_string(), fee_of_1_percent, "{amount} {currency}");
            assert_eq!(fee(amount, 0, currency), Amount::ZERO);
            assert_eq!(fee(amount, 1000, currency).units(), i64::try_from(minor).unwrap() * step(currency));
        }
    }

    #[test]
    fn conversions_are_rounded_in_favour_of_who_converts() {
        for (amount, rate_per_mille, currency, worth, cost) in [
            ("2", 1500, "XTS", Some("3"), Some("1.34")),
            ("3", 1500, "XXX", Some("4.5"), Some("2")),
            ("125.5", 28_600, "UGX", Some("3589"), Some("5")),
            ("1", 7, "USD", Some("0"), Some("142.86")),
            ("1", 7, "KWD", Some("0.007"), Some("142.858")),
            ("0", 1500, "XTS", Some("0"), Some("0")),
            ("99999999999999.9999", 1000, "CLF", Some("99999999999999.9999"), Some("99999999999999.9999")),
            ("99999999999999.9999", 1001, "CLF", None, Some("99900099900099.9")),
            ("99999999999999.9999", u32::MAX, "XTS", None, Some("23283064.38")),
            ("99999999999999.9999", 1, "XTS", Some("99999999999.99"), None),
            ("1", 0, "XTS", Some("0"), None),
        ] {
            let (amount, currency) =
                (Amount::parse_wire(amount).unwrap(), Currency::parse(currency).unwrap());
            let found = [bought, price].map(|convert| convert(amount, rate_per_mille, currency));
            let found = found.map(|converted| converted.map(|converted| converted.to_string()));
            let expected = [worth, cost].map(|text| text.map(str::to_owned));
            assert_eq!(found, expected, "{amount} at {rate_per_mille} in {currency}");
        }
    }

    #[test]
    fn the_kind_of_authentication_is_the_one_asked_for() {
        for (query, kind) in [
            ("authenticationType=OTP&retriesLeft=2", "OTP"),
            ("amount=1&authenticationType=QRCODE", "QRCODE"),
            ("", "OTP"),
        ] {
            let json: serde_json::Value = serde_json::from_slice(&authorization(query)).unwrap();
            assert_eq!(json["authenticationInfo"]["authentication"], kind, "{query}");
            assert_eq!(json["responseType"], "ENTERED");
        }
    }
}
