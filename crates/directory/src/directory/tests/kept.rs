//! Tests with the built-in directory, and with the registry of oracles in a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use upesi_delivery::relayed::RelayConfig;
use upesi_fspiop::PartyIdType;
use upesi_http::Schemes;
use upesi_journal::{AppendedBatch, Appender, Batch, JournalError, Maintenance, Writer};
use upesi_tables::store::{Store, StoreEnd, StoreFollower, StoreOptions};
use upesi_types::{Currency, ErrorCode, Timestamp};

use crate::oracle::{BuiltInOracle, OracleSource, RegisteredOracles};
use crate::scripted::{Script, ScriptedOracle, World};
use crate::{DirectoryConfig, DirectoryMetrics, OracleConfig};
use upesi_parties::builtin::{BuiltInDirectory, BuiltInOptions};
use upesi_parties::registry::{OracleChange, OracleRegistry, OracleSpec};

/// A journal that another node has taken over, if the flag is set.
struct Elsewhere(Writer, Arc<AtomicBool>);

impl Elsewhere {
    fn check(&self) -> Result<(), JournalError> {
        let is_elsewhere = self.1.load(Ordering::Acquire);
        if is_elsewhere { Err(JournalError::Superseded { by: "node-2".to_owned() }) } else { Ok(()) }
    }
}

impl Appender for Elsewhere {
    fn append(&mut self, batch: &mut Batch) -> Result<AppendedBatch, JournalError> {
        self.check()?;
        self.0.append(batch)
    }

    fn confirm(&mut self) -> Result<(), JournalError> {
        self.check()
    }

    fn reserve(&mut self, body_bytes: u64) -> Result<(), JournalError> {
        self.0.reserve(body_bytes)
    }

    fn has_room_for(&self, body_bytes: u64) -> bool {
        self.0.has_room_for(body_bytes)
    }

    fn maintain(&mut self) -> Result<Maintenance, JournalError> {
        self.0.maintain()
    }
}

struct Kept {
    world: World,
    built_in: BuiltInDirectory,
    registry: OracleRegistry,
    oracles: Arc<RegisteredOracles>,
    /// Lets another node of the cluster become leader.
    is_elsewhere: Arc<AtomicBool>,
    _directory: tempfile::TempDir,
}

fn kept() -> Kept {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { free_bytes_min: 0, ..StoreOptions::default() };
    let follower = StoreFollower::open(directory.path(), &options).unwrap();
    let log = upesi_journal::open(follower.disk(), follower.journal_options()).unwrap().writer;
    let (last_seq, last_time_ns) = (log.next_seq() - 1, log.last_time_ns());
    let is_elsewhere = Arc::new(AtomicBool::new(false));
    let appender = Box::new(Elsewhere(log, Arc::clone(&is_elsewhere)));
    let store = follower.lead(StoreEnd { appender, last_seq, last_time_ns }).unwrap();
    let built_in = BuiltInDirectory::open(&store, BuiltInOptions::default()).unwrap();
    let registry = OracleRegistry::open(&store, true, Schemes::default()).unwrap();
    let oracles = Arc::new(RegisteredOracles::new(
        registry.clone(),
        Arc::new(BuiltInOracle::new(built_in.clone())),
        OracleConfig::default(),
        DirectoryMetrics::register(&mut Registry::default()),
    ));
    let unused = ScriptedOracle::new(Script::Hangs, false);
    let world =
        World::with_oracles(DirectoryConfig::default(), unused, oracles.clone(), RelayConfig::default());
    Kept { world, built_in, registry, oracles, is_elsewhere, _directory: directory }
}

