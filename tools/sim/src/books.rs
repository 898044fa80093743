//! The books that a DFSP keeps of its own transfers, from what it saw with its own eyes.
//!
//! They are independent of the hub: the audit compares the hub's positions with them. A transfer is in exactly one
//! state at a time; the book holds, per currency, the sum of the amounts in each state.

use std::collections::BTreeMap;

use serde::Serialize;
use upesi_types::{Amount, Currency};

/// A transfer as its payer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingState {
    /// The POST is on its way; the hub may or may not have taken it.
    Sent = 0,
    /// The hub answered 202: the amount is reserved until an outcome arrives.
    Accepted = 1,
    /// The callback said COMMITTED.
    Committed = 2,
    /// Refused at once, aborted or expired: the money did not move.
    Aborted = 3,
}

/// A transfer as its payee sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingState {
    /// The POST arrived; no fulfilment has been sent.
    Received = 0,
    /// A right fulfilment is on its way; the hub may or may not have taken it.
    Answered = 1,
    /// The hub took a fulfilment of the RESERVED flavour; its PATCH is awaited.
    AwaitingPatch = 2,
    /// The hub took a fulfilment of the COMMITTED flavour, which the payee calls final.
    Committed = 3,
    /// The hub said COMMITTED itself.
    Confirmed = 4,
    /// Rejected by the payee, or refused, aborted or expired by the hub.
    Aborted = 5,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingEvent {
    Accepted,
    /// The POST was answered with an error: the hub did not take it.
    Refused,
    Committed,
    /// A callback said ABORTED or carried an error.
    Aborted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncomingEvent {
    Answered,
    /// The fulfilment was answered 200 and said COMMITTED.
    AcceptedAsCommitted,
    /// The fulfilment was answered 200 and said RESERVED.
    AcceptedAsReserved,
    /// The fulfilment was answered with an error, or the payee rejects the transfer.
    GivenUp,
    HubCommitted,
    /// A message of the hub said ABORTED or carried an error.
    HubAborted,
}

/// What a message meant to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    First,
    /// It repeated what was known: allowed, since delivery is at least once.
    Repeated,
    /// It contradicts an outcome that was final: a violation.
    Contradiction,
}

impl OutgoingState {
    /// The state after `event`, and what the event meant.
    pub const fn after(self, event: OutgoingEvent) -> (Self, Delivery) {
        use Delivery::{Contradiction, First, Repeated};
        match (self, event) {
            (Self::Sent, OutgoingEvent::Accepted) => (Self::Accepted, First),
            // The callback may overtake the 202.
            (state, OutgoingEvent::Accepted) => (state, Repeated),
            (Self::Sent | Self::Accepted, OutgoingEvent::Committed) => (Self::Committed, First),
            (Self::Sent | Self::Accepted, OutgoingEvent::Aborted | OutgoingEvent::Refused) => {
                (Self::Aborted, First)
            }
            (Self::Committed, OutgoingEvent::Committed) => (self, Repeated),
            (Self::Aborted, OutgoingEvent::Aborted | OutgoingEvent::Refused) => (self, Repeated),
            (Self::Committed, OutgoingEvent::Aborted | OutgoingEvent::Refused)
            | (Self::Aborted, OutgoingEvent::Committed) => (self, Contradiction),
        }
    }

    pub const fn is_final(self) -> bool {
        matches!(self, Self::Committed | Self::Aborted)
    }
}

