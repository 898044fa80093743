//! Common parts of the messages of quoting.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::Currency;

use super::json::Document;
use super::object::find_properties;
use super::schema::{Schema, Value};
use super::text::are_digits;
use crate::SyncError;

/// An amount as it is written. A quoted amount is not posted: the schema allows more digits than a ledger can
/// represent, and hubs do not calculate with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotedMoney<'a> {
    pub currency: Currency,
    /// The amount, in the canonical form of FSPIOP API v1.1 §7.1.5.
    pub amount: Cow<'a, str>,
}

/// Which amount of a payment is stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AmountType {
    /// The amount that the payer pays, including fees.
    Send,
    /// The amount that the payee receives.
    Receive,
}

const MONEY: Schema<2> = Schema::open(2, ["currency", "amount"]);

pub(super) fn read_money<'a>(value: Value<'a, '_>) -> Result<QuotedMoney<'a>, SyncError> {
    let money = MONEY.read(value)?;
    let currency = money.required("currency").currency()?;
    Ok(QuotedMoney { currency, amount: money.required("amount").amount()? })
}

/// All objects of a body that have a currency and an amount, whatever they mean.
pub(crate) fn all_money(body: &[u8]) -> Vec<QuotedMoney<'_>> {
    let document = core::str::from_utf8(body).ok().and_then(Document::parse).unwrap_or_else(Document::empty);
    let money = |object| {
        let [currency, amount] = find_properties(&document, object, &["currency", "amount"])?.positions;
        let currency = Currency::parse(&document.text(currency? as usize)?)?;
        Some(QuotedMoney { currency, amount: document.text(amount? as usize)? })
    };
    document.objects().filter_map(money).collect()
}

pub(super) fn read_amount_type(value: Value<'_, '_>) -> Result<AmountType, SyncError> {
    value.one_of(&[("SEND", AmountType::Send), ("RECEIVE", AmountType::Receive)])
}

/// Reads an optional property.
pub(super) fn read_optional<'a, 'p, T>(
    value: Option<Value<'a, 'p>>,
    read: impl FnOnce(Value<'a, 'p>) -> Result<T, SyncError>,
) -> Result<Option<T>, SyncError> {
    value.map(read).transpose()
}

/// Checks an optional property that the hub itself does not need.
pub(crate) fn check<'a, 'p, T>(
    value: Option<Value<'a, 'p>>,
    read: impl FnOnce(Value<'a, 'p>) -> Result<T, SyncError>,
) -> Result<(), SyncError> {
    read_optional(value, read).map(|_| ())
}

const GEO_CODE: Schema<2> = Schema::open(2, ["latitude", "longitude"]);

pub(super) fn check_geo_code(value: Value<'_, '_>) -> Result<(), SyncError> {
    let code = GEO_CODE.read(value)?;
    code.required("latitude").degrees(90)?;
    code.required("longitude").degrees(180)
}

pub(super) fn check_note(value: Value<'_, '_>) -> Result<(), SyncError> {
    value.bounded_text(1, 128).map(|_| ())
}

const TRANSACTION_TYPE: Schema<6> = Schema::open(
    3,
    ["scenario", "initiator", "initiatorType", "subScenario", "refundInfo", "balanceOfPayments"],
);
const REFUND: Schema<2> = Schema::open(1, ["originalTransactionId", "refundReason"]);

pub(super) fn check_transaction_type(value: Value<'_, '_>) -> Result<(), SyncError> {
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
