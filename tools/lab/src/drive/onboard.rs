//! Onboards the simulated DFSPs at any compatible hub, through the admin API. Safe to repeat.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use upesi_http::Workers;
use upesi_pki::Trial;
use upesi_sim::{ExchangeError, PartyId, Simulator, transfer_id};
use upesi_types::{Amount, Currency, FspId};

use crate::admin_client::{Account, AdminClient, AdminError};
use crate::drive::operation::Generator;
use crate::observe::tally::Step;

/// Net debit cap and deposit of every DFSP, in whole units of the currency. No run comes near it.
pub const LIQUIDITY: i64 = 10_000_000_000;
/// Maximum time until a deposit is visible. Some hubs book deposits after their answer.
const DEPOSIT_TIMEOUT: Duration = Duration::from_secs(30);
const DEPOSIT_POLL: Duration = Duration::from_millis(50);

/// DFSPs that cannot be onboarded.
#[derive(Debug, thiserror::Error)]
pub enum OnboardError {
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("{0} has no SETTLEMENT account in {1}, although it was registered")]
    NoSettlementAccount(String, Currency),
    #[error("the deposit of {0} was accepted but does not show on its SETTLEMENT account")]
    DepositNotBooked(String),
    #[error("{dfsp} could not register its parties: {reason}")]
    NotRegistered { dfsp: FspId, reason: ExchangeError },
    #[error("the hub's directory does not find party {party} of {dfsp}; is it registered?")]
    NotFound { dfsp: FspId, party: PartyId },
    #[error("the threads of the simulators ended early")]
    Stopped,
}

/// Creates everything that the DFSPs of a simulator need at a hub to pay each other: hub accounts, a settlement model,
/// the DFSPs, their caps, deposits and callback endpoints. Existing objects are not changed; deposits are topped up.
/// Fails if the hub rejects the creation of an object that does not exist.
pub async fn onboard(
    admin: &AdminClient,
    simulator: &Simulator,
    currency: Currency,
    nonce: u64,
) -> Result<(), OnboardError> {
    for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
        hub_account(admin, currency, kind).await?;
    }
    settlement_model(admin, currency).await?;
    for (number, name) in simulator.names().enumerate() {
        let (name, base) = (name.to_string(), simulator.base_url(&name));
        let participant = json!({"name": name, "currency": currency.as_str()});
        let has_currency = async || {
            let accounts = admin.accounts(&name).await?;
            Ok::<_, AdminError>(accounts.iter().any(|account| account.currency == currency.as_str()))
        };
        admin.create_once("/participants", participant.to_string(), has_currency).await?;
        let cap = json!({"currency": currency.as_str(), "initialPosition": 0,
            "limit": {"type": "NET_DEBIT_CAP", "value": LIQUIDITY}});
        let path = format!("/participants/{name}/initialPositionAndLimits");
        let has_cap = async || {
            let capped = admin.capped(&name).await?;
            Ok::<_, AdminError>(capped.iter().any(|capped| capped == currency.as_str()))
        };
        admin.create_once(&path, cap.to_string(), has_cap).await?;
        set_endpoints(admin, &name, &base, &TRANSFER_ENDPOINTS).await?;
        deposit(admin, &name, currency, nonce, number as u64).await?;
    }
    Ok(())
}

/// Binds the DFSPs of a trial to their keys. Fails if the hub rejects one.
pub async fn bind(admin: &AdminClient, trial: &Trial) -> Result<(), AdminError> {
    for (name, binding) in trial.dfsps() {
        let Some((kind, value)) = binding.split_once(':') else { continue };
        let binding = json!({"kind": kind, "value": value});
        admin.create(&format!("/participants/{name}/bindings"), binding.to_string()).await?;
    }
    Ok(())
}

/// Creates a model that settles each transfer in a currency gross, by its commit. Must be called before [`onboard`],
/// which creates a net model. Fails if the hub rejects it, for example because another model governs the currency.
pub async fn settle_gross(admin: &AdminClient, currency: Currency) -> Result<(), AdminError> {
    hub_account(admin, currency, "HUB_MULTILATERAL_SETTLEMENT").await?;
    create_model(admin, currency, ["GROSS", "BILATERAL", "IMMEDIATE"]).await
}

/// Creates an account of the hub, unless it exists.
async fn hub_account(admin: &AdminClient, currency: Currency, kind: &str) -> Result<(), AdminError> {
    let account = json!({"currency": currency.as_str(), "type": kind});
    let exists = async || {
        let accounts = admin.accounts("Hub").await?;
        let is_it = |account: &Account| account.kind == kind && account.currency == currency.as_str();
        Ok::<_, AdminError>(accounts.iter().any(is_it))
    };
    admin.create_once("/participants/Hub/accounts", account.to_string(), exists).await
}

