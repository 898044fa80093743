//! Orders: a user's request over HTTP for an action of a DFSP at the hub. The response comes when the action has ended.
//!
//! - `POST /{dfsp}/payments` looks a party up, requests a quote, and sends the transfer.
//! - `POST /{dfsp}/parties` registers a party of the DFSP.
//!
//! Times are whole microseconds. 200: the action succeeded. 400: the order is invalid, and nothing was sent. 502: the
//! hub or another DFSP rejected the action. 504: an answer did not come in time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use upesi_http::{Full, Method, Response, StatusCode};
use upesi_types::{Amount, Currency, ErrorCode, FspId};

use super::service::{JSON, problem, with_body};
use crate::awaited::{error_code, error_description};
use crate::awaiting::Answer;
use crate::exchange::{ExchangeError, Phase};
use crate::originating::{AmountType, OriginatorOptions, PaymentOptions};
use crate::party::{PartyId, owner_of};
use crate::payer::{OriginateError, Originator};
use crate::payment::finished;
use crate::scan;
use crate::shared::SimulatorState;
use crate::table::TransferOutcome;

/// Maximum duration of an order.
const ORDER_DEADLINE: Duration = Duration::from_secs(30);
/// Validity of an order's transfer.
const TRANSFER_EXPIRY: Duration = Duration::from_secs(60);
/// Maximum length of a part of a party's identifier (FSPIOP API v1.1 §7.3.24).
const IDENTIFIER_CHARS_MAX: usize = 128;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PaymentOrder {
    to: NamedParty,
    amount: String,
    currency: String,
    #[serde(default)]
    amount_type: AmountType,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NamedParty {
    id_type: String,
    id_value: String,
    id_sub_value: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RegistrationOrder {
    id_type: String,
    id_value: String,
    id_sub_value: Option<String>,
    currency: Option<String>,
}

/// The result of a payment. Phases that were not reached are absent.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    payer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lookup: Option<Lookup>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quote: Option<Quote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    transfer: Option<Transfer>,
    total_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

#[derive(Debug, Serialize)]
struct Lookup {
    us: u64,
    /// The party object, as its DFSP wrote it.
    party: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Quote {
    us: u64,
    quote_id: String,
    /// The body of the answer, as the payee's DFSP wrote it.
    terms: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    #[serde(skip_serializing_if = "Option::is_none")]
    us: Option<u64>,
    transfer_id: String,
    /// The state according to the callback; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'static str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Registration {
    dfsp: String,
    party: String,
    us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Refusal>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    phase: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    error_description: String,
}

impl Refusal {
    fn new(status: StatusCode, code: Option<ErrorCode>, description: String) -> Self {
        let error_code = code.map(|code| code.to_string());
        // Callers that know the phase set it.
        Self { status, phase: "", error_code, error_description: description }
    }

    /// Reads an error object. If it has no description, `otherwise` supplies it.
    fn of_body(body: &[u8], otherwise: &ExchangeError) -> Self {
        let code = error_code(body);
        let description = error_description(body).map(str::to_owned);
        let description = description.or_else(|| code.map(|code| code.describe("")));
        Self::new(StatusCode::BAD_GATEWAY, code, description.unwrap_or_else(|| otherwise.to_string()))
    }

    /// The error if a callback contained one instead of an answer.
    fn of_answer<T>(answer: Answer<T>) -> Result<(Instant, T), Self> {
        match answer.result {
            Ok(said) => Ok((answer.at, said)),
            Err(ExchangeError::Late) => Err(Self::late()),
            Err(error) => Err(Self::of_body(&answer.body, &error)),
        }
    }

    fn late() -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, None, ExchangeError::Late.to_string())
    }
}

impl From<OriginateError> for Refusal {
    fn from(error: OriginateError) -> Self {
        match error {
            OriginateError::Refused { status, body } => Self::of_body(&body, &ExchangeError::Refused(status)),
            other => Self::new(StatusCode::BAD_GATEWAY, None, other.to_string()),
        }
    }
}

/// Whether a request below the base path of a DFSP is an order.
pub(crate) fn is_order(method: &Method, path: &str) -> bool {
    *method == Method::POST && matches!(path, "payments" | "parties")
}

/// Executes an order on the current worker, and answers when it has ended.
pub(crate) async fn carry_out(
    path: &str,
    shared: &Arc<SimulatorState>,
    dfsp: u32,
    body: &[u8],
) -> Response<Full<Bytes>> {
    let done = match path {
        "payments" => pay(shared, dfsp, body).await,
        _ => register(shared, dfsp, body).await,
    };
    done.unwrap_or_else(|mistake| problem(StatusCode::BAD_REQUEST, &mistake))
}

async fn pay(shared: &Arc<SimulatorState>, payer: u32, body: &[u8]) -> Result<Response<Full<Bytes>>, String> {
    let order: PaymentOrder =
        serde_json::from_slice(body).map_err(|error| format!("the payment cannot be read: {error}"))?;
    let party = order.to.read()?;
    let amount = Amount::parse_wire(&order.amount).ok().filter(|amount| *amount > Amount::ZERO);
    let amount =
        amount.ok_or("amount must be a positive decimal such as \"12.5\", with up to four decimals")?;
    let currency = currency(&order.currency)?;
    let originator = originator(shared, amount, currency, order.amount_type);
    let payment = Payment { originator, number: number(shared), payer: payer as usize, party };
    let began = Instant::now();
    let mut receipt = Receipt { payer: shared.dfsp(payer).name.to_string(), ..Receipt::default() };
    let mut phase = Phase::Lookup;
    let made = tokio::time::timeout(ORDER_DEADLINE, payment.make(&mut receipt, &mut phase, began)).await;
    receipt.error = made.unwrap_or_else(|_| Err(Refusal::late())).err();
    receipt.total_us = us(began.elapsed());
    if let Some(error) = &mut receipt.error {
        error.phase = phase.name();
    }
    Ok(answer(receipt.error.as_ref(), &receipt))
}

struct Payment {
    originator: Originator,
    number: u64,
    payer: usize,
    party: PartyId,
}

impl Payment {
    async fn make(&self, receipt: &mut Receipt, phase: &mut Phase, began: Instant) -> Result<(), Refusal> {
        let Self { originator, number, payer, party } = self;
        let (number, payer) = (*number, *payer);
        let asked = self.peer();
        let found = originator.lookup_party(number, payer, party, &asked).await?;
        let (found_at, found) = Refusal::of_answer(found.answer(ORDER_DEADLINE).await)?;
        let shown = scan::member(&found.body, b"party").and_then(raw);
        receipt.lookup = Some(Lookup { us: us(found_at - began), party: shown });

        *phase = Phase::Quote;
        let quoted = originator.quote_at(number, payer, party, &found.fsp).await?;
        let (quoted_at, terms) = Refusal::of_answer(quoted.answer(ORDER_DEADLINE).await)?;
        let quote_id = originator.quote_id(number).to_string();
        receipt.quote = Some(Quote { us: us(quoted_at - found_at), quote_id, terms: raw(&terms.body) });

        *phase = Phase::Transfer;
        let options = originator.options();
        let transfer_id = crate::transfer_id(options.seed, options.nonce, number).to_string();
        let transfer = receipt.transfer.insert(Transfer { us: None, transfer_id, state: None });
        let pending = originator.transfer_quoted(number, payer, &found.fsp, &terms).await?;
        let ended = finished(pending.finished, ORDER_DEADLINE).await.map_err(|_| Refusal::late())?;
        transfer.us = Some(us(ended.at - quoted_at));
        if ended.outcome == TransferOutcome::Committed {
            transfer.state = Some("COMMITTED");
            return Ok(());
        }
        transfer.state = Some("ABORTED");
        let text =
            ended.error_code.map_or_else(|| ExchangeError::Aborted.to_string(), |code| code.describe(""));
        Err(Refusal::new(StatusCode::BAD_GATEWAY, ended.error_code, text))
    }

    /// The DFSP that receives the lookup if there is no hub.
    fn peer(&self) -> FspId {
        let dfsps = &self.originator.shared.dfsps;
        let by_prefix =
            owner_of(&self.party.kind, &self.party.identifier).and_then(|(dfsp, _)| dfsps.get(dfsp));
        let path = self.party.decoded_path();
        by_prefix
            .or_else(|| dfsps.iter().find(|dfsp| dfsp.has_party(&path)))
            .unwrap_or(&dfsps[self.payer])
            .name
    }
}

async fn register(
    shared: &Arc<SimulatorState>,
    dfsp: u32,
    body: &[u8],
) -> Result<Response<Full<Bytes>>, String> {
    let order: RegistrationOrder =
        serde_json::from_slice(body).map_err(|error| format!("the party cannot be read: {error}"))?;
    let RegistrationOrder { id_type, id_value, id_sub_value, currency: code } = order;
    let party = NamedParty { id_type, id_value, id_sub_value }.read()?;
    let code = code.map(|code| currency(&code)).transpose()?;
    // The originator's own amount does not matter here.
    let any = code.or_else(|| Currency::all().next()).ok_or("the list of currencies is empty")?;
    let originator = originator(shared, Amount::ZERO, any, AmountType::Send);
    let began = Instant::now();
    let registered = tokio::time::timeout(ORDER_DEADLINE, async {
        let accepted = originator.register_party(number(shared), dfsp as usize, &party, code).await?;
        Refusal::of_answer(accepted.answer(ORDER_DEADLINE).await)
    });
    let mut error = registered.await.unwrap_or_else(|_| Err(Refusal::late())).err();
    let dfsp = shared.dfsp(dfsp);
    if error.is_none() && !dfsp.add_party(&party) {
        let text =
            "the hub registered the party, but the simulated DFSP has too many to answer lookups of it";
        error = Some(Refusal::new(StatusCode::INSUFFICIENT_STORAGE, None, text.to_owned()));
    }
    if let Some(error) = &mut error {
        error.phase = "registration";
    }
    let registration = Registration {
        dfsp: dfsp.name.to_string(),
        party: party.to_string(),
        us: us(began.elapsed()),
        error,
    };
    Ok(answer(registration.error.as_ref(), &registration))
}

impl NamedParty {
    fn read(self) -> Result<PartyId, String> {
        let Self { id_type, id_value, id_sub_value } = self;
        for (name, text) in
            [("idType", Some(&id_type)), ("idValue", Some(&id_value)), ("idSubValue", id_sub_value.as_ref())]
        {
            let Some(text) = text else { continue };
            let is_long = text.chars().nth(IDENTIFIER_CHARS_MAX).is_some();
            if text.is_empty()
                || is_long
                || text.contains(|char: char| char.is_control() || "\"\\".contains(char))
            {
                return Err(format!(
                    "{name} must have 1 to {IDENTIFIER_CHARS_MAX} characters, without quotes, backslashes and line breaks"
                ));
            }
        }
        Ok(PartyId { kind: id_type.into(), identifier: id_value, sub_id: id_sub_value })
    }
}

fn currency(code: &str) -> Result<Currency, String> {
    Currency::parse(code).ok_or_else(|| format!("{code} is not an ISO 4217 code in capital letters"))
}

fn number(shared: &SimulatorState) -> u64 {
    shared.orders.next.fetch_add(1, Ordering::Relaxed)
}

fn originator(
    shared: &Arc<SimulatorState>,
    amount: Amount,
    currency: Currency,
    amount_type: AmountType,
) -> Originator {
    let options = OriginatorOptions {
        amount,
        currency,
        expiry: TRANSFER_EXPIRY,
        seed: shared.seed,
        nonce: shared.orders.nonce,
        trace: true,
        resends_max: 0,
    };
    let payments = PaymentOptions { amount_type, ..PaymentOptions::default() };
    Originator::over(shared.clone(), options).with_payments(payments)
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A JSON text as it is; `None` if it is not JSON.
fn raw(text: &[u8]) -> Option<Box<RawValue>> {
    serde_json::from_slice(text).ok()
}

/// A readable answer with one member per line.
fn answer(refusal: Option<&Refusal>, value: &impl Serialize) -> Response<Full<Bytes>> {
    // Cannot fail: all keys of the value are texts.
    let mut body = serde_json::to_vec_pretty(value).unwrap_or_default();
    body.push(b'\n');
    with_body(refusal.map_or(StatusCode::OK, |refusal| refusal.status), JSON, body)
}
