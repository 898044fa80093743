//! `upesi sim register` and `upesi sim pay`: a party of a simulated DFSP, and one payment to it.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{Bytes, Full, Method, Pool, PoolConfig, Request, StatusCode, Target, header};
use upesi_lab::cli::messages::millis;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::values::{currency, dfsp_name};
use upesi_types::{Currency, ErrorCode, FspId};

use super::super::pki::SimulatedTrial;
use super::runtime;

const SIMULATORS: &str = "http://127.0.0.1:5000";
/// Address of the DFSPs of a trial.
const SECURE_SIMULATORS: &str = "https://localhost:5000";
/// Time limit of an order, longer than the simulators wait for a payment.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// How to reach the simulated DFSPs.
#[derive(Args, Clone, Debug, Default)]
pub struct SimulatorArguments {
    /// Base URL of the simulated DFSPs [http://127.0.0.1:5000, with --trial https://localhost:5000].
    #[arg(long, value_name = "URL")]
    sim: Option<String>,
    /// Directory of the trial (`upesi pki trial`) with the keys for calls to the simulated DFSPs.
    #[arg(long, value_name = "DIR")]
    trial: Option<PathBuf>,
}

/// Arguments of `upesi sim register`.
#[derive(Args, Clone, Debug)]
pub struct RegisterArguments {
    /// The party's DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub dfsp: FspId,
    /// The party's identifier.
    #[arg(value_name = "PARTY")]
    pub party: String,
    /// Type of the identifier.
    #[arg(long = "type", value_name = "TYPE", default_value = "MSISDN")]
    pub kind: String,
    /// The simulated DFSPs.
    #[command(flatten)]
    pub reach: SimulatorArguments,
}

/// Arguments of `upesi sim pay`.
#[derive(Args, Clone, Debug)]
pub struct PayArguments {
    /// The payer's DFSP.
    #[arg(value_name = "DFSP", value_parser = dfsp_name)]
    pub payer: FspId,
    /// The payee's identifier.
    #[arg(value_name = "PAYEE")]
    pub payee: String,
    /// The amount, such as 12.5.
    #[arg(value_name = "AMOUNT")]
    pub amount: String,
    /// The currency.
    #[arg(value_name = "CURRENCY", value_parser = currency)]
    pub currency: Currency,
    /// Type of the payee's identifier.
    #[arg(long = "type", value_name = "TYPE", default_value = "MSISDN")]
    pub kind: String,
    /// Print the receipt as JSON.
    #[arg(long)]
    pub json: bool,
    /// The simulated DFSPs.
    #[command(flatten)]
    pub reach: SimulatorArguments,
}

/// The receipt of a payment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    lookup: Option<Step>,
    quote: Option<Step>,
    transfer: Option<Transfer>,
    total_us: u64,
    error: Option<Rejection>,
}

#[derive(Deserialize)]
struct Step {
    us: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    transfer_id: String,
    us: Option<u64>,
    state: Option<String>,
}

/// Reason why the hub or a DFSP rejected an order.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rejection {
    phase: String,
    error_code: Option<String>,
    error_description: String,
}

/// The answer to a registration.
#[derive(Deserialize)]
struct Registration {
    error: Option<Rejection>,
}

/// The answer to an order that simulated DFSPs cannot carry out.
#[derive(Deserialize)]
struct OrderError {
    error: String,
}

/// Registers the party at the hub. Fails if the hub rejects it.
pub fn register(arguments: &RegisterArguments) -> Outcome {
    let RegisterArguments { dfsp, party, kind, reach } = arguments;
    let answer = order(reach, *dfsp, "parties", &json!({"idType": kind, "idValue": party}))?;
    match read::<Registration>(&answer)?.error {
        None => write_out(&format!("{kind} {party} is a party of {dfsp}\n")),
        Some(error) => Err(Failure::new(Exit::Failure, explain(&error))),
    }
}

/// Makes the payment. Fails if it was not completed.
pub fn run(arguments: &PayArguments) -> Outcome {
    let PayArguments { payer, payee, amount, currency, kind, json, reach } = arguments;
    let payment = json!({
        "to": {"idType": kind, "idValue": payee},
        "amount": amount,
        "currency": currency.to_string(),
    });
    let answer = order(reach, *payer, "payments", &payment)?;
    let receipt = read::<Receipt>(&answer)?;
    if *json {
        write_out(&String::from_utf8_lossy(&answer))?;
    } else {
        write_out(&in_words(arguments, &receipt))?;
    }
    match &receipt.error {
        None => Ok(()),
        Some(error) => Err(Failure::new(Exit::Failure, explain(error))),
    }
}

