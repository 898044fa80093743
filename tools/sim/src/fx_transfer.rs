//! The FXP's side: an FX provider offers rates from the currency that a DFSP has to the currency that it needs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use upesi_http::{Bytes, HeaderMap, Method, StatusCode};
use upesi_types::{Amount, Money, Timestamp, TransferId};

use crate::books::{OutgoingEvent, OutgoingState};
use crate::condition::Secret;
use crate::counters::count;
use crate::ids::{fault_key, id, id_of, transfer_id};
use crate::message::{self, Family};
use crate::money::{amount_of, currency_of, push_amount};
use crate::originating::{Converting, FxTransferOptions};
use crate::payer::{OriginateError, Originator, OutgoingOrder, PendingTransfer, terms};
use crate::settings::mix;
use crate::settling::settle_outgoing;
use crate::shared::{PayeeFxTransfers, SimulatorState};
use crate::table::Outgoing;
use crate::{money, quoting, reply, scan};

/// Accepts a `POST /fxQuotes` and starts to answer it.
pub(crate) fn take(
    shared: &Arc<SimulatorState>,
    provider: u32,
    headers: &HeaderMap,
    body: &[u8],
) -> StatusCode {
    let dfsp = shared.dfsp(provider);
    let request_id = scan::member(body, b"conversionRequestId").and_then(id);
    let terms = scan::member(body, b"conversionTerms");
    let answer = terms.and_then(|terms| answer_to(&shared.secret, dfsp.settings().fx_rate(), terms));
    let (Some(id), Some(answer)) = (request_id, answer) else {
        count(&dfsp.counters.unreadable);
        return StatusCode::BAD_REQUEST;
    };
    count(&dfsp.counters.fx_quotes_received);
    quoting::offer(shared, provider, Family::FxQuotes, headers, id, answer)
}

/// The answer to conversion terms: the same terms, with the target amount computed from the source amount, and a
/// condition. `None` if a required member is absent or unusable. The answer depends on nothing else, so that a hub sees
/// the answer to a repeated request as a repeated answer.
fn answer_to(secret: &Secret, rate_per_mille: u32, terms: &[u8]) -> Option<Bytes> {
    let fx_transfer_id = id(scan::member(terms, b"conversionId")?)?;
    let (source, target) = (scan::member(terms, b"sourceAmount")?, scan::member(terms, b"targetAmount")?);
    let (sold, bought) = (currency_of(source)?, currency_of(target)?);
    let (told, amount, currency) = match scan::text(scan::member(terms, b"amountType")?)? {
        b"SEND" => (&b"targetAmount"[..], money::bought(amount_of(source)?, rate_per_mille, bought)?, bought),
        b"RECEIVE" => (&b"sourceAmount"[..], money::price(amount_of(target)?, rate_per_mille, sold)?, sold),
        _ => return None,
    };
    let mut body = Vec::with_capacity(terms.len() + 128);
    body.extend_from_slice(b"{\"condition\":\"");
    body.extend_from_slice(&secret.condition(&fx_transfer_id));
    body.extend_from_slice(b"\",\"conversionTerms\":");
    for (index, (name, value)) in scan::members(terms).enumerate() {
        body.extend_from_slice(if index == 0 { b"{\"" } else { b",\"" });
        body.extend_from_slice(name);
        if name == told {
            push_amount(&mut body, "\":", amount, currency);
        } else {
            body.extend_from_slice(b"\":");
            body.extend_from_slice(value);
        }
    }
    body.extend_from_slice(b"}}");
    Some(body.into())
}

/// Separates the ids of FX transfers from other ids.
const FX_TRANSFERS: u64 = 0x636f_6e76_6572_7400;

/// An accepted FX transfer that waits for its fulfilment.
#[derive(Debug)]
pub struct PendingFxTransfer {
    pub id: TransferId,
    /// Receives the time of the FXP's fulfilment. Fails if the FX transfer ended without one.
    pub fulfilled: oneshot::Receiver<Instant>,
}

