//! Stores and prints operators' changes while they wait for a second person.

use alloc::borrow::Cow;
use alloc::vec;

use upesi_types::FspId;

use super::cover::{CoverItem, SettlementCover};
use super::fees::NewFeeRule;
use super::funds::{Deposit, FundsAction, FundsEnd, FundsPrepare};
use super::operators::{NewCredential, NewOperator};
use super::participants::EndpointValue;
use super::settlement_models::NewSettlementModel;
use super::settlements::{AdvanceItem, NewSettlement, SettlementAbort, SettlementAdvance};
use super::signature_keys::NewSignatureKey;
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::fee::FeeTerms;
use crate::operator::Secret;
use crate::show::{Show, Shown};
use crate::stored::{Stored, stored_struct};
use crate::table::key;

type NamedTerms = FeeTerms<FspId>;

stored_struct! {
    FundsPrepare {
        direction, id, name, account, amount, currency, external_reference, reason, extensions, fingerprint,
    }
    Deposit { id, name, amount, currency, external_reference, reason, extensions, fingerprint }
    EndpointValue { kind, value }
    FundsEnd { action, id, name, account, reason }
    NewSettlementModel {
        name, granularity, interchange, delay, currency, require_liquidity_check, ledger_account_type,
        settlement_account_type, auto_position_reset,
    }
    NewSettlement { model, reason, windows }
    SettlementAdvance { id, items }
    AdvanceItem { participant, account, state, reason, external_reference }
    SettlementAbort { id, reason, external_reference }
    SettlementCover { id, items }
    CoverItem { participant, account, funds, reason, external_reference }
    NamedTerms { name, currency, payers, payees, amount_min, amount_max, rate, decimals, fixed, paid_by }
    NewFeeRule { terms, from, until }
    NewOperator { name, roles, participant, is_active }
    NewCredential { name, secret, expires_at }
    NewSignatureKey { name, public_key, not_before, not_after, starts_at, overlap_hours }
}

/// Implements `Show` for structs: they are printed field by field, under the names of their fields or other names.
macro_rules! shown_struct {
    ($($type:ident { $($field:ident $(as $key:literal)?),* $(,)? })*) => {
        $(impl Show for $type {
            fn show(&self) -> Shown<'_> {
                Shown::Fields(vec![$((key!($field $($key)?), self.$field.show())),*])
            }
        })*
    };
}

shown_struct! {
    FundsPrepare {
        direction as "action", id as "transferId", name, account, amount, currency, external_reference, reason,
        extensions,
    }
    Deposit { id as "transferId", name, amount, currency, external_reference, reason, extensions }
    EndpointValue { kind as "endpointType", value }
    FundsEnd { action, id as "transferId", name, account, reason }
    NewSettlementModel {
        name, granularity as "settlementGranularity", interchange as "settlementInterchange",
        delay as "settlementDelay", currency, require_liquidity_check, ledger_account_type, settlement_account_type,
        auto_position_reset,
    }
    NewSettlement { model as "settlementModel", reason, windows as "settlementWindows" }
    SettlementAdvance { id as "settlementId", items as "accounts" }
    AdvanceItem { participant, account, state, reason, external_reference }
    SettlementAbort { id as "settlementId", reason, external_reference }
    SettlementCover { id as "settlementId", items as "accounts" }
    CoverItem { participant, account, funds as "transferId", reason, external_reference }
    NamedTerms {
        name, currency, payers, payees, amount_min, amount_max, rate as "rateMillionths", decimals, fixed, paid_by,
    }
    NewFeeRule { terms, from, until }
    NewOperator { name as "operator", roles, participant, is_active }
    NewCredential { name as "operator", secret as "credential", expires_at as "expires" }
    NewSignatureKey {
        name, public_key as "publicKey", not_before as "notBefore", not_after as "notAfter", starts_at as "startsAt",
        overlap_hours as "overlapHours",
    }
}

impl Show for FundsAction {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Borrowed(match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
        }))
    }
}

/// Shows the kind and the beginning of the digest.
impl Show for Secret {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Owned(alloc::format!("{self:?}")))
    }
}

impl Stored for FundsAction {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(match self {
            Self::Commit => 1,
            Self::Abort => 2,
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::Commit),
            2 => Ok(Self::Abort),
            _ => Err(DecodeError("unknown end of a withdrawal")),
        }
    }
}
