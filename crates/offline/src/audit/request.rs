//! A recorded prepare with its request.

use upesi_ledger::{Payload, Transfer};

use super::bodies::{PrepareBody, header};

/// A prepare with the known data of its request.
pub(super) struct Request<'a> {
    pub transfer: &'a Transfer,
    /// Absent if the journal has no body, or if it cannot be parsed.
    pub body: Option<PrepareBody>,
    pub source: Option<&'a str>,
    pub destination: Option<&'a str>,
}

impl<'a> Request<'a> {
    /// The request of a transfer, from the payload in the journal.
    pub fn of(transfer: &'a Transfer, payload: Payload<'a>) -> Self {
        Self {
            transfer,
            body: PrepareBody::read(payload.body),
            source: header(payload.headers, "fspiop-source"),
            destination: header(payload.headers, "fspiop-destination"),
        }
    }

    pub fn units(&self) -> i128 {
        i128::from(self.transfer.amount.units())
    }
}
