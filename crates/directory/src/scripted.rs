//! A scripted scheme of DFSPs and oracles for tests, with a record of all sent messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::registry::Registry;
use upesi_delivery::OutgoingRequest;
use upesi_delivery::relayed::{
    ErrorInformation, Relay, RelayConfig, RelayMetrics, Transport, TransportError, TransportFuture,
};
use upesi_delivery::{Accepted, Handler, Request};
use upesi_engine::{Participants, RequestKind, ResponseTimes, SharedParticipants, SystemClock};
use upesi_fspiop::headers::Parties;
use upesi_fspiop::{Action, Message, Method, PartyIdType, Resource, Route, SyncError, Version};
use upesi_http::{Answer, Bytes, HeaderMap, StatusCode};
use upesi_ledger::{
    Account, AccountId, AccountRef, EndpointType, LedgerAccountTypeId, Participant, ParticipantId,
};
use upesi_types::{Amount, Currency, FspId, Timestamp};

use crate::oracle::{
    BatchInquiry, BatchOutcome, Oracle, OracleFailure, OracleFuture, OracleRequest, OracleSource,
};
use crate::{Directory, DirectoryConfig, DirectoryMetrics};
use upesi_parties::party::Owner;

pub(crate) fn fsp(name: &str) -> FspId {
    FspId::parse(name).unwrap()
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Behaviour of a DFSP.
#[derive(Clone, Debug)]
pub(crate) enum DfspBehaviour {
    Answers(u16, &'static str),
    Fails(TransportError),
    Hangs,
}

/// Records sent messages. DFSPs without a script answer 202.
#[derive(Default)]
pub(crate) struct RecordingTransport {
    sent: Mutex<Vec<(ParticipantId, OutgoingRequest)>>,
    manners: Mutex<BTreeMap<ParticipantId, DfspBehaviour>>,
}

impl Transport for RecordingTransport {
    fn send(&self, receiver: ParticipantId, request: OutgoingRequest) -> TransportFuture<'_> {
        lock(&self.sent).push((receiver, request));
        let manner = lock(&self.manners).get(&receiver).cloned();
        Box::pin(async move {
            match manner.unwrap_or(DfspBehaviour::Answers(202, "")) {
                DfspBehaviour::Answers(status, body) => Ok(Answer {
                    status: StatusCode::from_u16(status).unwrap(),
                    headers: HeaderMap::new(),
                    body: Bytes::from_static(body.as_bytes()),
                }),
                DfspBehaviour::Fails(error) => Err(error),
                DfspBehaviour::Hangs => std::future::pending().await,
            }
        })
    }
}

/// Behaviour of an oracle.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// DFSPs with their sub ids.
    Finds(Vec<(&'static str, Option<&'static str>)>),
    /// DFSPs with the currencies that they are registered for.
    FindsIn(Vec<(&'static str, &'static str)>),
    Fails(OracleFailure),
    FailsAfter(Duration, OracleFailure),
    /// The oracle rejects these identifiers of a batch and accepts the others.
    RefusesOfBatch(&'static str, ErrorInformation),
    Hangs,
}

/// An oracle that answers by its script, and records its calls.
pub(crate) struct ScriptedOracle {
    pub(crate) script: Mutex<Script>,
    asked: Mutex<Vec<String>>,
    is_kept_by_hub: bool,
}

impl ScriptedOracle {
    pub(crate) fn new(script: Script, is_kept_by_hub: bool) -> Arc<Self> {
        Arc::new(Self { script: Mutex::new(script), asked: Mutex::default(), is_kept_by_hub })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.asked))
    }

    async fn answer(
        &self,
        operation: &str,
        inquiry: &OracleRequest<'_>,
        owner: Option<FspId>,
    ) -> Result<Script, OracleFailure> {
        let mut line = format!("{operation} {} {}", inquiry.party.kind, inquiry.party.id_text());
        for part in [inquiry.party.sub_id_text().as_deref(), inquiry.currency.as_ref().map(Currency::as_str)]
        {
            line.push(' ');
            line.push_str(part.unwrap_or("-"));
        }
        if let Some(owner) = owner {
            line.push_str(&format!(" for {owner}"));
        }
        self.play(line).await
    }

    async fn play(&self, line: String) -> Result<Script, OracleFailure> {
        lock(&self.asked).push(line);
        let script = lock(&self.script).clone();
        match script {
            Script::Fails(failure) => Err(failure),
            Script::FailsAfter(time, failure) => {
                tokio::time::sleep(time).await;
                Err(failure)
            }
            Script::Hangs => std::future::pending().await,
            script => Ok(script),
        }
    }
}

