//! Rejects amounts with more decimals than their currency, if the scheme requires it. No bank can hold or move such an
//! amount.

use alloc::format;
use alloc::string::ToString;

use upesi_types::{Amount, AmountError, Currency, ErrorCode, UnfitAmount};

use crate::body::{self, QuotedMoney};
use crate::{Action, Message, Operation, Resource, SyncError};

impl Message {
    /// Marks such amounts of a prepare, of items and of an FX transfer as invalid, so that they are rejected like other
    /// amounts that a ledger cannot represent.
    ///
    /// Errors: 400 with 3100 for an amount of a quote or of its response.
    pub fn reject_finer_amounts(&mut self, operation: Operation, body: &[u8]) -> Result<(), SyncError> {
        match self {
            Self::Prepare(prepare) => reject(&mut prepare.amount, prepare.currency),
            Self::FxTransfer(fx_transfer) => {
                for side in [&mut fx_transfer.source, &mut fx_transfer.target] {
                    reject(&mut side.amount, side.currency);
                }
            }
            Self::BulkTransfer(bulk) => {
                for (_, item) in &mut bulk.items {
                    reject(&mut item.amount, item.currency);
                }
            }
            _ => return check_quote(operation, body),
        }
        Ok(())
    }
}

fn reject(amount: &mut Result<Amount, UnfitAmount>, currency: Currency) {
    if let Ok(found) = *amount
        && !currency.has(found)
    {
        *amount = Err(UnfitAmount { error: AmountError::Finer, text: found.to_string().into() });
    }
}

/// Quoted amounts are forwarded and not stored, so the body is read again here. All amounts of the message are checked,
/// including fees, commissions and charges.
fn check_quote(operation: Operation, body: &[u8]) -> Result<(), SyncError> {
    let is_quote =
        matches!(operation.resource(), Resource::Quotes | Resource::BulkQuotes | Resource::FxQuotes);
    if !is_quote || !matches!(operation.action(), Action::Post | Action::Put) {
        return Ok(());
    }
    for QuotedMoney { currency, amount } in body::all_money(body) {
        // The other DFSP judges amounts that no ledger can represent.
        if Amount::parse_wire(&amount).is_ok_and(|found| !currency.has(found)) {
            let detail = format!("Amount {amount} {} {currency}", AmountError::Finer);
            return Err(SyncError::new(ErrorCode::VALIDATION, &detail));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTE: &str = r#"{"amount":{"currency":"KES","amount":"10.5"},"fees":{"currency":"KES","amount":"1.25"},
        "currencyConversion":{"sourceAmount":{"currency":"UGX","amount":"3"},
        "targetAmount":{"currency":"KES","amount":"2.5"}}}"#;
    const ANSWER: &str = r#"{"transferAmount":{"currency":"KES","amount":"10.5"},
        "payeeReceiveAmount":{"currency":"KES","amount":"9.5"},"payeeFspFee":{"currency":"KES","amount":"1.25"},
        "payeeFspCommission":{"amount":"0.75","currency":"KES"}}"#;
    const BULK_QUOTE: &str = r#"{"individualQuotes":[{"amount":{"currency":"KES","amount":"10.5"}},
        {"amount":{"currency":"KES","amount":"9.5"},"fees":{"currency":"KES","amount":"1.25"}}]}"#;
    const BULK_ANSWER: &str = r#"{"individualQuoteResults":[{"transferAmount":{"currency":"KES","amount":"10.5"}},
        {"payeeReceiveAmount":{"currency":"KES","amount":"9.5"},"payeeFspFee":{"currency":"KES","amount":"1.25"},
        "payeeFspCommission":{"currency":"K\u0045S","amount":"0.75"}}]}"#;
    const FX_QUOTE: &str = r#"{"conversionTerms":{"sourceAmount":{"currency":"KES","amount":"10.5"},
        "targetAmount":{"currency":"UGX"},"charges":[{"chargeType":"x",
        "sourceAmount":{"currency":"KES","amount":"1.25"},"targetAmount":{"currency":"KES","amount":"2.5"}}]}}"#;

    #[test]
    fn every_amount_of_a_quote_is_checked() {
        let mut amounts = 0;
        for (resource, action, body) in [
            (Resource::Quotes, Action::Post, QUOTE),
            (Resource::Quotes, Action::Put, ANSWER),
            (Resource::BulkQuotes, Action::Post, BULK_QUOTE),
            (Resource::BulkQuotes, Action::Put, BULK_ANSWER),
            (Resource::FxQuotes, Action::Post, FX_QUOTE),
            (Resource::FxQuotes, Action::Put, FX_QUOTE),
        ] {
            let is_it = |one: &Operation| (one.resource(), one.action()) == (resource, action);
            let operation = Operation::all().find(is_it).expect("an operation");
            assert_eq!(check_quote(operation, body.as_bytes()), Ok(()), "{body}");
            for (at, amount) in body.match_indices(r#""amount":""#) {
                let at = at + amount.len();
                let finer =
                    format!("{}0.001{}", &body[..at], &body[at + body[at..].find('"').unwrap_or(0)..]);
                let error = check_quote(operation, finer.as_bytes()).expect_err(&finer);
                assert_eq!(error.code, ErrorCode::VALIDATION, "{finer}");
                amounts += 1;
            }
        }
        assert_eq!(amounts, 4 + 4 + 3 + 4 + 3 + 3);
    }
}
