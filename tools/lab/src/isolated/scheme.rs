//! The scheme that a stream needs: hub accounts, a settlement model, and its DFSPs with caps and funds that no stream
//! reaches.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use tokio::runtime::Builder;
use upesi_engine::{EngineHandle, EngineMetrics, EngineOptions, Payload, SubmitError};
use upesi_hub::exit::Failure;
use upesi_journal::Durability;
use upesi_ledger::command::{FundsPrepare, NewSettlementModel};
use upesi_ledger::{AdminCommand, Command, EndpointType, FundsDirection, Ledger, LedgerAccountTypeId, Reply};
use upesi_sim::{id_of, mix};
use upesi_types::{Amount, Currency, FspId};

use super::IsolatedError;
use super::flow::{Flow, feed, start_delivering};
use super::source::Source;
use super::stream::{Ready, Stream, StreamError};
use crate::drive::onboard::TRANSFER_ENDPOINTS;
use crate::fill::{Filler, Payloads};
use crate::plan::section::Section;

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

    /// Onboards the scheme at a hub. A hub that has it already rejects each step, which does no harm. Returns the first
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
            first.get_or_insert_with(|| upesi_fspiop::refusal::admin(&refusal).1);
        }
    }
    Ok(first)
}

/// Maximum number of finished transfers in a new directory.
const EXISTING_MAX: usize = 1_000_000_000;
/// Maximum number of finished transfers for which the journal may keep everything.
const KEPT_MAX: usize = 50_000;
/// Fast, and from one thread, because nothing is measured here.
const FLOW: Flow = Flow { submitters: 1, in_flight: 4_096 };

#[derive(Debug)]
pub(super) struct Past {
    pub scheme: Scheme,
    pub existing: usize,
    pub dfsps: usize,
    pub seed: u64,
    /// Prepares after them, which stay reserved.
    pub reserved: Arc<Vec<Ready>>,
}

/// Reads the key `existing`: finished transfers that a hub already has.
pub(super) fn read_existing(keys: &mut Section<'_>, source: &Source) -> usize {
    let existing = keys.size("existing", 0..=EXISTING_MAX).unwrap_or(0);
    if existing > 0 && (source.stream.is_some() || source.is_recorded) {
        keys.mistake(
            "existing transfers are made up between made-up DFSPs: leave existing out, or the stream",
        );
    }
    existing
}

impl Past {
    /// Creates the directory, without a sync and with callbacks delivered. A hub that starts on it finds a snapshot.
    pub fn write(&self, data: &Path) -> Result<(), IsolatedError> {
        let options = EngineOptions {
            durability: Durability::Volatile,
            ledger: super::ledger::config(),
            // With millions of transfers, the journal would be larger than everything else.
            keep_segments: self.existing < KEPT_MAX,
            ..EngineOptions::new(data)
        };
        let (engine, handle) = start_delivering(options, EngineMetrics::default())?;
        let runtime = Builder::new_current_thread().enable_time().build().map_err(IsolatedError::thread)?;
        let refused = |reason| IsolatedError::Refused { what: "an operator's command", reason };
        let onboarded = runtime.block_on(self.scheme.onboard(&handle));
        if let Some(reason) = onboarded.map_err(|error| refused(error.to_string()))? {
            return Err(refused(reason));
        }
        if self.existing > 0 {
            let failed = |failure: Failure| refused(failure.to_string());
            let mut filler =
                Filler::new(handle.clone(), self.dfsps as u64, Payloads::AsInRuns).map_err(failed)?;
            // Ids that differ from those that are measured.
            filler.seed = mix(!self.seed);
            runtime.block_on(filler.fill(0, self.existing as u64)).map_err(failed)?;
        }
        if !self.reserved.is_empty() {
            feed(&handle, &self.reserved, FLOW)?;
        }
        let archive = handle.archive();
        engine.shutdown();
        // Otherwise the next hub on this directory would do it during the measurement.
        archive.map_or(Ok(()), |archive| archive.finish_upkeep())?;
        Ok(())
    }
}

/// Copies a directory tree that is not in use. Fails with the system's error.
pub fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
