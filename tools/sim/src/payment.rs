//! The payer's side of lookups, quotes and whole payments.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use upesi_http::{Bytes, Method};
use upesi_types::{FspId, Money, Timestamp, TransferId};

use crate::awaiting::{Awaiting, WaiterSlot};
use crate::exchange::{ExchangeError, FoundParty, PaymentFailure, PaymentReport, Phase, Terms};
use crate::ids::{trace_id, transfer_id};
use crate::message::{self, Family};
use crate::originating::PaymentOptions;
use crate::party::{PartyId, party_of};
use crate::payer::{OriginateError, Originator, OutgoingOrder, PendingTransfer};
use crate::settings::mix;
use crate::table::{Finished, TransferOutcome};

/// Separates the ids of quotes from the ids of transfers.
const QUOTES: u64 = 0x7175_6f74;

impl Originator {
    /// Sets the options of lookups, quotes and payments.
    #[must_use]
    pub fn with_payments(mut self, payments: PaymentOptions) -> Self {
        self.payments = payments;
        self
    }

    /// The party for `number`: one of the payee in lookups, quotes and payments, one of the payer in quotes.
    pub fn party(&self, dfsp: usize, number: u64) -> PartyId {
        party_of(dfsp, number % self.payments.parties_per_dfsp.max(1))
    }

    /// Looks up the party of `payee` with that number, for `payer`. Returns the hub's acceptance; [`Awaiting::answer`]
    /// waits for the answer. Fails if the hub rejects or does not answer the GET.
    pub async fn lookup(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
    ) -> Result<Awaiting<FoundParty>, OriginateError> {
        let payee_name = self.shared.dfsps[payee].name;
        self.lookup_party(number, payer, &self.party(payee, number), &payee_name).await
    }

    /// Looks up any party. Without a hub, `peer` receives the lookup; with a hub, `peer` has no effect. Fails if the
    /// hub rejects or does not answer the GET.
    pub async fn lookup_party(
        &self,
        number: u64,
        payer: usize,
        party: &PartyId,
        peer: &FspId,
    ) -> Result<Awaiting<FoundParty>, OriginateError> {
        let payer_dfsp = &self.shared.dfsps[payer];
        let headers = self.headers(Family::Parties, number, payer_dfsp, None, message::now());
        let request = Exchange {
            method: Method::GET,
            path: &format!("parties/{party}"),
            answer_path: format!("parties/{}", party.decoded_path()),
            receiver: peer.as_str(),
            headers,
            body: Bytes::new(),
        };
        self.ask(number, payer, request, FoundParty::read).await
    }

    /// Requests a quote from `payee` for paying number `number` to its party of that number. Fails if the hub rejects
    /// or does not answer the POST.
    pub async fn quote(
        &self,
        number: u64,
        payer: usize,
        payee: usize,
    ) -> Result<Awaiting<Terms>, OriginateError> {
        let payee_name = self.shared.dfsps[payee].name;
        self.quote_at(number, payer, &self.party(payee, number), &payee_name).await
    }

    /// Requests a quote for any party of `payee`.
    pub(crate) async fn quote_at(
        &self,
        number: u64,
        payer: usize,
        party: &PartyId,
        payee: &FspId,
    ) -> Result<Awaiting<Terms>, OriginateError> {
        let payer_dfsp = &self.shared.dfsps[payer];
        let now = message::now();
        let quote_id = self.quote_id(number);
        let transaction_id = transfer_id(self.options.seed, self.options.nonce, number);
        let asker = PartyOf { party: &self.party(payer, number), fsp: &payer_dfsp.name };
        let ids = [quote_id, transaction_id];
        let body = self.quote_body(ids, asker, PartyOf { party, fsp: payee }, self.expiration(now));
        let headers =
            self.headers(Family::Quotes, number, payer_dfsp, Some(&message::name_value(payee)), now);
        let request = Exchange {
            method: Method::POST,
            path: "quotes",
            answer_path: format!("quotes/{quote_id}"),
            receiver: payee.as_str(),
            headers,
            body,
        };
        self.ask(number, payer, request, Terms::read).await
    }

    pub fn quote_id(&self, number: u64) -> TransferId {
        transfer_id(mix(self.options.seed ^ QUOTES), mix(self.options.nonce ^ QUOTES), number)
    }

    /// Sends the transfer of a quote, with its amount, packet and condition. Fails if the hub rejects or does not
    /// answer the POST.
    pub async fn transfer_quoted(
        &self,
        number: u64,
        payer: usize,
        payee: &FspId,
        terms: &Terms,
    ) -> Result<PendingTransfer, OriginateError> {
        let payer_dfsp = &self.shared.dfsps[payer];
        let id = transfer_id(self.options.seed, self.options.nonce, number);
        let now = message::now();
        let packet = std::str::from_utf8(&terms.ilp_packet).unwrap_or_default();
        let money = Money { amount: terms.amount, currency: terms.currency };
        let prepared = message::terms("amount", money, packet);
        let expiration = self.expiration(now);
        let body =
            message::prepare_body(&id, &payer_dfsp.name, payee, &prepared, &terms.condition, expiration);
        let headers =
            self.headers(Family::Transfers, number, payer_dfsp, Some(&message::name_value(payee)), now);
        let mut sending = OutgoingOrder::new(number, id, payer, payee, money);
        sending.outgoing.condition = Some(Box::new(terms.condition));
        self.originate(sending, Family::Transfers, headers, body).await
    }

