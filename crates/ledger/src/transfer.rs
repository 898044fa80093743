//! A transfer and its life: RESERVED, then exactly one of COMMITTED and ABORTED.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use upesi_types::{Amount, Currency, ErrorCode, Timestamp, TransferId};

use crate::account::AccountId;
use crate::callback::TransferView;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::participant::ParticipantId;
use crate::settlement_model::wire_enum;

/// First half of the SHA-256 of a request body; equal for a resend, different for a modified request.
pub type Fingerprint = [u8; 16];

/// Most items that an extension list may have (FSPIOP API v1.1 §7.4.3).
const EXTENSION_ITEMS_MAX: usize = 16;
/// Longest `value` of an extension that the FSPIOP schema admits, in characters.
const EXTENSION_VALUE_CHARS_MAX: usize = 128;

/// A transfer as the ledger and the archive keep it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Identifier chosen by the payer DFSP.
    pub id: TransferId,
    /// Payer; absent when a refused prepare named an unknown one.
    pub payer: Option<ParticipantId>,
    /// Payee; absent when a refused prepare named an unknown one.
    pub payee: Option<ParticipantId>,
    /// Payer's position account; absent when the prepare was refused.
    pub payer_account: Option<AccountId>,
    /// Payee's position account; absent when the prepare was refused.
    pub payee_account: Option<AccountId>,
    /// How much; zero when a refused prepare's amount does not fit the ledger.
    pub amount: Amount,
    /// Of what.
    pub currency: Currency,
    /// SHA-256 of the fulfilment that commits it; zero when a refused prepare gave none.
    pub condition: [u8; 32],
    /// When the reservation lapses.
    pub expires_at: Timestamp,
    /// When it was prepared.
    pub prepared_at: Timestamp,
    /// Journal sequence of the prepare, where its headers and body are.
    pub prepare_seq: u64,
    /// Fingerprint of the prepare.
    pub prepare_fingerprint: Fingerprint,
    /// The prepare's extensions (the JSON text of the array); once committed, the fulfil's.
    pub extensions: Option<Box<str>>,
    /// Where it stands.
    pub state: TransferState,
}

/// Where a transfer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The payer's position carries the amount; the payee has been asked.
    Reserved,
    /// Both positions carry the amount. Final.
    Committed {
        /// Preimage of the condition.
        fulfilment: [u8; 32],
        /// Fingerprint of the fulfil.
        fingerprint: Fingerprint,
        /// When.
        at: Timestamp,
    },
    /// No position carries the amount. Final.
    Aborted {
        /// How it came to this.
        kind: AbortKind,
        /// FSPIOP error code.
        code: ErrorCode,
        /// FSPIOP error description.
        description: Box<str>,
        /// Fingerprint of the PUT that ended it, to tell resends from modified requests.
        fingerprint: Option<Fingerprint>,
        /// Why an operator ended it, in the operator's words; absent when none did.
        operator_reason: Option<Box<str>>,
        /// When.
        at: Timestamp,
    },
}

wire_enum! {
    /// How a transfer came to be aborted. The name is what operators see; DFSPs see ABORTED.
    AbortKind {
        /// Refused at prepare by a validation rule.
        Invalid = 1 "INVALID",
        /// Refused at prepare for want of cover or by the net debit cap.
        Rejected = 2 "ABORTED_REJECTED",
        /// Aborted by the payee.
        ByPayee = 3 "ABORTED_ERROR",
        /// The payee's fulfil was invalid.
        InvalidFulfil = 4 "ABORTED_INVALID_FULFIL",
        /// The payee's abort was invalid.
        InvalidAbort = 5 "ABORTED_INVALID_ABORT",
        /// Its deadline passed, or an operator ended it by the same rules.
        Expired = 6 "EXPIRED_RESERVED",
    }
}

wire_enum! {
    /// The state that DFSPs see (FSPIOP API v1.1 §7.5.13).
    PublicState {
        /// Received.
        Received = 1 "RECEIVED",
        /// Reserved.
        Reserved = 2 "RESERVED",
        /// Committed.
        Committed = 3 "COMMITTED",
        /// Aborted.
        Aborted = 4 "ABORTED",
    }
}

impl Transfer {
    /// The state that DFSPs see.
    pub const fn public_state(&self) -> PublicState {
        match self.state {
            TransferState::Reserved => PublicState::Reserved,
            TransferState::Committed { .. } => PublicState::Committed,
            TransferState::Aborted { .. } => PublicState::Aborted,
        }
    }

