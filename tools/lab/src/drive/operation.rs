//! One operation of each scenario: what is sent, what is waited for, and whether the answer is right.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use upesi_fspiop::{decode_octets, ilp};
use upesi_sim::{
    Coming, ExchangeError, FoundParty, OriginateError, Originator, Outcome, PARTIES_PER_DFSP, PartyId,
    Pending, PendingConversion, Phase, Terms, mix,
};
use upesi_types::{FspId, TransferId};

use crate::observe::tally::{Step, Steps};
use crate::plan::pairs::Pairs;
use crate::plan::scenario::Scenario;

/// Separates the drawing of parties from other draws.
const PARTIES: u64 = 0x7061_7274_7900;

/// How long the requests of one operation waited for their own answers, by [`Phase`]; nothing where none was sent.
pub(crate) type Waits = [Option<Duration>; Phase::ALL.len()];

/// Waits for the answer to a request, and notes for how long.
async fn timed<T>(wait: &mut Option<Duration>, request: impl Future<Output = T>) -> T {
    let sent = Instant::now();
    let answer = request.await;
    *wait = Some(sent.elapsed());
    answer
}

/// What all users of one target share.
pub(crate) struct Generator {
    pub scenario: Scenario,
    pub originator: Originator,
    pub pairs: Pairs,
    pub names: Vec<FspId>,
    /// Over how many parties of each DFSP lookups are spread.
    pub parties: u64,
    /// The first of them: generators that drive the same hub have parties of their own.
    pub parties_from: u64,
    pub secret: Vec<u8>,
    pub callback_timeout: Duration,
    /// Which of so many loads in parallel it serves, and of how many: the numbers of their operations differ.
    pub place: u64,
    pub places: u64,
    pub operations: AtomicU64,
}

impl Generator {
    /// The number of the next operation. Its remainder by the parties that a DFSP can have is the party that it is
    /// about, so that is drawn; the rest counts.
    pub fn next_number(&self) -> u64 {
        self.number(self.operations.fetch_add(1, Ordering::Relaxed))
    }

    /// Of how many transfers an operation that moves money is made.
    pub fn transfers_per_operation(&self) -> u64 {
        if self.scenario == Scenario::Bulks { self.originator.bulk_items() as u64 } else { 1 }
    }

    /// What the operation of that count will be, of those that are to come: its number, payer and payee.
    pub fn coming(&self, count: u64) -> Coming {
        let number = self.number(count);
        let (payer, payee) = self.pairs.of(number);
        (number, payer, payee)
    }

    fn number(&self, count: u64) -> u64 {
        let count = count.wrapping_mul(self.places).wrapping_add(self.place);
        let drawn = match self.scenario {
            // Transfers are about no party. Beside other loads they are numbered like them, so that no two are the
            // same.
            Scenario::Transfers | Scenario::ConvertedTransfers | Scenario::Bulks if self.places == 1 => {
                return count;
            }
            Scenario::Transfers
            | Scenario::ConvertedTransfers
            | Scenario::Bulks
            | Scenario::Quotes
            | Scenario::Parallel => count % self.parties,
            Scenario::Lookups | Scenario::Payments => {
                mix(mix(self.originator.options().seed ^ PARTIES) ^ count) % self.parties
            }
        };
        count.wrapping_mul(PARTIES_PER_DFSP).wrapping_add(self.parties_from + drawn)
    }

    /// Does the operation of that number, to its end or until the user's patience is over.
    pub async fn perform(&self, number: u64) -> (Steps, Waits) {
        let (payer, payee) = self.pairs.of(number);
        let (mut steps, mut waits) = (Steps::default(), Waits::default());
        let [lookup, quote, conversion, transfer] = &mut waits;
        match self.scenario {
            Scenario::Lookups => {
                steps[Phase::Lookup as usize] = self.discover(number, payer, payee, lookup).await;
            }
            Scenario::Quotes => {
                steps[Phase::Quote as usize] = self.agree(number, payer, payee, quote).await.0;
            }
            Scenario::Transfers => {
                let sent = timed(transfer, self.originator.send(number, payer, payee)).await;
                steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
            }
            Scenario::Bulks => {
                let sent = timed(transfer, self.originator.send_bulk(number, payer, payee)).await;
                steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
            }
            Scenario::Payments => self.pay(number, payer, payee, &mut steps, &mut waits).await,
            Scenario::ConvertedTransfers => {
                let asked = timed(conversion, self.originator.convert(number, payer)).await;
                let converted = self.converted(number, asked).await;
                steps[Phase::Conversion as usize] = converted;
                if matches!(converted, Step::Done(_)) {
                    let request = self.originator.send_converted(number, payer, payee);
                    let sent = timed(transfer, request).await;
                    steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
                }
            }
            Scenario::Parallel => unreachable!("each load in parallel has an operation of its own"),
        }
        (steps, waits)
    }

