//! What the messages of quoting have in common.

use alloc::borrow::Cow;

use upesi_types::Currency;

use super::scalar::are_digits;
use super::schema::{Schema, Value};
use crate::SyncError;

/// An amount as it is written. Quotes are not money yet: the schema admits more digits than a ledger holds, and no hub
/// computes with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotedMoney<'a> {
    /// Of what.
    pub currency: Currency,
    /// How much, in the canonical form of FSPIOP API v1.1 §7.1.5.
    pub amount: Cow<'a, str>,
}

/// Which amount of a payment is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmountType {
    /// What the payer pays, fees included.
    Send,
    /// What the payee receives.
    Receive,
}

const MONEY: Schema<2> = Schema::open(2, ["currency", "amount"]);

pub(crate) fn read_money<'a>(value: Value<'a, '_>) -> Result<QuotedMoney<'a>, SyncError> {
    let money = MONEY.read(value)?;
    let currency = money.required("currency").currency()?;
    Ok(QuotedMoney { currency, amount: money.required("amount").amount()? })
}

pub(crate) fn read_amount_type(value: Value<'_, '_>) -> Result<AmountType, SyncError> {
    value.one_of(&[("SEND", AmountType::Send), ("RECEIVE", AmountType::Receive)])
}

/// Reads a property that may be there.
pub(crate) fn read_optional<'a, 'p, T>(
    value: Option<Value<'a, 'p>>,
    read: impl FnOnce(Value<'a, 'p>) -> Result<T, SyncError>,
) -> Result<Option<T>, SyncError> {
    value.map(read).transpose()
}

/// Checks a property that may be there and that the hub itself does not need.
pub(crate) fn check<'a, 'p, T>(
    value: Option<Value<'a, 'p>>,
    read: impl FnOnce(Value<'a, 'p>) -> Result<T, SyncError>,
) -> Result<(), SyncError> {
    read_optional(value, read).map(|_| ())
}

const GEO_CODE: Schema<2> = Schema::open(2, ["latitude", "longitude"]);

pub(crate) fn check_geo_code(value: Value<'_, '_>) -> Result<(), SyncError> {
    let code = GEO_CODE.read(value)?;
    code.required("latitude").degrees(90)?;
    code.required("longitude").degrees(180)
}

pub(crate) fn check_note(value: Value<'_, '_>) -> Result<(), SyncError> {
    value.bounded_text(1, 128).map(|_| ())
}

const TRANSACTION_TYPE: Schema<6> = Schema::open(
    3,
    ["scenario", "initiator", "initiatorType", "subScenario", "refundInfo", "balanceOfPayments"],
);
const REFUND: Schema<2> = Schema::open(1, ["originalTransactionId", "refundReason"]);

pub(crate) fn check_transaction_type(value: Value<'_, '_>) -> Result<(), SyncError> {
    let kind = TRANSACTION_TYPE.read(value)?;
    kind.required("scenario").any_of(&["DEPOSIT", "WITHDRAWAL", "TRANSFER", "PAYMENT", "REFUND"])?;
    kind.required("initiator").any_of(&["PAYER", "PAYEE"])?;
    kind.required("initiatorType").any_of(&["CONSUMER", "AGENT", "BUSINESS", "DEVICE"])?;
    check(kind.optional("subScenario"), |value| value.undefined_enum())?;
    if let Some(refund) = kind.optional("refundInfo") {
        let refund = REFUND.read(refund)?;
        refund.required("originalTransactionId").transfer_id()?;
        check(refund.optional("refundReason"), check_note)?;
    }
    let is_code = |text: &str| are_digits(text, 3, 3) && !text.starts_with('0');
    check(kind.optional("balanceOfPayments"), |value| {
        value.matching("three digits, the first not 0", is_code)
    })
}