impl Oracle for ScriptedOracle {
    fn is_kept_by_hub(&self) -> bool {
        self.is_kept_by_hub
    }

    fn find<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, Vec<Owner>> {
        Box::pin(async move {
            let owner = |name, currency: Option<&str>, sub_id: Option<&str>| Owner {
                fsp: fsp(name),
                currency: currency.and_then(Currency::parse),
                sub_id: sub_id.map(Into::into),
            };
            Ok(match self.answer("find", inquiry, None).await? {
                Script::Finds(found) => {
                    found.into_iter().map(|(name, sub_id)| owner(name, None, sub_id)).collect()
                }
                Script::FindsIn(found) => {
                    found.into_iter().map(|(name, currency)| owner(name, Some(currency), None)).collect()
                }
                _ => Vec::new(),
            })
        })
    }

    fn register<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move { self.answer("register", inquiry, Some(owner)).await.map(drop) })
    }

    fn change<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move { self.answer("change", inquiry, Some(owner)).await.map(drop) })
    }

    fn remove<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, ()> {
        Box::pin(async move { self.answer("remove", inquiry, None).await.map(drop) })
    }

    fn register_batch<'a>(&'a self, batch: &'a BatchInquiry<'a>) -> OracleFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let ids: Vec<_> = batch.entries.iter().map(|entry| &*entry.id).collect();
            let line = format!("batch {} {}", batch.entries[0].kind, ids.join(","));
            let script = self.play(line).await?;
            let outcome = |id: &&str| match &script {
                Script::RefusesOfBatch(refused, error) if refused == id => Err(error.clone()),
                _ => Ok(()),
            };
            Ok(ids.iter().map(outcome).collect())
        })
    }
}

/// Oracles by type; other types have none.
#[derive(Default)]
pub(crate) struct ScriptedOracles(pub(crate) BTreeMap<PartyIdType, Arc<ScriptedOracle>>);

impl OracleSource for ScriptedOracles {
    fn oracle(&self, kind: PartyIdType, _currency: Option<Currency>) -> Option<Arc<dyn Oracle>> {
        self.0.get(&kind).map(|oracle| oracle.clone() as Arc<dyn Oracle>)
    }

    fn clear_caches(&self) {}
}

/// A scheme: the payer bluebank; the payees greenbank and redbank; poorbank, which registered no endpoints; and twenty
/// others, bank-0 and so on. bluebank and greenbank have accounts in KES and USD, redbank in EUR, poorbank none, the
/// others in KES.
pub(crate) struct World {
    pub(crate) directory: Directory,
    pub(crate) oracle: Arc<ScriptedOracle>,
    pub(crate) metrics: DirectoryMetrics,
    transport: Arc<RecordingTransport>,
    participants: SharedParticipants,
    pub(crate) responses: ResponseTimes,
}

impl World {
    /// Creates a world with an oracle for MSISDN and BUSINESS.
    pub(crate) fn new(config: DirectoryConfig, oracle: Arc<ScriptedOracle>) -> Self {
        Self::with_relay(config, oracle, RelayConfig::default())
    }