    /// Makes a whole payment: looks the payee's party up, requests a quote from its DFSP, and sends the transfer with
    /// these terms. Times count from `intended`, the intended start.
    pub async fn payment(&self, number: u64, payer: usize, payee: usize, intended: Instant) -> PaymentReport {
        let mut report = PaymentReport {
            number,
            transfer_id: transfer_id(self.options.seed, self.options.nonce, number),
            intended,
            ends: [None; Phase::ALL.len()],
            ended: intended,
            result: Ok(()),
        };
        let mut phase = Phase::Lookup;
        let went = self.pay(&mut report, &mut phase, payer, payee).await;
        report.result = went.map_err(|error| PaymentFailure { phase, error });
        report.ended = match report.result {
            Ok(()) => report.ends[Phase::Transfer as usize].unwrap_or(intended),
            Err(_) => Instant::now(),
        };
        report
    }

    async fn pay(
        &self,
        report: &mut PaymentReport,
        phase: &mut Phase,
        payer: usize,
        payee: usize,
    ) -> Result<(), ExchangeError> {
        let (number, patience) = (report.number, self.payments.callback_timeout);
        let party = self.party(payee, number);
        let asked = self.shared.dfsps[payee].name;
        let found = self.lookup_party(number, payer, &party, &asked).await?.answer(patience).await;
        let owner = found.result?.fsp;
        report.ends[Phase::Lookup as usize] = Some(found.at);

        *phase = Phase::Quote;
        let quoted = self.quote_at(number, payer, &party, &owner).await?.answer(patience).await;
        let terms = quoted.result?;
        report.ends[Phase::Quote as usize] = Some(quoted.at);

        *phase = Phase::Transfer;
        let pending = self.transfer_quoted(number, payer, &owner, &terms).await?;
        let finished = finished(pending.finished, patience).await?;
        match (finished.outcome, finished.error_code) {
            (TransferOutcome::Committed, _) => {
                report.ends[Phase::Transfer as usize] = Some(finished.at);
                Ok(())
            }
            (TransferOutcome::Aborted, Some(code)) => Err(ExchangeError::Code(code)),
            (TransferOutcome::Aborted, None) => Err(ExchangeError::Aborted),
        }
    }

    /// Sends a request whose answer will be a callback.
    pub(crate) async fn ask<T>(
        &self,
        number: u64,
        payer: usize,
        request: Exchange<'_>,
        read: fn(&Bytes) -> Option<T>,
    ) -> Result<Awaiting<T>, OriginateError> {
        let trace = self.options.trace.then(|| trace_id(self.options.nonce, number));
        // The wait starts before the request is sent, because the callback may overtake the 202.
        let place = WaiterSlot::enter(&self.shared, payer as u32, request.answer_path, trace);
        let sent_at = Instant::now();
        let Exchange { method, path, receiver, headers, body, .. } = request;
        let payer = &self.shared.dfsps[payer];
        self.deliver(payer, method, receiver, path, headers, body).await?;
        Ok(Awaiting { sent_at, accepted_at: Instant::now(), place, read })
    }

    fn quote_body(
        &self,
        [quote_id, transaction_id]: [TransferId; 2],
        payer: PartyOf<'_>,
        payee: PartyOf<'_>,
        expiration: Timestamp,
    ) -> Bytes {
        let party = |PartyOf { party, fsp }: PartyOf<'_>| {
            let sub_id = party.sub_id.as_ref();
            let sub_id = sub_id.map_or(String::new(), |text| format!(",\"partySubIdOrType\":\"{text}\""));
            format!(
                "{{\"partyIdInfo\":{{\"partyIdType\":\"{}\",\"partyIdentifier\":\"{}\"{sub_id},\"fspId\":\"{fsp}\"}}}}",
                party.kind, party.identifier
            )
        };
        let (payer, payee) = (party(payer), party(payee));
        let (currency, amount) = (self.options.currency, self.options.amount);
        let amount_type = self.payments.amount_type.text();
        format!(
            "{{\"quoteId\":\"{quote_id}\",\"transactionId\":\"{transaction_id}\",\"payer\":{payer},\"payee\":{payee},\
             \"amountType\":\"{amount_type}\",\"amount\":{{\"currency\":\"{currency}\",\"amount\":\"{amount}\"}},\
             \"transactionType\":{{\"scenario\":\"TRANSFER\",\"initiator\":\"PAYER\",\"initiatorType\":\"CONSUMER\"}},\
             \"expiration\":\"{expiration}\"}}"
        )
        .into()
    }
}

/// A party and its DFSP.
struct PartyOf<'request> {
    party: &'request PartyId,
    fsp: &'request FspId,
}

/// A request and the path of its answer.
pub(crate) struct Exchange<'request> {
    pub method: Method,
    pub path: &'request str,
    pub answer_path: String,
    pub receiver: &'request str,
    pub headers: upesi_http::HeaderMap,
    pub body: Bytes,
}

/// Waits for the end of a transfer.
pub(crate) async fn finished(
    receiver: oneshot::Receiver<Finished>,
    within: Duration,
) -> Result<Finished, ExchangeError> {
    match tokio::time::timeout(within, receiver).await {
        Ok(Ok(finished)) => Ok(finished),
        _ => Err(ExchangeError::Late),
    }
}
