//! The payee as the initiator of a conversion: it sells what a transfer brings it for the currency that it wants,
//! before it fulfils the transfer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use upesi_http::{HeaderMap, Method};
use upesi_types::{Amount, Currency, Timestamp, TransferId};

use crate::books::{OutgoingEvent, OutgoingState};
use crate::converting::conversion_terms;
use crate::message::{self, Family, IdText};
use crate::money;
use crate::payee::fault_key;
use crate::payer::settle_outgoing;
use crate::reply;
use crate::scan;
use crate::settings::mix;
use crate::simulator::Shared;
use crate::table::Outgoing;
use crate::upstream::Resource;

/// Separates the ids of sales from those of other conversions.
const SALES: u64 = 0x7361_6c65;

/// How payees convert what they are paid.
#[derive(Clone, Debug)]
pub struct PayeeConversions {
    /// The currency that payees want: they sell what they are paid in another one.
    pub currency: Currency,
    /// What a thousand units of any other are worth in it.
    pub rate_per_mille: u32,
    /// Indexes of the FXPs, which take turns.
    pub fxps: Vec<usize>,
}

/// What a payee sells of a transfer.
pub(crate) struct Sale {
    id: TransferId,
    transfer: TransferId,
    fxp: usize,
    sold: (Amount, Currency),
    bought: (Amount, Currency),
    expiration: Timestamp,
}

impl Sale {
    /// `None` if the transfer is in the payee's currency, or its amount is worth nothing in it.
    pub fn of(
        shared: &Shared,
        transfer: TransferId,
        sold: (Amount, Currency),
        prepare: &[u8],
    ) -> Option<Self> {
        let PayeeConversions { currency, rate_per_mille, fxps } = shared.payee_conversions.as_ref()?;
        let bought = money::bought(sold.0, *rate_per_mille, *currency)?;
        if sold.1 == *currency || bought <= Amount::ZERO {
            return None;
        }
        let key = fault_key(&transfer);
        let fxp = *fxps.get(usize::try_from(key % fxps.len().max(1) as u64).ok()?)?;
        let expiration = std::str::from_utf8(scan::text_member(prepare, b"\"expiration\"")?).ok()?;
        let expiration = Timestamp::parse_iso(expiration)?;
        Some(Self { id: sale_id(&transfer), transfer, fxp, sold, bought: (bought, *currency), expiration })
    }

    /// Asks the FXP, and waits for its fulfilment; false when the conversion has ended without.
    pub async fn make(&self, shared: &Arc<Shared>, payee: u32, question: &HeaderMap) -> bool {
        let (fulfilled_at, fulfilled) = oneshot::channel();
        let outgoing = Outgoing {
            payer: payee,
            amount: self.sold.0,
            currency: self.sold.1,
            state: OutgoingState::Sent,
            condition: None,
            waiter: None,
            conversion: None,
            fulfilled: Some(fulfilled_at),
            is_conversion: true,
            bought: Some(self.bought),
        };
        if !shared.table.enter_outgoing(self.id, outgoing) {
            return false;
        }
        shared.dfsp(payee).book().move_sale(self.sold, self.bought, None, OutgoingState::Sent);
        // From here on it ends as the transfer does.
        shared.table.with_incoming(&self.transfer, |transfer| transfer.conversion = Some(self.id));
        match self.ask(shared, payee, question).await {
            Some(true) => settle_outgoing(shared, &self.id, OutgoingEvent::Accepted, None),
            Some(false) => settle_outgoing(shared, &self.id, OutgoingEvent::Refused, None),
            None => return false,
        };
        let patience = self.expiration.as_ms() - message::now().as_ms();
        let patience = Duration::from_millis(u64::try_from(patience).unwrap_or(0));
        matches!(tokio::time::timeout(patience, fulfilled).await, Ok(Ok(_)))
    }

    /// Whether the hub took the question; `None` when it did not answer.
    async fn ask(&self, shared: &Arc<Shared>, payee: u32, question: &HeaderMap) -> Option<bool> {
        let (initiator, fxp) = (shared.dfsp(payee), &shared.dfsps[self.fxp]);
        let body = message::convert_body(
            &IdText::new(&self.id),
            &IdText::new(&self.transfer),
            &initiator.name,
            &fxp.name,
            &conversion_terms(self.sold, self.bought),
            &shared.secret.condition(&self.id),
            self.expiration,
        );
        let (source, destination) = (&initiator.name_value, Some(&fxp.name_value));
        let mut headers = message::request_headers(Family::FxTransfers, source, destination, message::now());
        if let Some(trace) = question.get(&message::TRACEPARENT) {
            headers.insert(message::TRACEPARENT, trace.clone());
        }
        let resource = Resource::Other(Family::FxTransfers.name());
        let status = reply::send(shared, (payee, Method::POST), resource, &headers, &body).await?;
        Some(status.is_success())
    }
}

/// The id of the conversion by which the payee of a transfer sells what that brings. The half that faults go by depends
/// on the transfer's.
fn sale_id(transfer: &TransferId) -> TransferId {
    let bytes = transfer.to_bytes();
    let mut high = [0; 8];
    high.copy_from_slice(&bytes[1..9]);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&mix(u64::from_be_bytes(high) ^ SALES).to_be_bytes());
    id[8..].copy_from_slice(&mix(fault_key(transfer) ^ SALES).to_be_bytes());
    TransferId::from_random_bytes(id)
}