    /// When it reached its final state.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        match self.state {
            TransferState::Reserved => None,
            TransferState::Committed { at, .. } | TransferState::Aborted { at, .. } => Some(at),
        }
    }

    /// Whether a participant is payer or payee.
    pub fn has_party(&self, participant: ParticipantId) -> bool {
        self.payer == Some(participant) || self.payee == Some(participant)
    }

    /// What a party is told when it asks: state, completion, fulfilment, extensions, and the cause of an abort.
    pub fn view(&self) -> TransferView {
        let (fulfilment, extensions) = match &self.state {
            TransferState::Reserved => (None, self.extensions.clone()),
            TransferState::Committed { fulfilment, .. } => (Some(*fulfilment), self.extensions.clone()),
            TransferState::Aborted { code, description, .. } => {
                (None, Some(with_cause(self.extensions.as_deref(), *code, description)))
            }
        };
        TransferView { state: self.public_state(), completed_at: self.completed_at(), fulfilment, extensions }
    }

    /// Appends the stored form.
    pub fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.transfer_id(self.id);
        for number in [self.payer.map(ParticipantId::number), self.payee.map(ParticipantId::number)] {
            encoder.u32(number.unwrap_or(0));
        }
        for number in [self.payer_account.map(AccountId::number), self.payee_account.map(AccountId::number)] {
            encoder.u32(number.unwrap_or(0));
        }
        encoder.amount(self.amount);
        encoder.currency(self.currency);
        encoder.raw(&self.condition);
        encoder.timestamp(self.expires_at);
        encoder.timestamp(self.prepared_at);
        encoder.u64(self.prepare_seq);
        encoder.raw(&self.prepare_fingerprint);
        encoder.option(self.extensions.as_deref(), |encoder, text| encoder.text(text));
        match &self.state {
            TransferState::Reserved => encoder.u8(0),
            TransferState::Committed { fulfilment, fingerprint, at } => {
                encoder.u8(1);
                encoder.raw(fulfilment);
                encoder.raw(fingerprint);
                encoder.timestamp(*at);
            }
            TransferState::Aborted { kind, code, description, fingerprint, operator_reason, at } => {
                encoder.u8(if operator_reason.is_none() { 2 } else { 3 });
                encoder.u8(kind.number());
                encoder.u16(code.number());
                encoder.text(description);
                encoder.option(fingerprint.as_ref(), |encoder, bytes| encoder.raw(bytes));
                if let Some(reason) = operator_reason {
                    encoder.text(reason);
                }
                encoder.timestamp(*at);
            }
        }
    }

    /// Reads the stored form.
    pub fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Ok(Self {
            id: decoder.transfer_id()?,
            payer: ParticipantId::new(decoder.u32()?),
            payee: ParticipantId::new(decoder.u32()?),
            payer_account: AccountId::new(decoder.u32()?),
            payee_account: AccountId::new(decoder.u32()?),
            amount: decoder.amount()?,
            currency: decoder.currency()?,
            condition: decoder.array()?,
            expires_at: decoder.timestamp()?,
            prepared_at: decoder.timestamp()?,
            prepare_seq: decoder.u64()?,
            prepare_fingerprint: decoder.array()?,
            extensions: decoder.option(Decoder::boxed_text)?,
            state: match decoder.u8()? {
                0 => TransferState::Reserved,
                1 => TransferState::Committed {
                    fulfilment: decoder.array()?,
                    fingerprint: decoder.array()?,
                    at: decoder.timestamp()?,
                },
                form @ (2 | 3) => TransferState::Aborted {
                    kind: AbortKind::from_number(decoder.u8()?)
                        .ok_or(DecodeError("unknown kind of abort"))?,
                    code: ErrorCode::from_number(decoder.u16()?).ok_or(DecodeError("unknown error code"))?,
                    description: decoder.boxed_text()?,
                    fingerprint: decoder.option(Decoder::array)?,
                    operator_reason: if form == 3 { Some(decoder.boxed_text()?) } else { None },
                    at: decoder.timestamp()?,
                },
                _ => return Err(DecodeError("unknown state of transfer")),
            },
        })
    }
}

/// The extensions with one more: `cause` = `<code>: <description>`, cut at 128 characters.
fn with_cause(extensions: Option<&str>, code: ErrorCode, description: &str) -> Box<str> {
    let cause: String = format!("{code}: {description}").chars().take(EXTENSION_VALUE_CHARS_MAX).collect();
    let mut text = String::with_capacity(cause.len() + 32 + extensions.map_or(0, str::len));
    let others =
        extensions.and_then(|array| array.trim_end().strip_suffix(']')).map(str::trim_end).unwrap_or("[");
    let others = first_items(others, EXTENSION_ITEMS_MAX - 1);
    text.push_str(others);
    if others.len() > 1 {
        text.push(',');
    }
    text.push_str(r#"{"key":"cause","value":""#);
    for character in cause.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", control as u32)),
            other => text.push(other),
        }
    }
    text.push_str("\"}]");
    text.into_boxed_str()
}

/// The beginning of a JSON array of objects, up to the end of the item numbered `count`.
fn first_items(array: &str, count: usize) -> &str {
    let (mut depth, mut ended, mut in_string, mut escaped) = (0, 0, false, false);
    for (at, byte) in array.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                ended += usize::from(depth == 0);
                if ended == count {
                    return &array[..=at];
                }
            }
            _ => {}
        }
    }
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_joins_the_extensions() {
        for (extensions, expected) in [
            (None, r#"[{"key":"cause","value":"3303: Transfer expired"}]"#),
            (Some("[]"), r#"[{"key":"cause","value":"3303: Transfer expired"}]"#),
            (
                Some(r#"[ {"key":"a","value":"b"} ]"#),
                r#"[ {"key":"a","value":"b"},{"key":"cause","value":"3303: Transfer expired"}]"#,
            ),
        ] {
            assert_eq!(&*with_cause(extensions, ErrorCode::TRANSFER_EXPIRED, "Transfer expired"), expected);
        }
        let items: alloc::vec::Vec<_> =
            (0..16).map(|n| format!(r#"{{"key":"k{n}","value":"}}\"{n}"}}"#)).collect();
        let full = format!("[{}]", items.join(","));
        let expected =
            format!(r#"[{},{{"key":"cause","value":"3303: Transfer expired"}}]"#, items[..15].join(","));
        assert_eq!(&*with_cause(Some(&full), ErrorCode::TRANSFER_EXPIRED, "Transfer expired"), expected);
        let quoted = with_cause(None, ErrorCode::PAYEE, "say \"no\" \\ \u{1}");
        assert_eq!(&*quoted, r#"[{"key":"cause","value":"5000: say \"no\" \\ \u0001"}]"#);
    }
}