/// Sends an order to a simulated DFSP, and returns the answer of any status.
fn order(reach: &SimulatorArguments, dfsp: FspId, what: &str, body: &Value) -> Result<Bytes, Failure> {
    let trial = reach.trial.as_deref().map(SimulatedTrial::open).transpose()?;
    let usual = if trial.is_some() { SECURE_SIMULATORS } else { SIMULATORS };
    let url = reach.sim.as_deref().unwrap_or(usual);
    let unusable = |error: &dyn Display| Failure::new(Exit::Usage, format!("--sim: {error}"));
    let target = Target::parse(url).map_err(|error| unusable(&error))?;
    let request = Request::builder()
        .method(Method::POST)
        .uri(format!("{}/{dfsp}/{what}", target.path.path().trim_end_matches('/')))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.to_string().into()))
        .map_err(|error| unusable(&error))?;
    let config = PoolConfig {
        response_body_bytes_max: ANSWER_BYTES_MAX,
        tls: trial.as_ref().map(SimulatedTrial::caller).transpose()?,
        ..PoolConfig::default()
    };
    let answer = runtime()?.block_on(async {
        Pool::new(target.origin, config).send(request, Instant::now() + ANSWER_TIMEOUT).await
    });
    match answer {
        Ok(answer) if answer.status == StatusCode::NOT_FOUND => {
            Err(Failure::new(Exit::Usage, format!("{url} has no simulated DFSP {dfsp}")))
        }
        Ok(answer) => Ok(answer.body),
        Err(error) => {
            let text = format!("{url}: {error}. Is `upesi sim` running there?");
            Err(Failure::new(Exit::Unavailable, text))
        }
    }
}

/// Reads an answer. If nothing was sent, the answer is an object with the mistake as text.
fn read<T: for<'de> Deserialize<'de>>(answer: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(answer).map_err(|_| {
        let mistake = serde_json::from_slice(answer).map(|OrderError { error }| error);
        let text = mistake.unwrap_or_else(|_| String::from_utf8_lossy(answer).into_owned());
        Failure::new(Exit::Failure, format!("nothing was sent to the hub: {}", text.trim_end()))
    })
}

fn in_words(arguments: &PayArguments, receipt: &Receipt) -> String {
    let PayArguments { payer, payee, amount, currency, kind, .. } = arguments;
    let is_paid = receipt.error.is_none();
    let verb = if is_paid { "paid" } else { "did not pay" };
    let mut text = format!(
        "{payer} {verb} {amount} {currency} to {kind} {payee} in {}\n",
        milliseconds(receipt.total_us)
    );
    let transfer_us = receipt.transfer.as_ref().and_then(|transfer| transfer.us);
    for (name, us) in [
        ("lookup", receipt.lookup.as_ref().map(|step| step.us)),
        ("quote", receipt.quote.as_ref().map(|step| step.us)),
        ("transfer", transfer_us),
    ] {
        if let Some(us) = us {
            text += &format!("  {name:<9}{:>10}\n", milliseconds(us));
        }
    }
    if let Some(transfer) = &receipt.transfer {
        let state = transfer.state.as_deref().unwrap_or("its outcome is unknown");
        text += &format!("  transfer {}: {state}\n", transfer.transfer_id);
    }
    text
}

fn explain(error: &Rejection) -> String {
    let Rejection { phase, error_code, error_description } = error;
    let code = error_code.as_deref().map(|code| format!("{code} ")).unwrap_or_default();
    let is_unknown = phase == "lookup" && error_code == &Some(ErrorCode::PARTY_NOT_FOUND.to_string());
    let remedy = if is_unknown { "\n`upesi sim register` registers a party" } else { "" };
    format!("the {phase} failed: {code}{error_description}{remedy}")
}

fn milliseconds(us: u64) -> String {
    format!("{} ms", millis(Duration::from_micros(us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments() -> PayArguments {
        PayArguments {
            payer: FspId::parse("dfsp-1").unwrap(),
            payee: "260001000000001".to_owned(),
            amount: "12.5".to_owned(),
            currency: Currency::parse("KES").unwrap(),
            kind: "MSISDN".to_owned(),
            json: false,
            reach: SimulatorArguments::default(),
        }
    }

    #[test]
    fn receipt_shows_each_step_and_the_transfer() {
        let receipt = json!({
            "payer": "dfsp-1",
            "lookup": {"us": 1_234, "party": null},
            "quote": {"us": 20_009, "quoteId": "q", "terms": null},
            "transfer": {"us": 5_000, "transferId": "t-1", "state": "COMMITTED"},
            "totalUs": 26_243,
        });
        let receipt = serde_json::from_value(receipt).unwrap();
        assert_eq!(
            in_words(&arguments(), &receipt),
            "dfsp-1 paid 12.5 KES to MSISDN 260001000000001 in 26.24 ms\n  \
             lookup      1.23 ms\n  quote      20.00 ms\n  transfer    5.00 ms\n  transfer t-1: COMMITTED\n"
        );
    }

    #[test]
    fn rejected_payment_names_the_step_and_the_code() {
        let receipt = json!({
            "payer": "dfsp-1",
            "lookup": {"us": 1_000},
            "totalUs": 2_500,
            "error": {"phase": "quote", "errorCode": "3201", "errorDescription": "Destination FSP Error"},
        });
        let receipt: Receipt = serde_json::from_value(receipt).unwrap();
        assert_eq!(
            in_words(&arguments(), &receipt),
            "dfsp-1 did not pay 12.5 KES to MSISDN 260001000000001 in 2.50 ms\n  lookup      1.00 ms\n"
        );
        assert_eq!(explain(receipt.error.as_ref().unwrap()), "the quote failed: 3201 Destination FSP Error");
    }

    #[test]
    fn mistake_in_an_order_is_shown_as_text() {
        for (answer, text) in
            [(r#"{"error":"amount must be positive"}"#, "amount must be positive"), ("gone\n", "gone")]
        {
            let Err(failure) = read::<Registration>(answer.as_bytes()) else { panic!("{answer}") };
            assert_eq!(failure.to_string(), format!("nothing was sent to the hub: {text}"));
        }
    }
}