    /// The same, but DFSPs that were not queried may answer.
    pub(crate) fn open(config: DirectoryConfig, oracle: Arc<ScriptedOracle>) -> Self {
        Self::with_relay(config, oracle, RelayConfig { unasked_answers: true, ..RelayConfig::default() })
    }

    fn with_relay(config: DirectoryConfig, oracle: Arc<ScriptedOracle>, relay: RelayConfig) -> Self {
        let by_type = [PartyIdType::Msisdn, PartyIdType::Business].map(|kind| (kind, oracle.clone()));
        Self::with_oracles(config, oracle, Arc::new(ScriptedOracles(by_type.into())), relay)
    }

    pub(crate) fn with_oracles(
        config: DirectoryConfig,
        oracle: Arc<ScriptedOracle>,
        oracles: Arc<dyn OracleSource>,
        relay: RelayConfig,
    ) -> Self {
        let transport = Arc::new(RecordingTransport::default());
        let participants = SharedParticipants::default();
        participants.set(Arc::new(Participants::new(scheme(), &[])));
        let mut registry = Registry::default();
        let metrics = DirectoryMetrics::register(&mut registry);
        let relay = Relay::new(
            relay,
            participants.clone(),
            transport.clone(),
            Arc::new(SystemClock),
            RelayMetrics::register(&mut registry),
        );
        let responses = relay.timed(RequestKind::Lookup).responses;
        let directory = Directory::new(config, relay, oracles, metrics.clone(), Arc::new(|_| {})).unwrap();
        Self { directory, oracle, metrics, transport, participants, responses }
    }

    /// Adds the proxies bridge and tunnel, and the inactive one shut; farbank and farwallet are behind bridge, overseas
    /// is behind tunnel.
    pub(crate) fn add_proxies(&self) {
        let mut all = scheme();
        let template = all[1].clone();
        let mut add = |name: &str, is_proxy: bool| {
            let id = ParticipantId::new(all.len() as u32 + 1).unwrap();
            let endpoints = if is_proxy { endpoints(name) } else { Vec::new() };
            let is_active = name != "shut";
            all.push(Participant { id, name: fsp(name), is_proxy, is_active, endpoints, ..template.clone() });
            id
        };
        let [bridge, tunnel, _] = ["bridge", "tunnel", "shut"].map(|name| add(name, true));
        let behind = [("farbank", bridge), ("farwallet", bridge), ("overseas", tunnel)];
        let behind = behind.map(|(name, proxy)| (add(name, false), proxy));
        self.participants.set(Arc::new(Participants::new(all, &[]).behind(behind.into())));
    }

    /// Adds participants that convert KES to UGX, and some that do so only in part.
    pub(crate) fn add_exchangers(&self, count: usize) {
        let mut all = scheme();
        let names = (0..count).map(|number| format!("fx-{number:02}"));
        let odd = ["fx-idle", "fx-mute", "fx-shut", "fx-wide"].map(str::to_owned);
        for name in names.chain(odd) {
            let id = ParticipantId::new(all.len() as u32 + 1).unwrap();
            let mut endpoints = endpoints(&name);
            let url: Box<str> = format!("http://{name}.example").into();
            endpoints.push((EndpointType::FX_QUOTES, url.clone()));
            if name != "fx-mute" {
                endpoints.push((EndpointType::FX_TRANSFER_POST, url));
            }
            endpoints.sort();
            let (name, is_active) = (fsp(&name), name != "fx-idle");
            all.push(Participant { id, name, is_active, endpoints, ..all[1].clone() });
        }
        let mut accounts = Vec::new();
        for participant in &mut all {
            participant.accounts.clear();
            let currencies = match participant.name.as_str() {
                "Hub" => &[][..],
                "fx-wide" => &["KES", "TZS", "UGX"],
                name if name.starts_with("fx-") => &["KES", "UGX"],
                _ => &["KES"],
            };
            for code in currencies {
                let is_active = (participant.name.as_str(), *code) != ("fx-shut", "UGX");
                let account = position(accounts.len() as u32 + 1, participant.id, code, is_active);
                let Account { id, currency, kind, .. } = account;
                participant.accounts.push(AccountRef { id, currency, kind });
                accounts.push(account);
            }
        }
        self.participants.set(Arc::new(Participants::new(all, &accounts)));
    }