pub const FX_TRANSFER_ENDPOINTS: [(&str, &str); 3] = [
    ("FSPIOP_CALLBACK_URL_FX_TRANSFER_POST", "/fxTransfers"),
    ("FSPIOP_CALLBACK_URL_FX_TRANSFER_PUT", "/fxTransfers/{{commitRequestId}}"),
    ("FSPIOP_CALLBACK_URL_FX_TRANSFER_ERROR", "/fxTransfers/{{commitRequestId}}/error"),
];

pub const BULK_ENDPOINTS: [(&str, &str); 3] = [
    ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST", "/bulkTransfers"),
    ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_PUT", "/bulkTransfers/{{bulkTransferId}}"),
    ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_ERROR", "/bulkTransfers/{{bulkTransferId}}/error"),
];

/// Callback endpoints of transfers: each type, and the path below a DFSP's base URL.
pub const TRANSFER_ENDPOINTS: [(&str, &str); 3] = [
    ("FSPIOP_CALLBACK_URL_TRANSFER_POST", "/transfers"),
    ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "/transfers/{{transferId}}"),
    ("FSPIOP_CALLBACK_URL_TRANSFER_ERROR", "/transfers/{{transferId}}/error"),
];

/// Endpoints for requests and answers: lookups, registrations and quotes.
pub const ANSWER_ENDPOINTS: [(&str, &str); 8] = [
    ("FSPIOP_CALLBACK_URL_PARTIES_GET", "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    ("FSPIOP_CALLBACK_URL_PARTIES_PUT", "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    ("FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR", "/parties/{{partyIdType}}/{{partyIdentifier}}/error"),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_PUT", "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR", "/participants/{{partyIdType}}/{{partyIdentifier}}/error"),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT", "/participants/{{requestId}}"),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT_ERROR", "/participants/{{requestId}}/error"),
    // The user of this endpoint appends the path.
    ("FSPIOP_CALLBACK_URL_QUOTES", ""),
];

/// Sets callback endpoints for the DFSPs of a simulator. Fails if the hub rejects one.
pub async fn set_endpoints_of_all(
    admin: &AdminClient,
    simulator: &Simulator,
    endpoints: &[(&str, &str)],
) -> Result<(), AdminError> {
    for name in simulator.names() {
        set_endpoints(admin, name.as_str(), &simulator.base_url(&name), endpoints).await?;
    }
    Ok(())
}

/// Sets callback endpoints of a DFSP below a base URL. Fails if the hub rejects one.
pub async fn set_endpoints(
    admin: &AdminClient,
    name: &str,
    base: &str,
    endpoints: &[(&str, &str)],
) -> Result<(), AdminError> {
    for (kind, path) in endpoints {
        let endpoint = json!({"type": kind, "value": format!("{base}{path}")});
        admin.create(&format!("/participants/{name}/endpoints"), endpoint.to_string()).await?;
    }
    Ok(())
}

async fn settlement_model(admin: &AdminClient, currency: Currency) -> Result<(), AdminError> {
    match create_model(admin, currency, ["NET", "MULTILATERAL", "DEFERRED"]).await {
        // A hub that was set up by others may have a model of another name for the currency. Some hubs then answer with
        // a plain internal error. The registration of the first DFSP shows whether a model fits.
        Err(AdminError::Refused { status: 500.., .. }) => Ok(()),
        Err(error @ AdminError::Refused { .. }) => {
            let models = admin.models().await.unwrap_or_default();
            let is_governed = models.iter().any(|model| model.currency.as_deref() == Some(currency.as_str()));
            if is_governed { Ok(()) } else { Err(error) }
        }
        other => other,
    }
}

/// Creates the model of a currency, named after delay and granularity, unless it exists.
async fn create_model(
    admin: &AdminClient,
    currency: Currency,
    [granularity, interchange, delay]: [&str; 3],
) -> Result<(), AdminError> {
    let name = format!("{delay}{granularity}{currency}");
    let model = json!({"name": name, "settlementGranularity": granularity,
        "settlementInterchange": interchange, "settlementDelay": delay, "currency": currency.as_str(),
        "requireLiquidityCheck": true, "ledgerAccountType": "POSITION", "settlementAccountType": "SETTLEMENT",
        "autoPositionReset": true});
    let exists = async || Ok::<_, AdminError>(admin.models().await?.iter().any(|model| model.name == name));
    admin.create_once("/settlementModels", model.to_string(), exists).await
}

