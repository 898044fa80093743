//! The contents of the requests behind the records, read by the auditor's own parser. It shares no code with the parser
//! that read them at their arrival.

use serde_json::Value;
use upesi_ledger::{AbortKind, ParticipantId, Transfer, TransferState};
use upesi_types::{Amount, hex};

use super::entry::decimal;

/// Decimal places of a currency unit, for ten-thousandths.
const PLACES: usize = 4;

/// A prepare's body. Unreadable members are absent.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PrepareBody {
    pub id: Option<String>,
    pub payer: Option<String>,
    pub payee: Option<String>,
    /// Amount in ten-thousandths.
    pub units: Option<i128>,
    pub currency: Option<String>,
    pub condition: Option<[u8; 32]>,
    /// Expiration in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}

impl PrepareBody {
    /// `None` if the body is not a prepare, as with tools that fill a hub.
    pub fn read(body: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(body).ok()?;
        value.get("transferId")?;
        let text = |path: &str| value.pointer(path).and_then(Value::as_str);
        let owned = |path| text(path).map(str::to_owned);
        Some(Self {
            id: owned("/transferId"),
            payer: owned("/payerFsp"),
            payee: owned("/payeeFsp"),
            units: text("/amount/amount").and_then(units),
            currency: owned("/amount/currency"),
            condition: text("/condition").and_then(hash),
            expires_ms: text("/expiration").and_then(milliseconds),
        })
    }

    /// Differences of a recorded transfer: the field, the body's value, the record's. `name` returns the name of a
    /// participant.
    pub fn differences(
        &self,
        transfer: &Transfer,
        name: impl Fn(ParticipantId) -> Option<String>,
    ) -> Vec<String> {
        let party = |id: Option<ParticipantId>| id.and_then(&name);
        let mut different = Vec::new();
        let mut compare = |field: &str, said: Option<String>, recorded: Option<String>| {
            if said != recorded {
                let show = |value: Option<String>| value.unwrap_or_else(|| "nothing".to_owned());
                different.push(format!(
                    "{field} {}, but its request contains {}",
                    show(recorded),
                    show(said)
                ));
            }
        };
        // For a rejected prepare the record has only the readable parts.
        let is_refused = transfer.state != TransferState::Reserved;
        let same_case = |id: &String| id.to_ascii_lowercase();
        let recorded_id = transfer.id.to_string();
        compare("id", self.id.as_ref().map(same_case), Some(same_case(&recorded_id)));
        for (role, said, id) in
            [("payer", &self.payer, transfer.payer), ("payee", &self.payee, transfer.payee)]
        {
            if !(is_refused && id.is_none()) {
                compare(role, said.clone(), party(id));
            }
        }
        let units = i128::from(transfer.amount.units());
        let is_beyond = self.units.is_none_or(|said| said > i128::from(Amount::MAX.units()));
        if !(is_refused && units == 0 && is_beyond) {
            compare("amount", self.units.map(decimal), Some(decimal(units)));
        }
        compare("currency", self.currency.clone(), Some(transfer.currency.as_str().to_owned()));
        if !(is_refused && self.condition.is_none() && transfer.condition == [0; 32]) {
            compare("condition", self.condition.map(|bytes| hex(&bytes)), Some(hex(&transfer.condition)));
        }
        let recorded = transfer.expires_at.as_ms();
        compare("expiration", self.expires_ms.map(|ms| ms.to_string()), Some(recorded.to_string()));
        different
    }
}

/// The difference between a body and its record, if any; `None` if they cannot be compared.
pub(super) type Compared = Option<Result<(), String>>;

/// Compares a fulfil's body with the recorded fulfilment.
pub(super) fn compare_fulfilment(body: &[u8], fulfilment: &[u8; 32]) -> Compared {
    let value: Value = serde_json::from_slice(body).ok()?;
    value.get("fulfilment").or(value.get("transferState"))?;
    Some(match value.get("fulfilment").and_then(Value::as_str).and_then(hash) {
        Some(said) if said == *fulfilment => Ok(()),
        Some(said) => {
            let (recorded, said) = (hex(fulfilment), hex(&said));
            Err(format!("is committed with the fulfilment {recorded}, but its request contains {said}"))
        }
        None => Err("is committed by a request without fulfilment".to_owned()),
    })
}