#[tokio::test(start_paused = true)]
async fn registered_party_is_found_changed_and_removed() {
    const FOUND: &str = "GET greenbank /parties/MSISDN/%2B26097 from bluebank";
    const MINE: &str = r#"{"fspId":"greenbank"}"#;
    const LISTED: &str =
        r#"{"partyList":[{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"+26097"}]}"#;
    let kept = kept();
    let ok = |path: &str, body: &str| format!("PUT greenbank /participants/MSISDN/{path} from Hub: {body}");
    for (request, source, body, sent) in [
        ("POST /participants/MSISDN/+26097", "greenbank", MINE, ok("+26097", LISTED)),
        // The same registration again, and the same identifier in encoded form.
        ("POST /participants/MSISDN/%2B26097", "greenbank", MINE, ok("%2B26097", LISTED)),
        ("GET /parties/MSISDN/%2B26097", "bluebank", "", FOUND.to_owned()),
        (
            "POST /participants/MSISDN/+26097",
            "redbank",
            r#"{"fspId":"redbank"}"#,
            "PUT redbank /participants/MSISDN/+26097/error from Hub: 3003 Add Party information error - Party already \
             exists [id: +26097]"
                .to_owned(),
        ),
        (
            "DELETE /participants/MSISDN/+26097",
            "redbank",
            "",
            "PUT redbank /participants/MSISDN/+26097/error from Hub: 3040 Delete Party information error - The party is \
             registered by another DFSP"
                .to_owned(),
        ),
        ("GET /parties/MSISDN/%2B26097", "bluebank", "", FOUND.to_owned()),
        (
            "PUT /participants/MSISDN/+26097",
            "greenbank",
            r#"{"fspId":"redbank"}"#,
            "PUT greenbank /participants/MSISDN/+26097/error from Hub: 3204 Party not found - fspId must be the sender"
                .to_owned(),
        ),
        (
            "DELETE /participants/MSISDN/+26097",
            "greenbank",
            "",
            r#"PUT greenbank /participants/MSISDN/+26097 from Hub: {"fspId":"greenbank"}"#.to_owned(),
        ),
        (
            "POST /participants/MSISDN/+26097",
            "redbank",
            r#"{"fspId":"redbank"}"#,
            r#"PUT redbank /participants/MSISDN/+26097 from Hub: {"partyList":[{"fspId":"redbank","partyIdType":"MSISDN","partyIdentifier":"+26097"}]}"#.to_owned(),
        ),
        (
            "GET /participants/MSISDN/+26097",
            "bluebank",
            "",
            r#"PUT bluebank /participants/MSISDN/+26097 from Hub: {"fspId":"redbank"}"#.to_owned(),
        ),
        (
            "DELETE /participants/MSISDN/+26097",
            "redbank",
            "",
            r#"PUT redbank /participants/MSISDN/+26097 from Hub: {"fspId":"redbank"}"#.to_owned(),
        ),
        (
            "GET /participants/MSISDN/+26097",
            "bluebank",
            "",
            "PUT bluebank /participants/MSISDN/+26097/error from Hub: 3204 Party not found".to_owned(),
        ),
    ] {
        kept.world.take(request, source, None, body).await.unwrap();
        assert_eq!(kept.world.sent().await, [sent], "{request} from {source}");
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledged_registration_is_visible_at_once() {
    let kept = kept();
    let body = r#"{"requestId":"01J8ZC5Y2T3V4W5X6Y7Z8A9B0C","partyList":[
        {"partyIdType":"MSISDN","partyIdentifier":"26097","fspId":"greenbank"},
        {"partyIdType":"BUSINESS","partyIdentifier":"acme","partySubIdOrType":"shop","fspId":"greenbank"}]}"#;
    kept.world.take("POST /participants", "greenbank", None, body).await.unwrap();
    // No callback was awaited.
    for (kind, id) in [(PartyIdType::Msisdn, "26097"), (PartyIdType::Business, "acme")] {
        assert_eq!(kept.built_in.find(kind, id).unwrap().len(), 1);
    }
    assert_eq!(kept.world.sent().await.len(), 1);
    kept.world.take("GET /parties/BUSINESS/acme/shop", "bluebank", None, "").await.unwrap();
    assert_eq!(kept.world.sent().await, ["GET greenbank /parties/BUSINESS/acme/shop from bluebank"]);
}

