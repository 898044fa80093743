//! The payer's side: originating transfers and waiting for their callbacks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use upesi_fspiop::ilp;
use upesi_http::{Bytes, HeaderMap, HeaderValue, Method, SendError, StatusCode};
use upesi_types::{FspId, Money, Timestamp, TransferId};

use crate::books::{OutgoingEvent, OutgoingState};
use crate::counters::count;
use crate::dfsp::Dfsp;
use crate::exchange::ExchangeError;
use crate::ids::{fault_key, trace_id, transfer_id};
use crate::message::{self, Family};
use crate::originating::{Bulking, Converting, OriginatorOptions, PaymentOptions};
use crate::settings::{Fault, PER_MILLE_MAX, hits, mix};
use crate::settling::settle_outgoing;
use crate::shared::SimulatorState;
use crate::table::{Finished, Outgoing};

/// Length of a prepare's body without its terms, with the usual short names, in bytes.
const BODY_BESIDE_TERMS_BYTES: usize = 176;
/// Pause between two attempts to send the same POST.
const RESEND_PAUSE: Duration = Duration::from_millis(100);

/// The reason why a request was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum OriginateError {
    /// The hub answered the request with an error. The transfer did not happen.
    #[error("the hub answered the request with {status}")]
    Refused { status: StatusCode, body: Bytes },
    /// The hub did not answer. Only a callback, if one comes, shows whether the transfer happened.
    #[error("no answer to the POST: {0}")]
    Unanswered(#[from] SendError),
    #[error("transfer number {0} was originated before")]
    Repeated(u64),
}

impl From<OriginateError> for ExchangeError {
    fn from(error: OriginateError) -> Self {
        match error {
            OriginateError::Refused { status, .. } => Self::Refused(status),
            OriginateError::Unanswered(_) => Self::Unanswered,
            OriginateError::Repeated(number) => Self::Repeated(number),
        }
    }
}

/// An accepted transfer or bulk transfer that waits for its callback.
#[derive(Debug)]
pub struct PendingTransfer {
    pub id: TransferId,
    /// Receives the outcome and its time. Fails only if the simulator has ended.
    pub finished: oneshot::Receiver<Finished>,
}

/// Sends transfers for the DFSPs of one simulator.
pub struct Originator {
    pub(crate) shared: Arc<SimulatorState>,
    pub(crate) options: OriginatorOptions,
    /// The part of all bodies between the payee's name and the condition.
    pub(crate) terms: Vec<u8>,
    pub(crate) payments: PaymentOptions,
    pub(crate) converting: Option<Converting>,
    pub(crate) bulking: Option<Bulking>,
}

/// The part of all bodies between the payee's name and the condition.
pub(crate) fn terms(moved: Money, note_bytes: usize) -> Vec<u8> {
    message::terms("amount", moved, &packet(moved, note_bytes))
}

/// The packet of all transfers. Each 9 characters of a note become 16, because the note is encoded in base64 twice.
pub(crate) fn packet(moved: Money, note_bytes: usize) -> String {
    let Money { amount, currency } = moved;
    let minor_units = u64::try_from(amount.units() / 100).unwrap_or(0);
    let note =
        if note_bytes == 0 { String::new() } else { format!(",\"note\":\"{}\"", "n".repeat(note_bytes)) };
    let transaction = format!(
        "{{\"amount\":{{\"amount\":\"{amount}\",\"currency\":\"{currency}\"}},\"transactionType\":{{\"initiator\":\"PAYER\",\
         \"initiatorType\":\"CONSUMER\",\"scenario\":\"TRANSFER\"}},\"payee\":{{\"partyIdInfo\":\
         {{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"19012345001\"}}}}{note}}}"
    );
    ilp::encode_packet_v1(minor_units, "g.payee.msisdn.19012345001", &transaction)
}

impl Originator {
    pub(crate) fn over(shared: Arc<SimulatorState>, options: OriginatorOptions) -> Self {
        let terms = terms(options.money(), 0);
        Self { shared, options, terms, payments: PaymentOptions::default(), converting: None, bulking: None }
    }

    /// Lengthens the packet so that the bodies of prepares have about `body_bytes` bytes. They are never shorter than
    /// without it.
    #[must_use]
    pub fn with_body_bytes(mut self, body_bytes: usize) -> Self {
        let missing = body_bytes.saturating_sub(BODY_BESIDE_TERMS_BYTES + self.terms.len());
        self.terms = terms(self.options.money(), missing * 9 / 16);
        self
    }

    pub const fn options(&self) -> &OriginatorOptions {
        &self.options
    }