    pub(crate) fn set_manner(&self, name: &str, manner: DfspBehaviour) {
        let id = self.participants.get().named(&fsp(name)).unwrap().id;
        lock(&self.transport.manners).insert(id, manner);
    }

    /// Passes the directory a request, written as in `GET /parties/MSISDN/26097?currency=USD`.
    pub(crate) async fn take(
        &self,
        line: &str,
        source: &str,
        destination: Option<&str>,
        body: &str,
    ) -> Result<Accepted, SyncError> {
        self.directory.handle(request(line, source, destination, body)?).await
    }

    /// Passes a request that came through a proxy.
    pub(crate) async fn take_proxied(
        &self,
        line: &str,
        source: &str,
        destination: Option<&str>,
        body: &str,
    ) -> Result<Accepted, SyncError> {
        let mut request = request(line, source, destination, body)?;
        request.parties.proxied = true;
        self.directory.handle(request).await
    }

    /// Waits until all tasks are idle, and returns the messages sent meanwhile, one line each.
    pub(crate) async fn sent(&self) -> Vec<String> {
        // Time is paused: it advances once all tasks wait.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let sent = std::mem::take(&mut *lock(&self.transport.sent));
        let participants = self.participants.get();
        sent.into_iter().map(|(to, request)| line(&participants, to, &request)).collect()
    }

    /// The requests as they were sent, in full.
    pub(crate) async fn sent_requests(&self) -> Vec<OutgoingRequest> {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let sent = std::mem::take(&mut *lock(&self.transport.sent));
        sent.into_iter().map(|(_, request)| request).collect()
    }
}

fn scheme() -> Vec<Participant> {
    let names = ["Hub", "bluebank", "greenbank", "redbank", "poorbank"].map(str::to_owned);
    let names = names.into_iter().chain((0..20).map(|number| format!("bank-{number}")));
    let accounts = |name: &str| -> Vec<AccountRef> {
        let currencies: &[&str] = match name {
            "Hub" | "poorbank" => &[],
            "bluebank" | "greenbank" => &["KES", "USD"],
            "redbank" => &["EUR"],
            _ => &["KES"],
        };
        let account = |(number, code): (u32, &&str)| AccountRef {
            id: AccountId::new(number).unwrap(),
            currency: Currency::parse(code).unwrap(),
            kind: LedgerAccountTypeId::POSITION,
        };
        (1..).zip(currencies).map(account).collect()
    };
    let participant = |(index, name): (usize, String)| Participant {
        id: ParticipantId::new(index as u32 + 1).unwrap(),
        name: fsp(&name),
        // Lookups ignore whether a participant is active.
        is_active: name != "redbank",
        is_proxy: false,
        created_at: Timestamp::from_ns(0),
        accounts: accounts(&name),
        limits: Vec::new(),
        endpoints: if ["Hub", "poorbank"].contains(&&*name) { Vec::new() } else { endpoints(&name) },
        bindings: Vec::new(),
    };
    names.enumerate().map(participant).collect()
}

fn position(id: u32, participant: ParticipantId, code: &str, is_active: bool) -> Account {
    Account {
        id: AccountId::new(id).unwrap(),
        participant,
        currency: Currency::parse(code).unwrap(),
        kind: LedgerAccountTypeId::POSITION,
        is_active,
        is_opened: true,
        balance: Amount::ZERO,
        pending_credits: Amount::ZERO,
        created_at: Timestamp::from_ns(0),
        changed_at: Timestamp::from_ns(0),
    }
}