/// Compares the body of a payee's error with the recorded code.
pub(super) fn compare_error(body: &[u8], kind: AbortKind, code: u16) -> Compared {
    if kind != AbortKind::ByPayee {
        return None;
    }
    let value: Value = serde_json::from_slice(body).ok()?;
    let said = value.pointer("/errorInformation/errorCode")?;
    let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
    Some(if said == format!("{code:04}") {
        Ok(())
    } else {
        Err(format!("is aborted with the code {code:04}, but its request contains {said}"))
    })
}

/// A header of a request, whose block has lines of the form `name: value`.
pub(super) fn header<'a>(block: &'a [u8], wanted: &str) -> Option<&'a str> {
    let lines = std::str::from_utf8(block).ok()?.split("\r\n");
    lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == wanted)
        .map(|(_, value)| value.trim())
}

fn units(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) || fraction.len() > PLACES {
        return None;
    }
    format!("{whole}{fraction:0<PLACES$}").parse().ok()
}

/// 32 bytes in base64url.
fn hash(text: &str) -> Option<[u8; 32]> {
    let (mut bits, mut count, mut bytes) = (0_u32, 0, Vec::with_capacity(33));
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    bytes.try_into().ok()
}

/// `2016-05-24T08:38:08.699-04:00`; the fraction may be absent.
fn milliseconds(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let rest = text.get(19..)?;
    let zone_at = rest.find(['Z', '+', '-'])?;
    let (fraction, zone) = rest.split_at(zone_at);
    let fraction = match fraction.strip_prefix('.') {
        Some(digits) => format!("{digits:0<3}").get(..3)?.parse().ok()?,
        None => 0,
    };
    let offset = match zone.split_at(1) {
        ("Z", "") => 0,
        (sign, hours) => {
            let (hours, minutes) = hours.split_once(':')?;
            let minutes = hours.parse::<i64>().ok()? * 60 + minutes.parse::<i64>().ok()?;
            if sign == "-" { -minutes } else { minutes }
        }
    };
    // Days since 1970: years begin in March, so that a leap day is the last of its year.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let days =
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (m * 153 + 2) / 5 + day - 1 - 719_468;
    Some((((days * 24 + hour) * 60 + minute - offset) * 60 + second) * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_by_their_digits() {
        for (text, expected) in [
            ("0", Some(0)),
            ("10", Some(100_000)),
            ("10.5", Some(105_000)),
            ("0.0001", Some(1)),
            ("12345678901234.9999", Some(123_456_789_012_349_999)),
            ("1.00001", None),
            (".5", None),
            ("-1", None),
            ("1e3", None),
            ("", None),
        ] {
            assert_eq!(units(text), expected, "{text}");
        }
    }

    #[test]
    fn instants_and_hashes_are_parsed_as_on_the_wire() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2016-05-24T08:38:08.699-04:00", Some(1_464_093_488_699)),
            ("2031-04-01T12:00:00Z", Some(1_932_811_200_000)),
            ("2000-02-29T23:59:59.5+05:30", Some(951_848_999_500)),
            ("2031-04-01", None),
            ("soon", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
        assert_eq!(hash(&"A".repeat(43)), Some([0; 32]));
        assert_eq!(hash(&format!("-{}8A", "_".repeat(41))), None, "44 letters without padding are 33 bytes");
        assert_eq!(hash(&format!("-{}8", "_".repeat(41))).map(|bytes| bytes[0]), Some(0xfb));
        assert_eq!(hash("AAAA"), None);
        assert_eq!(hash("A+/A"), None);
        assert_eq!(header(b"a: 1\r\nfspiop-source: greenbank\r\n", "fspiop-source"), Some("greenbank"));
        assert_eq!(header(b"a: 1\r\n", "fspiop-source"), None);
    }
}