/// Deposits the amount that is missing to [`LIQUIDITY`].
async fn deposit(
    admin: &AdminClient,
    name: &str,
    currency: Currency,
    nonce: u64,
    number: u64,
) -> Result<(), OnboardError> {
    let missing = || OnboardError::NoSettlementAccount(name.to_owned(), currency);
    let (id, missing_units) = cover_missing(admin, name, currency).await?.ok_or_else(missing)?;
    let Some(amount) = Amount::from_units(missing_units).filter(|amount| *amount > Amount::ZERO) else {
        return Ok(());
    };
    // An integer or a decimal: the text of an amount is a valid JSON number.
    let body = format!(
        r#"{{"transferId":"{}","externalReference":"lab","action":"recordFundsIn","reason":"lab","amount":{{"amount":{amount},"currency":"{currency}"}}}}"#,
        transfer_id(nonce ^ 0x6465_706f_7369_7400, nonce, number)
    );
    admin.create(&format!("/participants/{name}/accounts/{id}"), body).await?;
    let deadline = Instant::now() + DEPOSIT_TIMEOUT;
    while Instant::now() < deadline {
        if cover_missing(admin, name, currency).await?.is_some_and(|(_, missing)| missing <= 0) {
            return Ok(());
        }
        tokio::time::sleep(DEPOSIT_POLL).await;
    }
    Err(OnboardError::DepositNotBooked(name.to_owned()))
}

/// The settlement account of a DFSP, and the missing amount in ten-thousandths.
async fn cover_missing(
    admin: &AdminClient,
    name: &str,
    currency: Currency,
) -> Result<Option<(u64, i64)>, AdminError> {
    let accounts = admin.accounts(name).await?;
    let account =
        accounts.iter().find(|account| account.kind == "SETTLEMENT" && account.currency == currency.as_str());
    // A settlement account shows the available money with a minus sign.
    Ok(account
        .map(|account| (account.id, LIQUIDITY * 10_000 + account.value.map_or(0, |value| value.0.units()))))
}

/// Number of parties in one registration: small enough for the body limits of other hubs.
const BATCH_PARTIES: u64 = 1_000;

/// Registers the parties of every DFSP, unless `is_needed` is false, and looks some of them up. Fails if the hub
/// rejects a registration, or if a lookup returns another DFSP than the party's.
pub(crate) async fn register(
    workers: &Arc<Workers>,
    generator: &Arc<Generator>,
    is_needed: bool,
) -> Result<(), OnboardError> {
    let generator = generator.clone();
    // The simulators' connections belong to their workers.
    let registering = workers.get(0).spawn(async move {
        for dfsp in 0..generator.names.len() {
            register_dfsp(&generator, dfsp, is_needed).await?;
        }
        Ok(())
    });
    registering.await.map_err(|_| OnboardError::Stopped)?
}

async fn register_dfsp(generator: &Generator, dfsp: usize, is_needed: bool) -> Result<(), OnboardError> {
    let (first, end) = (generator.parties_from, generator.parties_from + generator.parties);
    let mut from = first;
    while is_needed && from < end {
        let count = BATCH_PARTIES.min(end - from);
        if register_batch(generator, dfsp, from, count).await? > 0 {
            // Usually the party was registered before. Then its DFSP must be the right one.
            tracing::warn!(dfsp, from, count, "the hub rejected the registration of some parties");
            for number in from..from + count {
                check(generator, dfsp, number).await?;
            }
        }
        from += count;
    }
    check(generator, dfsp, first).await?;
    check(generator, dfsp, end - 1).await
}

/// Registers a batch. Returns the number of rejected parties.
async fn register_batch(
    generator: &Generator,
    dfsp: usize,
    from: u64,
    count: u64,
) -> Result<usize, OnboardError> {
    let not_registered =
        |reason: ExchangeError| OnboardError::NotRegistered { dfsp: generator.names[dfsp], reason };
    let sent = generator.originator.register(dfsp, from, count).await;
    let awaiting = sent.map_err(|error| not_registered(error.into()))?;
    let answer = awaiting.answer(generator.callback_timeout).await;
    Ok(answer.result.map_err(not_registered)?.refused)
}

/// Looks a party up from another DFSP.
async fn check(generator: &Generator, dfsp: usize, number: u64) -> Result<(), OnboardError> {
    let asker = (dfsp + 1) % generator.names.len();
    match generator.discover(number, asker, dfsp, &mut None).await {
        Step::Done(_) => Ok(()),
        _ => Err(OnboardError::NotFound {
            dfsp: generator.names[dfsp],
            party: generator.originator.party(dfsp, number),
        }),
    }
}