fn endpoints(name: &str) -> Vec<(EndpointType, Box<str>)> {
    let party = "{{partyIdType}}/{{partyIdentifier}}";
    let sub = "{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}";
    let templates = [
        (EndpointType::PARTICIPANT_PUT, format!("participants/{party}")),
        (EndpointType::PARTICIPANT_PUT_ERROR, format!("participants/{party}/error")),
        (EndpointType::PARTICIPANT_SUB_ID_PUT, format!("participants/{sub}")),
        (EndpointType::PARTICIPANT_SUB_ID_PUT_ERROR, format!("participants/{sub}/error")),
        (EndpointType::PARTICIPANT_BATCH_PUT, "participants/{{requestId}}".to_owned()),
        (EndpointType::PARTICIPANT_BATCH_PUT_ERROR, "participants/{{requestId}}/error".to_owned()),
        (EndpointType::PARTIES_GET, format!("parties/{party}")),
        (EndpointType::PARTIES_SUB_ID_GET, format!("parties/{sub}")),
        (EndpointType::PARTIES_PUT, format!("parties/{party}")),
        (EndpointType::PARTIES_SUB_ID_PUT, format!("parties/{sub}")),
        (EndpointType::PARTIES_PUT_ERROR, format!("parties/{party}/error")),
        (EndpointType::PARTIES_SUB_ID_PUT_ERROR, format!("parties/{sub}/error")),
        (EndpointType::SERVICES, String::new()),
    ];
    templates.map(|(kind, path)| (kind, format!("http://{name}.example/{path}").into())).into()
}

fn request(line: &str, source: &str, destination: Option<&str>, body: &str) -> Result<Request, SyncError> {
    let (method, target) = line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let Route { operation, segments } = Route::resolve(Method::parse(method), path).unwrap();
    let resource = operation.resource();
    let message = match resource {
        Resource::Participants if operation.action() != Action::PutError => {
            Message::read(operation, body.as_bytes())?
        }
        // The directory needs no content of other bodies.
        _ => Message::Other,
    };
    let mut headers = format!(
        "content-type: application/vnd.interoperability.{}+json;version=1.1\r\n\
         date: Tue, 01 Jan 2030 00:00:00 GMT\r\nfspiop-source: {source}\r\n\
         traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx-own: kept\r\n",
        resource.as_str()
    );
    if let Some(destination) = destination {
        headers.push_str(&format!("fspiop-destination: {destination}\r\n"));
    }
    Ok(Request {
        operation,
        ids: segments.check(resource, true)?,
        query: query.map(Into::into),
        parties: Parties { source: fsp(source), destination: destination.map(fsp), proxied: false },
        version: Some(Version::V1_1),
        message,
        headers: Bytes::from(headers),
        body: Bytes::copy_from_slice(body.as_bytes()),
        reply_to: upesi_engine::ReplyTo::Dfsp,
    })
}

/// `PUT bluebank /parties/MSISDN/26097/error from Hub: 3204 Party not found`
fn line(participants: &Participants, to: ParticipantId, request: &OutgoingRequest) -> String {
    let header = |name: &str| request.headers.get(name).map_or("-", |value| value.to_str().unwrap());
    let receiver = participants.name(to).unwrap();
    assert_eq!(header("fspiop-destination"), receiver.as_str(), "the destination is the receiver");
    let host = participants.proxy_of(to).map_or(receiver, |proxy| proxy.name);
    assert_eq!(request.target.origin.host(), format!("{host}.example"));
    assert!(header("traceparent").starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "the trace continues");
    let mut line =
        format!("{} {receiver} {} from {}", request.method, request.target.path, header("fspiop-source"));
    match ErrorInformation::read(&request.body) {
        Some(error) => line.push_str(&format!(": {} {}", error.code, error.description)),
        None if request.body.is_empty() => {}
        None => line.push_str(&format!(": {}", str::from_utf8(&request.body).unwrap())),
    }
    line
}