impl IncomingState {
    /// The state after `event`, and what the event meant.
    pub const fn after(self, event: IncomingEvent) -> (Self, Delivery) {
        use Delivery::{Contradiction, First, Repeated};
        match (self, event) {
            (Self::Received, IncomingEvent::Answered) => (Self::Answered, First),
            (Self::Answered, IncomingEvent::AcceptedAsCommitted) => (Self::Committed, First),
            (Self::Answered, IncomingEvent::AcceptedAsReserved) => (Self::AwaitingPatch, First),
            // Our own bookkeeping may be overtaken by the hub's message.
            (
                state,
                IncomingEvent::Answered
                | IncomingEvent::AcceptedAsCommitted
                | IncomingEvent::AcceptedAsReserved,
            ) => (state, Repeated),
            (Self::Received | Self::Answered, IncomingEvent::GivenUp) => (Self::Aborted, First),
            (state, IncomingEvent::GivenUp) => (state, Repeated),
            (Self::Answered | Self::AwaitingPatch | Self::Committed, IncomingEvent::HubCommitted) => {
                (Self::Confirmed, First)
            }
            (Self::Confirmed, IncomingEvent::HubCommitted) => (Self::Confirmed, Repeated),
            // Nobody but this payee knows the fulfilment.
            (Self::Received | Self::Aborted, IncomingEvent::HubCommitted) => (self, Contradiction),
            // A fulfilment that was taken may still prove to be late: the hub says so with an error.
            (
                Self::Received | Self::Answered | Self::AwaitingPatch | Self::Committed,
                IncomingEvent::HubAborted,
            ) => (Self::Aborted, First),
            (Self::Aborted, IncomingEvent::HubAborted) => (Self::Aborted, Repeated),
            (Self::Confirmed, IncomingEvent::HubAborted) => (Self::Confirmed, Contradiction),
        }
    }

    /// Whether nothing more is needed for the books; the hub may still confirm.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Committed | Self::Confirmed | Self::Aborted)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    outgoing: [Sum; 4],
    incoming: [Sum; 6],
    /// What an FXP gives for conversions, by their states.
    sold: [Sum; 6],
    /// What a payee gives for its conversions, by their states.
    passed_on: [Sum; 4],
    /// What a payee gets for them.
    bought: [Sum; 4],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    units: i128,
    count: i64,
}

/// Moves one amount between two of the sums, or into one.
fn shift(sums: &mut [Sum], amount: Amount, from: Option<usize>, to: usize) {
    if let Some(from) = from {
        sums[from].units -= i128::from(amount.units());
        sums[from].count -= 1;
    }
    sums[to].units += i128::from(amount.units());
    sums[to].count += 1;
}

/// One DFSP's books: sums in ten-thousandths, per currency and state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    pages: BTreeMap<Currency, Page>,
}

/// What the hub's position of a DFSP in one currency must be, by the DFSP's own books.
///
/// `low` and `high` differ only while messages are in flight or were lost on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExpectedPosition {
    /// The least the position may be, in ten-thousandths; positive means that the DFSP owes.
    pub low: i128,
    /// The most it may be.
    pub high: i128,
    /// Of that, reserved for accepted transfers without outcome.
    pub reserved: i128,
    pub paid: i128,
    pub received: i128,
}

impl Book {
    /// Enters an outgoing transfer (`from` absent) or moves it to another state.
    pub fn move_outgoing(
        &mut self,
        currency: Currency,
        amount: Amount,
        from: Option<OutgoingState>,
        to: OutgoingState,
    ) {
        let sums = &mut self.pages.entry(currency).or_default().outgoing;
        shift(sums, amount, from.map(|state| state as usize), to as usize);
    }

    /// Enters an incoming transfer (`from` absent) or moves it to another state.
    pub fn move_incoming(
        &mut self,
        currency: Currency,
        amount: Amount,
        from: Option<IncomingState>,
        to: IncomingState,
    ) {
        let sums = &mut self.pages.entry(currency).or_default().incoming;
        shift(sums, amount, from.map(|state| state as usize), to as usize);
    }

    /// The same for what a conversion gives.
    pub fn move_sold(
        &mut self,
        currency: Currency,
        amount: Amount,
        from: Option<IncomingState>,
        to: IncomingState,
    ) {
        let sums = &mut self.pages.entry(currency).or_default().sold;
        shift(sums, amount, from.map(|state| state as usize), to as usize);
    }