/// The sender learns from the rejection that nothing happened. No callback follows, because this node may be unable to
/// send it.
#[tokio::test(start_paused = true)]
async fn former_leader_rejects_registrations_at_once() {
    let kept = kept();
    let one = "POST /participants/MSISDN/1";
    let mine = r#"{"fspId":"greenbank"}"#;
    kept.world.take(one, "greenbank", None, mine).await.unwrap();
    assert_eq!(kept.world.sent().await.len(), 1);
    kept.is_elsewhere.store(true, Ordering::Release);
    let many = r#"{"requestId":"b51ec534-ee48-4575-b6a9-ead2955b8069","partyList":[
        {"partyIdType":"MSISDN","partyIdentifier":"2","fspId":"greenbank"}]}"#;
    for (request, body) in [
        ("POST /participants/MSISDN/2", mine),
        ("PUT /participants/MSISDN/1", r#"{"currency":"KES"}"#),
        ("DELETE /participants/MSISDN/1", ""),
        ("POST /participants", many),
        // The existing registration may be outdated.
        (one, mine),
    ] {
        let refused = kept.world.take(request, "greenbank", None, body).await.unwrap_err();
        assert_eq!((refused.status, refused.code), (503, ErrorCode::UNAVAILABLE), "{request}");
        assert!(
            refused.description.ends_with("Another node of the hub takes over"),
            "{}",
            refused.description
        );
    }
    assert_eq!(kept.world.sent().await, [""; 0]);
    assert!(kept.built_in.find(PartyIdType::Msisdn, "2").unwrap().is_empty());
    assert_eq!(kept.built_in.find(PartyIdType::Msisdn, "1").unwrap()[0].fsp.as_str(), "greenbank");
}

#[tokio::test(start_paused = true)]
async fn registered_oracle_keeps_its_cache_until_its_address_changes() {
    let kept = kept();
    let oracle = || kept.oracles.oracle(PartyIdType::Msisdn, Currency::parse("USD")).unwrap();
    assert!(oracle().is_kept_by_hub());
    let spec = OracleSpec {
        kind: PartyIdType::Msisdn,
        currency: None,
        url: "http://127.0.0.1:9".into(),
        is_default: false,
    };
    let id = kept.registry.create(spec, Timestamp::from_ns(0)).await.unwrap();
    let first = oracle();
    assert!(!first.is_kept_by_hub());
    assert!(Arc::ptr_eq(&first, &oracle()), "the same connections, breaker and cache");
    kept.oracles.clear_caches();
    let elsewhere = OracleChange { url: Some("http://127.0.0.1:10".into()), ..OracleChange::default() };
    kept.registry.update(id, elsewhere).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &oracle()), "another address is another oracle");
    kept.registry.delete(id).await.unwrap();
    assert!(oracle().is_kept_by_hub());
}

#[tokio::test]
async fn the_series_of_an_oracle_end_when_it_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { free_bytes_min: 0, ..StoreOptions::default() };
    let store = Store::open(directory.path(), &options).unwrap();
    let built_in = BuiltInDirectory::open(&store, BuiltInOptions::default()).unwrap();
    let registry = OracleRegistry::open(&store, true, Schemes::default()).unwrap();
    let mut metrics = Registry::default();
    let config = OracleConfig { cache_ttl: std::time::Duration::from_secs(60), ..OracleConfig::default() };
    let oracles = RegisteredOracles::new(
        registry.clone(),
        Arc::new(BuiltInOracle::new(built_in)),
        config,
        DirectoryMetrics::register(&mut metrics),
    );
    let series = |id: u32| {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &metrics).unwrap();
        text.lines().filter(|line| line.contains(&format!("oracle=\"{id}\""))).count()
    };
    // A port that was free a moment ago: no server answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut asked = Vec::new();
    for (currency, path) in [("KES", "first"), ("ZMW", "second")] {
        let currency = Currency::parse(currency);
        let url = format!("http://{silent}/{path}").into();
        let spec = OracleSpec { kind: PartyIdType::Msisdn, currency, url, is_default: false };
        let id = registry.create(spec, Timestamp::from_ms(0)).await.unwrap();
        let oracle = oracles.oracle(PartyIdType::Msisdn, currency).unwrap();
        let headers = upesi_http::Bytes::new();
        let party = upesi_fspiop::PartyPath { kind: PartyIdType::Msisdn, id: "260971", sub_id: None };
        let inquiry = crate::oracle::OracleRequest {
            party,
            currency,
            requester: upesi_types::FspId::parse("green").unwrap(),
            headers: &headers,
        };
        oracle.find(&inquiry).await.unwrap_err();
        assert!(series(id) > 3, "oracle {id}");
        asked.push(id);
    }
    let [first, second] = asked[..] else { unreachable!("two were made") };
    // With another address it is the same oracle.
    let url = Some(format!("http://{silent}/third").into());
    registry.update(second, OracleChange { url, ..OracleChange::default() }).await.unwrap();
    registry.delete(first).await.unwrap();
    assert_eq!(series(first), 0);
    assert!(series(second) > 3);
    registry.delete(second).await.unwrap();
    assert_eq!(series(second), 0);
}
