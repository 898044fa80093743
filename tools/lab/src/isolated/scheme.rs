//! The scheme that a stream needs: hub accounts, a settlement model, its DFSPs with caps and funds that no stream comes
//! near.

use upesi_engine::{EngineHandle, Payload, SubmitError};
use upesi_ledger::command::{FundsPrepare, NewSettlementModel};
use upesi_ledger::{AdminCommand, Command, EndpointType, FundsDirection, Ledger, LedgerAccountTypeId, Reply};
use upesi_sim::mix;
use upesi_types::{Amount, Currency, FspId, TransferId};

use super::IsolatedError;
use super::stream::{Stream, StreamError};

/// Net debit cap and deposit of every DFSP in every currency, in whole units.
const PLENTY_UNITS: i64 = 100_000_000_000 * 10_000;

/// Who takes part.
#[derive(Clone, Debug)]
pub(crate) struct Scheme {
    dfsps: Vec<FspId>,
    currencies: Vec<Currency>,
    /// Base URL of the DFSPs' endpoints; the DFSP's name follows.
    endpoints: Option<String>,
}

impl Scheme {
    /// That of some DFSPs with one currency.
    pub fn between(dfsps: Vec<FspId>, currency: Currency) -> Self {
        Self { dfsps, currencies: vec![currency], endpoints: None }
    }

    /// That of a stream. With a base URL the DFSPs get transfer endpoints below it.
    pub fn of(stream: &Stream, endpoints: Option<String>) -> Result<Self, IsolatedError> {
        let bad = |what: &str, text: &str| {
            IsolatedError::Stream(StreamError::Message { index: 0, reason: format!("{text} is no {what}") })
        };
        let dfsp = |name: &String| FspId::parse(name).ok_or_else(|| bad("name of a DFSP", name));
        let currency = |code: &String| Currency::parse(code).ok_or_else(|| bad("currency", code));
        Ok(Self {
            dfsps: stream.header.dfsps.iter().map(dfsp).collect::<Result<_, _>>()?,
            currencies: stream.header.currencies.iter().map(currency).collect::<Result<_, _>>()?,
            endpoints,
        })
    }

    /// Everything but the funds.
    pub fn setup(&self) -> Vec<AdminCommand> {
        let plenty = Amount::from_units(PLENTY_UNITS).unwrap_or_default();
        let mut commands = Vec::new();
        for &currency in &self.currencies {
            for kind in ["HUB_MULTILATERAL_SETTLEMENT", "HUB_RECONCILIATION"] {
                let (name, kind) = (hub(), kind.into());
                commands.push(AdminCommand::CreateHubAccount { name, currency, kind });
            }
        }
        commands
            .push(AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("DEFERREDNET", None)));
        for &name in &self.dfsps {
            for &currency in &self.currencies {
                let (net_debit_cap, initial_position) = (plenty, Amount::ZERO);
                commands.push(AdminCommand::CreateParticipant { name, currency, is_proxy: false });
                commands.push(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position });
            }
            commands.extend(self.endpoints_of(name));
        }
        commands
    }

    fn endpoints_of(&self, name: FspId) -> impl Iterator<Item = AdminCommand> {
        let base = self.endpoints.as_ref().map(|base| format!("{base}/{name}"));
        base.into_iter().flat_map(move |base| {
            let kinds = [
                (EndpointType::TRANSFER_POST, "/transfers"),
                (EndpointType::TRANSFER_PUT, "/transfers/{{transferId}}"),
                (EndpointType::TRANSFER_ERROR, "/transfers/{{transferId}}/error"),
            ];
            kinds.map(|(kind, path)| AdminCommand::SetEndpoint {
                name,
                kind,
                value: format!("{base}{path}").into(),
            })
        })
    }

    /// The deposits, once the accounts are there.
    pub fn funds(&self, ledger: &Ledger) -> Vec<AdminCommand> {
        let amount = Amount::from_units(PLENTY_UNITS).unwrap_or_default();
        let pairs =
            self.dfsps.iter().flat_map(|name| self.currencies.iter().map(move |currency| (*name, *currency)));
        let deposit = |(name, currency): (FspId, Currency)| {
            let account =
                ledger.participant_named(&name)?.account(currency, LedgerAccountTypeId::SETTLEMENT)?;
            let mut id = [0; 16];
            id[..8].copy_from_slice(&mix(u64::from(account.number())).to_be_bytes());
            Some(AdminCommand::PrepareFunds(FundsPrepare {
                direction: FundsDirection::In,
                id: TransferId::from_random_bytes(id),
                name,
                account,
                amount,
                currency,
                external_reference: "lab".into(),
                reason: "lab".into(),
                extensions: None,
                fingerprint: [0; 16],
            }))
        };
        pairs.filter_map(deposit).collect()
    }

    /// Sets the scheme up in an engine.
    pub async fn onboard(&self, engine: &EngineHandle) -> Result<(), IsolatedError> {
        submit(engine, self.setup()).await?;
        let scheme = self.clone();
        let funds = engine.read(move |ledger| scheme.funds(ledger)).await.map_err(refused)?;
        submit(engine, funds).await
    }
}

fn hub() -> FspId {
    FspId::parse("Hub").unwrap_or_else(|| unreachable!("a literal name"))
}

fn refused(error: SubmitError) -> IsolatedError {
    IsolatedError::Refused { what: "a question", reason: error.to_string() }
}

async fn submit(engine: &EngineHandle, commands: Vec<AdminCommand>) -> Result<(), IsolatedError> {
    for command in commands {
        let refused = |reason: String| IsolatedError::Refused { what: "an operator's command", reason };
        match engine.submit(Command::Admin(command), Payload::default()).await {
            Ok(Reply::Admin(Ok(_))) => {}
            Ok(Reply::Admin(Err(refusal))) => return Err(refused(upesi_fspiop::refusal::admin(&refusal).1)),
            Ok(other) => return Err(refused(format!("{other:?}"))),
            Err(error) => return Err(refused(error.to_string())),
        }
    }
    Ok(())
}