    /// Enters a conversion of what a transfer brings its payee (`from` absent), or moves it to another state.
    pub fn move_sale(
        &mut self,
        (amount, currency): (Amount, Currency),
        (bought, wanted): (Amount, Currency),
        from: Option<OutgoingState>,
        to: OutgoingState,
    ) {
        let (from, to) = (from.map(|state| state as usize), to as usize);
        shift(&mut self.pages.entry(currency).or_default().passed_on, amount, from, to);
        shift(&mut self.pages.entry(wanted).or_default().bought, bought, from, to);
    }

    /// How many outgoing transfers are committed in a currency, and how many movements of payees' conversions.
    pub fn committed_in(&self, currency: Currency) -> u64 {
        let committed = |sums: &[Sum; 4]| sums[OutgoingState::Committed as usize].count.unsigned_abs();
        let page = self.pages.get(&currency);
        page.map_or(0, |page| [page.outgoing, page.passed_on, page.bought].iter().map(committed).sum())
    }

    /// How many conversions of payees have no outcome.
    pub fn sales_open(&self) -> u64 {
        let open = [OutgoingState::Sent, OutgoingState::Accepted];
        let of_page = |page: &Page| open.map(|state| page.passed_on[state as usize].count.unsigned_abs());
        self.pages.values().flat_map(of_page).sum()
    }

    /// How many outgoing transfers are in that state, in all currencies.
    pub fn outgoing_count(&self, state: OutgoingState) -> u64 {
        self.pages.values().map(|page| page.outgoing[state as usize].count.unsigned_abs()).sum()
    }

    /// How many incoming transfers are in that state, in all currencies.
    pub fn incoming_count(&self, state: IncomingState) -> u64 {
        self.pages.values().map(|page| page.incoming[state as usize].count.unsigned_abs()).sum()
    }

    /// The position that a correct hub shows, per currency.
    pub fn expected(&self) -> BTreeMap<Currency, ExpectedPosition> {
        self.pages.iter().map(|(currency, page)| (*currency, page.expected())).collect()
    }
}

impl Page {
    fn expected(&self) -> ExpectedPosition {
        let outgoing = |state: OutgoingState| self.outgoing[state as usize].units;
        let incoming = |state: IncomingState| self.incoming[state as usize].units;
        let sold = |state: IncomingState| self.sold[state as usize].units;
        let passed_on = |state: OutgoingState| self.passed_on[state as usize].units;
        let bought = |state: OutgoingState| self.bought[state as usize].units;
        let paid = outgoing(OutgoingState::Committed)
            + sold(IncomingState::Confirmed)
            + passed_on(OutgoingState::Committed);
        let reserved = outgoing(OutgoingState::Accepted);
        let received = incoming(IncomingState::Committed)
            + incoming(IncomingState::Confirmed)
            + bought(OutgoingState::Committed);
        let certain = paid + reserved - received;
        let unsure = [IncomingState::Answered, IncomingState::AwaitingPatch];
        let unsure_incoming: i128 = unsure.into_iter().map(incoming).sum();
        // For a payee an FXP's amount is reserved before the FXP has answered.
        let unsure_sold: i128 = unsure.into_iter().chain([IncomingState::Received]).map(sold).sum();
        // What a payee sells moves with its transfer.
        let open = [OutgoingState::Sent, OutgoingState::Accepted];
        let unsure_bought: i128 = open.into_iter().map(bought).sum();
        let unsure_passed_on: i128 = open.into_iter().map(passed_on).sum();
        ExpectedPosition {
            low: certain - unsure_incoming - unsure_bought,
            high: certain + outgoing(OutgoingState::Sent) + unsure_sold + unsure_passed_on,
            reserved,
            paid,
            received,
        }
    }
}

#[cfg(test)]
#[path = "books_tests.rs"]
mod tests;
