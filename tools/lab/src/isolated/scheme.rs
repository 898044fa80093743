//! The scheme that a stream needs: hub accounts, a settlement model, and its DFSPs with caps and funds that no stream
//! exceeds.

use upesi_engine::{EngineHandle, Payload, SubmitError};
use upesi_ledger::command::{FundsPrepare, NewSettlementModel};
use upesi_ledger::{AdminCommand, Command, EndpointType, FundsDirection, Ledger, LedgerAccountTypeId, Reply};
use upesi_sim::{id_of, mix};
use upesi_types::{Amount, Currency, FspId};

use super::IsolatedError;
use super::stream::{Stream, StreamError};
use crate::drive::onboard::TRANSFER_ENDPOINTS;

/// Net debit cap and deposit of every DFSP in every currency, in whole units.
const PLENTY_UNITS: i64 = 100_000_000_000 * 10_000;

/// The participants of a scheme.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub dfsps: Vec<FspId>,
    pub currencies: Vec<Currency>,
    /// Base URL of the DFSPs' endpoints; the DFSP's name follows.
    pub endpoints: Option<String>,
}

impl Scheme {
    pub fn between(dfsps: Vec<FspId>, currency: Currency) -> Self {
        Self { dfsps, currencies: vec![currency], endpoints: None }
    }

    /// The scheme of a stream. With a base URL the DFSPs get transfer endpoints below it.
    pub fn of(stream: &Stream, endpoints: Option<String>) -> Result<Self, IsolatedError> {
        let bad = |what: &str, text: &str| {
            IsolatedError::Stream(StreamError::Message {
                index: 0,
                reason: format!("{text} is not a valid {what}"),
            })
        };
        let dfsp = |name: &String| FspId::parse(name).ok_or_else(|| bad("name of a DFSP", name));
        let currency = |code: &String| Currency::parse(code).ok_or_else(|| bad("currency", code));
        Ok(Self {
            dfsps: stream.header.dfsps.iter().map(dfsp).collect::<Result<_, _>>()?,
            currencies: stream.header.currencies.iter().map(currency).collect::<Result<_, _>>()?,
            endpoints,
        })
    }

    /// All commands except the funds.
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
            TRANSFER_ENDPOINTS.into_iter().filter_map(move |(kind, path)| {
                let value = format!("{base}{path}").into();
                Some(AdminCommand::SetEndpoint { name, kind: EndpointType::parse(kind)?, value })
            })
        })
    }

    /// The deposits, once the accounts exist.
    pub fn funds(&self, ledger: &Ledger) -> Vec<AdminCommand> {
        let amount = Amount::from_units(PLENTY_UNITS).unwrap_or_default();
        let pairs =
            self.dfsps.iter().flat_map(|name| self.currencies.iter().map(move |currency| (*name, *currency)));
        let deposit = |(name, currency): (FspId, Currency)| {
            let account =
                ledger.participant_named(&name)?.account(currency, LedgerAccountTypeId::SETTLEMENT)?;
            Some(AdminCommand::PrepareFunds(FundsPrepare {
                direction: FundsDirection::In,
                id: id_of(mix(account.number().into()), 0),
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

    /// Onboards the scheme at a hub. A hub that already has it rejects each step, without effect. Returns the first
    /// rejection in words. Fails if the engine does not accept a step.
    pub async fn onboard(&self, engine: &EngineHandle) -> Result<Option<String>, SubmitError> {
        let first = submit(engine, self.setup()).await?;
        let scheme = self.clone();
        let funds = engine.read(move |ledger| scheme.funds(ledger)).await?;
        Ok(first.or(submit(engine, funds).await?))
    }
}

fn hub() -> FspId {
    FspId::parse("Hub").unwrap_or_else(|| unreachable!("a literal name"))
}

async fn submit(engine: &EngineHandle, commands: Vec<AdminCommand>) -> Result<Option<String>, SubmitError> {
    let mut first = None;
    for command in commands {
        let reply = engine.submit(Command::Admin(command), Payload::default()).await?;
        if let Reply::Admin(Err(refusal)) = reply {
            first.get_or_insert_with(|| upesi_admin::rejection::describe(&refusal));
        }
    }
    Ok(first)
}