    /// Sends transfer `number` from one DFSP to another (by index) and waits for the 202, not for the callback. Fails
    /// if the hub rejects or does not answer the POST.
    pub async fn send(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
    ) -> Result<PendingTransfer, OriginateError> {
        let (payer_dfsp, payee_dfsp) = (&self.shared.dfsps[payer], &self.shared.dfsps[payee]);
        let id = transfer_id(self.options.seed, self.options.nonce, number);
        let (headers, body) = self.message(number, &id, payer_dfsp, payee_dfsp, &self.terms);
        let sending = OutgoingOrder::new(number, id, payer, &payee_dfsp.name, self.options.money());
        self.originate(sending, Family::Transfers, headers, body).await
    }

    /// Enters a transfer or FX transfer into the books and sends it until the hub accepts or rejects it. Sends it once
    /// more if the payer's fault setting requires this.
    pub(crate) async fn originate(
        &self,
        sending: OutgoingOrder<'_>,
        family: Family,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<PendingTransfer, OriginateError> {
        let OutgoingOrder { number, id, receiver, mut outgoing } = sending;
        let payer = outgoing.payer as usize;
        let payer_dfsp = &self.shared.dfsps[payer];
        let (waiter, finished) = oneshot::channel();
        outgoing.waiter = Some(waiter);
        let moved = outgoing.moved;
        if !self.shared.table.enter_outgoing(id, outgoing) {
            return Err(OriginateError::Repeated(number));
        }
        payer_dfsp.book().move_outgoing(moved, None, None, OutgoingState::Sent);
        let repeat = Repeat::draw(&self.shared, payer, receiver, family, &id, &headers, &body);
        let sent = self.deliver(payer_dfsp, Method::POST, receiver, family.as_str(), headers, body).await;
        match sent {
            Ok(()) => {
                settle_outgoing(&self.shared, &id, OutgoingEvent::Accepted, None);
                if let Some(repeat) = repeat {
                    repeat.start();
                }
                Ok(PendingTransfer { id, finished })
            }
            Err(error) => {
                if let OriginateError::Refused { .. } = error {
                    settle_outgoing(&self.shared, &id, OutgoingEvent::Refused, None);
                }
                Err(error)
            }
        }
    }

    /// Sends a request until the hub accepts or rejects it, with the repetitions that the options allow.
    pub(crate) async fn deliver(
        &self,
        payer: &Dfsp,
        method: Method,
        payee: &str,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<(), OriginateError> {
        let _under_way = self.shared.rounds.begin();
        let mut resends = self.options.resends_max;
        loop {
            let (headers, body) = (headers.clone(), body.clone());
            match self.shared.send(payer, method.clone(), payee, path, headers, body).await {
                Ok(answer) if answer.status.is_success() => return Ok(()),
                Ok(answer) if !answer.status.is_server_error() || resends == 0 => {
                    return Err(OriginateError::Refused { status: answer.status, body: answer.body });
                }
                Err(error) if resends == 0 => return Err(error.into()),
                _ => tokio::time::sleep(RESEND_PAUSE).await,
            }
            resends -= 1;
        }
    }

    pub(crate) fn message(
        &self,
        number: u64,
        id: &TransferId,
        payer: &Dfsp,
        payee: &Dfsp,
        terms: &[u8],
    ) -> (HeaderMap, Bytes) {
        let now = message::now();
        let ahead = self.shared.signing.as_ref().and_then(|signing| signing.ahead.get());
        let expiration = ahead.map_or_else(|| self.expiration(now), |ahead| ahead.expiration);
        let body = self.body(id, payer, payee, terms, expiration);
        (self.headers(Family::Transfers, number, payer, Some(&payee.name_value), now), body)
    }

    pub(crate) fn body(
        &self,
        id: &TransferId,
        payer: &Dfsp,
        payee: &Dfsp,
        terms: &[u8],
        expiration: Timestamp,
    ) -> Bytes {
        let condition = self.shared.secret.condition(id);
        message::prepare_body(id, &payer.name, &payee.name, terms, &condition, expiration)
    }

    /// The headers of a request, with a trace context if the options require one.
    pub(crate) fn headers(
        &self,
        family: Family,
        number: u64,
        payer: &Dfsp,
        payee: Option<&HeaderValue>,
        at: Timestamp,
    ) -> HeaderMap {
        let mut headers = message::request_headers(family, &payer.name_value, payee, at);
        if self.options.trace {
            headers.insert(message::TRACEPARENT, traceparent(self.options.nonce, number));
        }
        headers
    }

    /// The expiration of a message that is sent at `at`.
    pub(crate) fn expiration(&self, at: Timestamp) -> Timestamp {
        at.plus_ms(i64::try_from(self.options.expiry.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A W3C trace context of version 00, sampled.
fn traceparent(nonce: u64, number: u64) -> HeaderValue {
    let (trace, span) = (trace_id(nonce, number), mix(number) | 1);
    HeaderValue::try_from(format!("00-{trace:032x}-{span:016x}-01"))
        .unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A transfer or FX transfer that is about to be sent.
pub(crate) struct OutgoingOrder<'receiver> {
    pub number: u64,
    pub id: TransferId,
    pub receiver: &'receiver str,
    pub outgoing: Outgoing,
}

impl<'receiver> OutgoingOrder<'receiver> {
    pub fn new(number: u64, id: TransferId, payer: usize, receiver: &'receiver FspId, moved: Money) -> Self {
        let outgoing = Outgoing::new(payer as u32, moved);
        Self { number, id, receiver: receiver.as_str(), outgoing }
    }
}

/// After this time, transfers have usually ended, so that the repeated prepare is about a finished transfer.
const LATER: Duration = Duration::from_millis(500);

/// A prepare that is to be sent again. It is the same transfer, so no book changes.
pub(crate) struct Repeat {
    shared: Arc<SimulatorState>,
    payer: usize,
    payee: String,
    family: Family,
    headers: HeaderMap,
    body: Bytes,
    pause: Duration,
}

impl Repeat {
    /// Draws whether a prepare is sent twice. Half of the repetitions are sent immediately, while the transfer is in
    /// progress, and the others later.
    pub fn draw(
        shared: &Arc<SimulatorState>,
        payer: usize,
        payee: &str,
        family: Family,
        id: &TransferId,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Option<Self> {
        let (per_mille, key) = (shared.dfsps[payer].settings().repeat_prepare_per_mille, fault_key(id));
        let hit = |fault, per_mille| hits(fault, per_mille, shared.seed, key);
        hit(Fault::RepeatPrepare, per_mille).then(|| Self {
            shared: Arc::clone(shared),
            payer,
            payee: payee.to_owned(),
            family,
            headers: headers.clone(),
            body: body.clone(),
            pause: if hit(Fault::RepeatLater, PER_MILLE_MAX / 2) { LATER } else { Duration::ZERO },
        })
    }

    /// Sends it without a waiter, because only the first prepare is measured.
    pub fn start(self) {
        tokio::spawn(self.run());
    }

    async fn run(self) {
        let Self { shared, payer, payee, family, headers, body, pause } = self;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let dfsp = &shared.dfsps[payer];
        match shared.send(dfsp, Method::POST, &payee, family.as_str(), headers, body).await {
            Ok(answer) if answer.status.is_success() => count(&dfsp.counters.prepares_sent_twice),
            // A hub that is overloaded or has ended has received the first prepare, and only that one counts.
            Ok(answer) => tracing::debug!(status = %answer.status, "a repeated prepare was rejected"),
            Err(error) => tracing::debug!(%error, "a repeated prepare was not answered"),
        }
    }
}

#[cfg(test)]
mod tests {
    use upesi_types::{Amount, Currency};

    use super::*;
    use crate::simulator::Simulator;

    #[test]
    fn packet_makes_bodies_of_the_requested_length() {
        let options = OriginatorOptions {
            amount: Amount::parse_wire("2").unwrap(),
            currency: Currency::parse("XXX").unwrap(),
            expiry: Duration::from_secs(60),
            seed: 1,
            nonce: 1,
            trace: true,
            resends_max: 0,
        };
        let workers = upesi_http::Workers::start(1, "sim-test").unwrap();
        let config = crate::SimConfig::new(2, crate::Upstream::Peers);
        let simulator = Simulator::start(config, &workers).unwrap();
        let length = |originator: &Originator| {
            let dfsps = &simulator.shared().dfsps;
            let id = transfer_id(1, 1, 1);
            originator.message(1, &id, &dfsps[0], &dfsps[1], &originator.terms).1.len()
        };
        let natural = length(&Originator::new(&simulator, options.clone()));
        assert_eq!(length(&Originator::new(&simulator, options.clone()).with_body_bytes(10)), natural);
        for wanted in [1_024, 4_096, 16_384, 32_768] {
            let padded = length(&Originator::new(&simulator, options.clone()).with_body_bytes(wanted));
            assert!(
                padded.abs_diff(wanted) <= 40,
                "{padded} bytes instead of {wanted}, {natural} by themselves"
            );
        }
        workers.shutdown();
    }

    #[test]
    fn trace_context_has_the_standard_form() {
        let value = traceparent(1, 2);
        let parts: Vec<_> = value.to_str().unwrap().split('-').map(str::to_owned).collect();
        let lengths: Vec<_> = parts.iter().map(String::len).collect();
        assert_eq!((parts[0].as_str(), lengths), ("00", vec![2, 32, 16, 2]));
    }
}
