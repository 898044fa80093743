//! The scheme that a stream needs: hub accounts, a settlement model, its DFSPs with caps and funds that no stream comes
//! near.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Builder;
use upesi_engine::{EngineHandle, EngineMetrics, EngineOptions, Payload, SubmitError};
use upesi_journal::Durability;
use upesi_ledger::command::{FundsPrepare, NewSettlementModel};
use upesi_ledger::{AdminCommand, Command, EndpointType, FundsDirection, Ledger, LedgerAccountTypeId, Reply};
use upesi_sim::mix;
use upesi_types::{Amount, Currency, FspId, TransferId};

use super::IsolatedError;
use super::flow::{Flow, feed, start_delivering};
use super::source::Source;
use super::stream::{GenerateOptions, MessageKind, Ready, Stream, StreamError};
use crate::plan::section::Section;

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

/// Most finished transfers that a directory is given.
const EXISTING_MAX: usize = 1_000_000_000;
/// Finished transfers made at a time.
const CHUNK: usize = 50_000;
/// Fast, and from one thread: nothing is measured here.
const FLOW: Flow = Flow { submitters: 1, in_flight: 4_096 };

#[derive(Debug)]
pub(super) struct Past {
    pub scheme: Scheme,
    pub existing: usize,
    pub dfsps: usize,
    pub seed: u64,
    /// What comes after them: prepares that stay reserved.
    pub reserved: Arc<Vec<Ready>>,
}

/// Reads the key `existing`: finished transfers that a hub has behind it.
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
    /// Makes the directory, without a sync, callbacks delivered. What starts on it next finds a snapshot.
    pub fn write(&self, data: &Path) -> Result<(), IsolatedError> {
        let options = EngineOptions {
            durability: Durability::Volatile,
            ledger: super::ledger::config(),
            // Of millions of transfers the journal would be larger than all the rest.
            keep_segments: self.existing < CHUNK,
            ..EngineOptions::new(data)
        };
        let (engine, handle) = start_delivering(options, EngineMetrics::default())?;
        let runtime = Builder::new_current_thread().build().map_err(IsolatedError::thread)?;
        runtime.block_on(self.scheme.onboard(&handle))?;
        self.finish_existing(&handle)?;
        if !self.reserved.is_empty() {
            feed(&handle, &self.reserved, FLOW)?;
        }
        let archive = handle.archive();
        engine.shutdown();
        // Or whoever starts on the directory would do it, while it is measured.
        archive.map_or(Ok(()), |archive| archive.finish_upkeep())?;
        Ok(())
    }

    fn finish_existing(&self, engine: &EngineHandle) -> Result<(), IsolatedError> {
        for (chunk, first) in (0..self.existing).step_by(CHUNK).enumerate() {
            let transfers = CHUNK.min(self.existing - first);
            let stream = Stream::generate(&GenerateOptions {
                transfers,
                dfsps: self.dfsps,
                fulfils: true,
                // Other ids than those that are measured, and than those of the other chunks.
                seed: mix(!self.seed ^ chunk as u64),
                ..GenerateOptions::default()
            })?;
            for kind in [MessageKind::Prepare, MessageKind::Fulfil] {
                feed(engine, &Arc::new(stream.decode(kind, transfers)?), FLOW)?;
            }
        }
        Ok(())
    }
}

/// Copies a directory that no engine is using.
pub(super) fn copy_directory(from: &Path, to: &Path) -> Result<(), IsolatedError> {
    std::fs::create_dir_all(to).map_err(IsolatedError::io("create", to))?;
    for entry in std::fs::read_dir(from).map_err(IsolatedError::io("read", from))? {
        let entry = entry.map_err(IsolatedError::io("read", from))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_directory(&path, &copy)?;
        } else {
            std::fs::copy(&path, &copy).map_err(IsolatedError::io("copy", &path))?;
        }
    }
    Ok(())
}