impl Originator {
    /// Sets the options of FX transfers; `None` if there is no FXP, or the converted amount is zero or too large.
    #[must_use]
    pub fn with_fx_transfers(mut self, options: FxTransferOptions) -> Option<Self> {
        let bought = money::bought(self.options.amount, options.rate_per_mille, options.target);
        let bought = bought.filter(|bought| *bought > Amount::ZERO && !options.fxps.is_empty())?;
        let bought = Money { amount: bought, currency: options.target };
        let fx_transfer = conversion_terms(self.options.money(), bought);
        let transfer_terms = terms(bought, 0);
        self.converting = Some(Converting { options, terms: fx_transfer, transfer_terms });
        Some(self)
    }

    /// Requests from an FXP the FX transfer for transfer `number` of a DFSP (by index), and waits for the 202. Fails if
    /// the hub rejects or does not answer the POST. Panics without [`Originator::with_fx_transfers`].
    pub async fn convert(&self, number: u64, payer: usize) -> Result<PendingFxTransfer, OriginateError> {
        let converting = self.converting();
        let fxps = &converting.options.fxps;
        let (initiator, fxp) = (&self.shared.dfsps[payer], fxps[(number % fxps.len() as u64) as usize]);
        let fxp = &self.shared.dfsps[fxp];
        let (id, now) = (self.fx_transfer_id(number), message::now());
        let transfer = transfer_id(self.options.seed, self.options.nonce, number);
        let body = message::convert_body(
            &id,
            &transfer,
            &initiator.name,
            &fxp.name,
            &converting.terms,
            &self.shared.secret.condition(&id),
            self.expiration(now),
        );
        let (fulfilled_at, fulfilled) = oneshot::channel();
        let mut sending = OutgoingOrder::new(number, id, payer, &fxp.name, self.options.money());
        (sending.outgoing.fulfilled, sending.outgoing.is_fx_transfer) = (Some(fulfilled_at), true);
        let headers = self.headers(Family::FxTransfers, number, initiator, Some(&fxp.name_value), now);
        self.originate(sending, Family::FxTransfers, headers, body).await?;
        Ok(PendingFxTransfer { id, fulfilled })
    }

    /// Sends transfer `number`, which its FX transfer pays. Fails if the hub rejects or does not answer the POST.
    /// Panics without [`Originator::with_fx_transfers`].
    pub async fn send_converted(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
    ) -> Result<PendingTransfer, OriginateError> {
        let Converting { options, transfer_terms, .. } = self.converting();
        let id = transfer_id(self.options.seed, self.options.nonce, number);
        let (payer_dfsp, payee_dfsp) = (&self.shared.dfsps[payer], &self.shared.dfsps[payee]);
        let (headers, body): (_, Bytes) = self.message(number, &id, payer_dfsp, payee_dfsp, transfer_terms);
        // The FXP's position carries the amount.
        let money = Money { amount: Amount::ZERO, currency: options.target };
        let mut sending = OutgoingOrder::new(number, id, payer, &payee_dfsp.name, money);
        sending.outgoing.fx_transfer = Some(self.fx_transfer_id(number));
        self.originate(sending, Family::Transfers, headers, body).await
    }

    pub fn fx_transfer_id(&self, number: u64) -> TransferId {
        transfer_id(mix(self.options.seed ^ FX_TRANSFERS), mix(self.options.nonce ^ FX_TRANSFERS), number)
    }

    fn converting(&self) -> &Converting {
        self.converting.as_ref().expect("an originator of FX transfers")
    }
}

