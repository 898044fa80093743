//! Checks whether the participants of a message may send and receive it. Rejections are sent as error callbacks.

use upesi_delivery::Request;
use upesi_delivery::relayed::ErrorInformation;
use upesi_engine::Participants;
use upesi_fspiop::headers::{Block, check_no_accept};
use upesi_fspiop::message::QuoteContent;
use upesi_types::{Currency, ErrorCode, FspId};

use crate::reading::Ask;

/// Checks the participants in Mojaloop's order; the first failure is returned.
pub(crate) fn check(
    request: &Request,
    destination: &FspId,
    ask: &Ask,
    participants: &Participants,
) -> Result<(), ErrorInformation> {
    let parties = Parties { source: &request.parties.source, destination, participants };
    match ask {
        Ask::Quote(ask) => parties.check_quote(ask),
        Ask::Bulk { currency, .. } => parties.check_bulk(*currency),
        Ask::Fx { source, target, .. } => parties.check_fx_quote([*source, *target]),
        Ask::Response(currency) => {
            check_no_accept(&Block(&request.headers)).map_err(|refusal| ErrorInformation {
                code: refusal.code,
                description: refusal.description,
            })?;
            match currency {
                Some(currency) => {
                    parties.require(&request.parties.source, &[*currency], ErrorCode::DESTINATION_FSP)
                }
                None => Ok(()),
            }
        }
        Ask::PassOn | Ask::Error => Ok(()),
    }
}

struct Parties<'a> {
    source: &'a FspId,
    destination: &'a FspId,
    participants: &'a Participants,
}

impl Parties<'_> {
    /// A payer that names currencies may pay in any of them (FSPIOP API v2.0). Then its accounts decide, and the payee
    /// needs no account in the currency of the amount.
    fn check_quote(&self, ask: &QuoteContent) -> Result<(), ErrorInformation> {
        self.require(self.source, &ask.payer_currencies, ErrorCode::PAYER_FSP_NOT_FOUND)?;
        let of_payee = if ask.payer_currencies.is_empty() { &[ask.currency][..] } else { &[] };
        self.require(self.destination, of_payee, ErrorCode::DESTINATION_FSP)?;
        if let Some(payer) = ask.payer_fsp.as_ref().filter(|payer| *payer != self.source) {
            self.require(payer, &[ask.currency], ErrorCode::PAYER_FSP_NOT_FOUND)?;
        }
        if let Some(payee) = ask.payee_fsp.as_ref().filter(|payee| *payee != self.destination) {
            self.require(payee, &[ask.currency], ErrorCode::DESTINATION_FSP)?;
        }
        Ok(())
    }

    fn check_bulk(&self, currency: Currency) -> Result<(), ErrorInformation> {
        self.require(self.source, &[currency], ErrorCode::PAYER_FSP_NOT_FOUND)?;
        self.require(self.destination, &[currency], ErrorCode::DESTINATION_FSP)
    }

    fn check_fx_quote(&self, currencies: [Currency; 2]) -> Result<(), ErrorInformation> {
        self.require(self.source, &[], ErrorCode::PAYER_FSP_NOT_FOUND)?;
        self.require(self.destination, &currencies, ErrorCode::VALIDATION)
    }

    /// The participant must be active, with an active position account in each of the currencies.
    fn require(
        &self,
        name: &FspId,
        currencies: &[Currency],
        refusal: ErrorCode,
    ) -> Result<(), ErrorInformation> {
        let found = self.participants.named(name).filter(|found| found.is_active);
        let qualifies = found.is_some_and(|found| {
            currencies.iter().all(|currency| self.participants.may_transact(found, *currency))
        });
        if qualifies {
            return Ok(());
        }
        Err(ErrorInformation::new(refusal, &format!("Unsupported participant '{name}'")))
    }
}