    async fn pay(&self, number: u64, payer: usize, payee: usize, steps: &mut Steps, waits: &mut Waits) {
        let [lookup, quote, _, transfer] = waits;
        let discovered = self.discover(number, payer, payee, lookup).await;
        steps[Phase::Lookup as usize] = discovered;
        if !matches!(discovered, Step::Done(_)) {
            return;
        }
        // The lookup found this payee, or it would not be done.
        let (agreed, terms) = self.agree(number, payer, payee, quote).await;
        steps[Phase::Quote as usize] = agreed;
        if let Some(terms) = terms {
            let request = self.originator.transfer_quoted(number, payer, &self.names[payee], &terms);
            let sent = timed(transfer, request).await;
            steps[Phase::Transfer as usize] = self.outcome(number, sent).await;
        }
    }

    /// Looks the payee's party up.
    pub async fn discover(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
        wait: &mut Option<Duration>,
    ) -> Step {
        let awaiting = match timed(wait, self.originator.lookup(number, payer, payee)).await {
            Ok(awaiting) => awaiting,
            Err(error) => return not_accepted(&error, number),
        };
        let answer = awaiting.answer(self.callback_timeout).await;
        match answer.result {
            Ok(found) if is_the_party(&found, &self.names[payee], &self.originator.party(payee, number)) => {
                Step::Done(answer.at)
            }
            Ok(_) => Step::Wrong,
            Err(error) => not_answered(error),
        }
    }

    /// Asks the payee for terms.
    async fn agree(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
        wait: &mut Option<Duration>,
    ) -> (Step, Option<Terms>) {
        let awaiting = match timed(wait, self.originator.quote(number, payer, payee)).await {
            Ok(awaiting) => awaiting,
            Err(error) => return (not_accepted(&error, number), None),
        };
        let answer = awaiting.answer(self.callback_timeout).await;
        match answer.result {
            Ok(terms) if self.are_the_terms(&terms, &self.originator.quote_id(number)) => {
                (Step::Done(answer.at), Some(terms))
            }
            Ok(_) => (Step::Wrong, None),
            Err(error) => (not_answered(error), None),
        }
    }

    /// Waits until the FXP has fulfilled a conversion.
    async fn converted(&self, number: u64, asked: Result<PendingConversion, OriginateError>) -> Step {
        let pending = match asked {
            Ok(pending) => pending,
            Err(error) => return not_accepted(&error, number),
        };
        match tokio::time::timeout(self.callback_timeout, pending.fulfilled).await {
            Ok(Ok(at)) => Step::Done(at),
            Ok(Err(_)) => Step::Error,
            Err(_) => Step::Late,
        }
    }

    async fn outcome(&self, number: u64, sent: Result<Pending, OriginateError>) -> Step {
        let pending = match sent {
            Ok(pending) => pending,
            Err(error) => return not_accepted(&error, number),
        };
        match tokio::time::timeout(self.callback_timeout, pending.finished).await {
            Ok(Ok(finished)) if finished.outcome == Outcome::Committed => Step::Done(finished.at),
            Ok(_) => Step::Error,
            Err(_) => Step::Late,
        }
    }

    /// Whether terms are those of the quote that was asked for: the amount asked to be sent, and packet and condition
    /// made by the payee for this quote.
    fn are_the_terms(&self, terms: &Terms, quote_id: &TransferId) -> bool {
        let options = self.originator.options();
        if terms.amount != options.amount || terms.currency != options.currency {
            return false;
        }
        let packet = std::str::from_utf8(&terms.ilp_packet).ok();
        let Some(transaction) = packet.and_then(|packet| ilp::decode_transaction(packet).ok()) else {
            return false;
        };
        let condition = std::str::from_utf8(&terms.condition).ok().and_then(decode_octets);
        transaction.contains(&format!("\"{quote_id}\""))
            && condition == Some(ilp::condition_of(&ilp::fulfilment_v4(&self.secret, &transaction)))
    }
}

/// Whether an answer is about the party that was asked for, and names the DFSP that has it.
fn is_the_party(found: &FoundParty, owner: &FspId, party: &PartyId) -> bool {
    let identifier = format!("\"{}\"", party.identifier);
    found.fsp == *owner && found.body.windows(identifier.len()).any(|text| text == identifier.as_bytes())
}

fn not_accepted(error: &OriginateError, number: u64) -> Step {
    tracing::debug!(%error, number, "a request was not accepted");
    match error {
        OriginateError::Refused { .. } => Step::Refused,
        OriginateError::Unanswered(_) => Step::Unanswered,
        OriginateError::Repeated(_) => Step::Repeated,
    }
}

/// Of an accepted request.
fn not_answered(error: ExchangeError) -> Step {
    tracing::debug!(%error, "an operation ended without success");
    match error {
        ExchangeError::Late => Step::Late,
        ExchangeError::Unreadable => Step::Wrong,
        _ => Step::Error,
    }
}

#[cfg(test)]
#[path = "operation_tests.rs"]
pub(crate) mod tests;