/// The part of an FX transfer's body between the FXP's name and the condition.
fn conversion_terms(source: Money, target: Money) -> Vec<u8> {
    let money = |Money { amount, currency }| format!(r#"{{"amount":"{amount}","currency":"{currency}"}}"#);
    let (source, target) = (money(source), money(target));
    format!(r#"","sourceAmount":{source},"targetAmount":{target},"condition":""#).into()
}

/// Separates the ids of payees' FX transfers from the ids of other FX transfers.
const SALES: u64 = 0x7361_6c65;

/// A payee's FX transfer that sells the amount of a transfer.
pub(crate) struct PayeeFxTransfer {
    id: TransferId,
    transfer: TransferId,
    fxp: usize,
    sold: Money,
    bought: Money,
    expiration: Timestamp,
}

impl PayeeFxTransfer {
    /// The FX transfer; `None` if the transfer is in the payee's currency, or if its amount buys nothing in this
    /// currency.
    pub fn of(shared: &SimulatorState, transfer: TransferId, sold: Money, prepare: &[u8]) -> Option<Self> {
        let PayeeFxTransfers { currency, rate_per_mille, fxps } = shared.payee_fx_transfers.as_ref()?;
        let bought = money::bought(sold.amount, *rate_per_mille, *currency)?;
        if sold.currency == *currency || bought <= Amount::ZERO {
            return None;
        }
        let key = fault_key(&transfer);
        let fxp = *fxps.get(usize::try_from(key % fxps.len().max(1) as u64).ok()?)?;
        let expiration = std::str::from_utf8(scan::text_member(prepare, b"\"expiration\"")?).ok()?;
        let expiration = Timestamp::parse_iso(expiration)?;
        let bought = Money { amount: bought, currency: *currency };
        Some(Self { id: sale_id(&transfer), transfer, fxp, sold, bought, expiration })
    }

    /// Requests the FX transfer, and waits for the FXP's fulfilment. Returns false if it ended without one.
    pub async fn make(&self, shared: &Arc<SimulatorState>, payee: u32, question: &HeaderMap) -> bool {
        let (fulfilled_at, fulfilled) = oneshot::channel();
        let outgoing = Outgoing {
            fulfilled: Some(fulfilled_at),
            is_fx_transfer: true,
            bought: Some(self.bought),
            ..Outgoing::new(payee, self.sold)
        };
        if !shared.table.enter_outgoing(self.id, outgoing) {
            return false;
        }
        shared.dfsp(payee).book().move_outgoing(self.sold, Some(self.bought), None, OutgoingState::Sent);
        // From here on, the FX transfer has the same outcome as the transfer.
        shared.table.with_incoming(&self.transfer, |transfer| transfer.fx_transfer = Some(self.id));
        match self.ask(shared, payee, question).await {
            Some(true) => settle_outgoing(shared, &self.id, OutgoingEvent::Accepted, None),
            Some(false) => settle_outgoing(shared, &self.id, OutgoingEvent::Refused, None),
            None => return false,
        };
        let patience = self.expiration.as_ms() - message::now().as_ms();
        let patience = Duration::from_millis(u64::try_from(patience).unwrap_or(0));
        matches!(tokio::time::timeout(patience, fulfilled).await, Ok(Ok(_)))
    }

    /// Whether the hub accepted the request; `None` if it did not answer.
    async fn ask(&self, shared: &Arc<SimulatorState>, payee: u32, question: &HeaderMap) -> Option<bool> {
        let (initiator, fxp) = (shared.dfsp(payee), &shared.dfsps[self.fxp]);
        let body = message::convert_body(
            &self.id,
            &self.transfer,
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
        let path = Family::FxTransfers.as_str();
        let status = reply::send(shared, payee, Method::POST, path, &headers, &body).await?;
        Some(status.is_success())
    }
}

/// The id of the FX transfer in which a payee sells the amount of a transfer. The half of the id that determines faults
/// depends on the transfer's id.
fn sale_id(transfer: &TransferId) -> TransferId {
    let high = transfer.to_bytes()[1..].first_chunk().map_or(0, |high| u64::from_be_bytes(*high));
    id_of(mix(high ^ SALES), mix(fault_key(transfer) ^ SALES))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use upesi_fspiop::body::parse_fx_quote_response;
    use upesi_types::TransferId;

    use super::*;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";

    fn money(currency: &str, amount: Option<&str>) -> Value {
        match amount {
            Some(amount) => json!({"currency": currency, "amount": amount}),
            None => json!({"currency": currency}),
        }
    }

    fn terms(amount_type: &str, source: Value, target: Value) -> Value {
        json!({"conversionId": ID, "determiningTransferId": ID, "initiatingFsp": "bluebank",
            "counterPartyFsp": "fxmaker", "amountType": amount_type, "sourceAmount": source, "targetAmount": target,
            "expiration": "2030-01-01T00:00:00.000Z", "ownMember": [1, {"a": "}\""}]})
    }

    fn offered(terms: &Value, rate_per_mille: u32) -> Option<Value> {
        let body = answer_to(&Secret::new(b"shared"), rate_per_mille, terms.to_string().as_bytes())?;
        assert!(parse_fx_quote_response(&body).is_ok(), "{body:?}");
        Some(serde_json::from_slice(&body).unwrap())
    }

    #[test]
    fn answer_repeats_the_terms_with_the_computed_amount() {
        for (amount_type, rate_per_mille, (sold, source), (bought, target), paid, got) in [
            ("SEND", 1500, ("XXX", Some("2")), ("XTS", None), "2", "3"),
            ("SEND", 1500, ("XXX", Some("2")), ("XTS", Some("9")), "2", "3"),
            ("SEND", 28_600, ("KES", Some("125.5")), ("UGX", None), "125.5", "3589"),
            ("RECEIVE", 1500, ("XXX", None), ("XTS", Some("3")), "2", "3"),
            ("RECEIVE", 1500, ("XXX", Some("9")), ("XTS", Some("1")), "0.67", "1"),
            ("RECEIVE", 28_600, ("KES", None), ("UGX", Some("3589")), "125.49", "3589"),
        ] {
            let asked = terms(amount_type, money(sold, source), money(bought, target));
            let answer = offered(&asked, rate_per_mille).unwrap();
            let expected = terms(amount_type, money(sold, Some(paid)), money(bought, Some(got)));
            assert_eq!(answer["conversionTerms"], expected, "{asked}");
        }
    }

    #[test]
    fn answer_has_the_condition_of_the_fx_transfer() {
        let answer = offered(&terms("SEND", money("XXX", Some("2")), money("XTS", None)), 1500).unwrap();
        let condition = answer["condition"].as_str().unwrap().as_bytes();
        let id = TransferId::parse(ID).unwrap();
        let secret = Secret::new(b"shared");
        assert_eq!(secret.answer(&id, condition), Some(secret.fulfilment(&id)));
    }

    #[test]
    fn terms_without_a_required_member_are_rejected() {
        let good = terms("SEND", money("XXX", Some("2")), money("XTS", Some("3")));
        for name in ["conversionId", "amountType", "sourceAmount", "targetAmount"] {
            let mut asked = good.clone();
            asked.as_object_mut().unwrap().remove(name);
            assert_eq!(offered(&asked, 1500), None, "{name}");
        }
        for (name, value) in [
            ("conversionId", json!("x")),
            ("amountType", json!("BOTH")),
            ("sourceAmount", money("XXX", None)),
            ("sourceAmount", money("XXX", Some("1.50"))),
            ("sourceAmount", money("xxx", Some("2"))),
            ("sourceAmount", json!("2")),
            ("targetAmount", json!({"amount": "3"})),
            // Larger than the maximum of an amount.
            ("sourceAmount", money("XXX", Some("99999999999999.9999"))),
        ] {
            let mut asked = good.clone();
            asked[name] = value;
            assert_eq!(offered(&asked, 1500), None, "{asked}");
        }
        let not_given = terms("RECEIVE", money("XXX", Some("2")), money("XTS", None));
        assert_eq!(offered(&not_given, 1500), None);
        for text in ["", "[]", "null", "{\"conversionId\":\""] {
            assert_eq!(answer_to(&Secret::new(b"shared"), 1500, text.as_bytes()), None, "{text}");
        }
    }
}
