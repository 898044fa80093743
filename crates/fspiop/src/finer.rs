//! Amounts with more decimals than their currency, where a scheme rejects them. No bank can hold or move such an
//! amount.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use upesi_types::{Amount, AmountError, Currency, ErrorCode};

use crate::body::{self, ConversionAmount, QuotedMoney};
use crate::{Action, Message, Operation, Resource, SyncError};

impl Message {
    /// Marks the finer amounts of a prepare, of items and of a conversion as unfit, so that they are refused as other
    /// amounts that no ledger holds.
    ///
    /// Errors: 400 with 3100 for an amount of a quote or of its answer.
    pub fn reject_finer_amounts(&mut self, operation: Operation, body: &[u8]) -> Result<(), SyncError> {
        match self {
            Self::Prepare(prepare) => reject(&mut prepare.amount, prepare.currency),
            Self::Conversion(conversion) => {
                for side in [&mut conversion.source, &mut conversion.target] {
                    reject(&mut side.amount, side.currency);
                }
            }
            Self::BulkTransfer(bulk) => {
                for item in bulk.items.items_mut() {
                    reject(&mut item.amount, item.currency);
                }
            }
            _ => return check_quote(operation, body),
        }
        Ok(())
    }
}

fn reject(amount: &mut Result<Amount, (AmountError, Box<str>)>, currency: Currency) {
    if let Ok(found) = *amount
        && !currency.has(found)
    {
        *amount = Err((AmountError::Finer, found.to_string().into()));
    }
}

/// The amounts of quotes are relayed and kept nowhere, so they are read here once more.
fn check_quote(operation: Operation, body: &[u8]) -> Result<(), SyncError> {
    match (operation.resource(), operation.action()) {
        (Resource::Quotes, Action::Post) => check([&body::parse_quote_request(body)?.amount]),
        (Resource::BulkQuotes, Action::Post) => {
            check(body::parse_bulk_quote_request(body)?.quotes.iter().map(|quote| &quote.amount))
        }
        (Resource::FxQuotes, Action::Post) => {
            let terms = body::parse_fx_quote_request(body)?.terms;
            check_sides([&terms.source, &terms.target])
        }
        (Resource::Quotes, Action::Put) => {
            let answer = body::parse_quote_response(body)?;
            check([&answer.transfer_amount].into_iter().chain(&answer.payee_receive_amount))
        }
        (Resource::BulkQuotes, Action::Put) => {
            let answer = body::parse_bulk_quote_response(body)?;
            check(answer.results.iter().filter_map(|result| result.transfer_amount.as_ref()))
        }
        (Resource::FxQuotes, Action::Put) => {
            let terms = body::parse_fx_quote_response(body)?.terms;
            check_sides([&terms.source, &terms.target])
        }
        _ => Ok(()),
    }
}

fn check_sides(sides: [&ConversionAmount<'_>; 2]) -> Result<(), SyncError> {
    let money: Vec<_> = sides
        .into_iter()
        .filter_map(|side| Some(QuotedMoney { currency: side.currency, amount: side.amount.clone()? }))
        .collect();
    check(&money)
}

fn check<'a>(amounts: impl IntoIterator<Item = &'a QuotedMoney<'a>>) -> Result<(), SyncError> {
    for QuotedMoney { currency, amount } in amounts {
        // The other DFSP judges texts that no ledger can hold.
        if Amount::parse_wire(amount).is_ok_and(|found| !currency.has(found)) {
            let detail = format!("Amount {amount} {} {currency}", AmountError::Finer);
            return Err(SyncError::new(ErrorCode::VALIDATION, &detail));
        }
    }
    Ok(())
}
