//! The engine's callbacks: how they reach the lanes, and how lanes read the outbox and report deliveries.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use crate::common::{Dfsp, World, config, participant};
use upesi_delivery::lanes::{Backlog as _, CallbackKey, LaneCapacity, OwedCallback, ParticipantId};
use upesi_delivery::owed::{CourierEffects, OutboxBacklog};
use upesi_engine::{
    DurableRecord, Effects as _, Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Participants,
    Payload, SharedParticipants,
};
use upesi_http::Bytes;
use upesi_ledger::command::{Get, NewSettlementModel};
use upesi_ledger::{
    AdminCommand, Callback, CallbackContent, Command, Parked, Refusal, Reply, ResourceId, Subject,
};
use upesi_types::{Currency, FspId, Timestamp};

fn payload(headers: &str) -> Payload {
    Payload { headers: Bytes::from(headers.to_owned()), body: Bytes::new() }
}

/// A durable record of a request of the asker, with one callback.
fn record(seq: u64, target: ParticipantId, asker: ParticipantId) -> Arc<DurableRecord> {
    let callback = Callback {
        target,
        subject: Subject::transfer(ResourceId::Text(seq.to_string().into())),
        content: CallbackContent::Error(Refusal::Expired.into()),
    };
    Arc::new(DurableRecord {
        seq,
        time: Timestamp::EPOCH,
        callbacks: vec![callback],
        payload: payload(&seq.to_string()),
        prepared_before: None,
        asker: Some(asker),
    })
}

#[tokio::test]
async fn published_callbacks_are_sent_and_callbacks_to_the_sender_wait_for_its_answer() {
    let world = World::start(config());
    let (asker, other) = (participant(2), participant(3));
    let dfsps = [asker, other].map(|target| world.dfsp(target, Dfsp::open(), |_, _| 200));
    let participants = SharedParticipants::default();
    let (courier, outlet) = (world.courier.clone(), world.courier.outlet());
    let mut effects = CourierEffects { courier, outlet, participants: participants.clone() };
    let present = Arc::new(Participants::new(Vec::new(), &[]));
    effects.participants(present.clone());
    assert!(Arc::ptr_eq(&participants.get(), &present));
    for target in [asker, other] {
        world.courier.open(target);
        world.until_level(target).await;
    }
    // The second request is also the asker's, but its callback goes to the other participant.
    let records = [(1, asker), (2, other)].map(|(seq, target)| {
        world.outbox.add(target, seq, seq);
        record(seq, target, asker)
    });
    records.iter().for_each(|record| effects.publish(record));
    effects.flush();
    world.outbox.until_delivered(1).await;
    assert_eq!([0, 1].map(|index: usize| dfsps[index].received().len()), [0, 1]);
    assert_eq!(world.courier.lane(asker).unwrap().queued, 1, "it waits for the answer");
    effects.answers().unwrap().answered(&records);
    world.outbox.until_delivered(2).await;
    assert_eq!(dfsps[0].received()[0].seq, 1);
    // An operator resends this callback.
    let parked = world.outbox.add(other, 3, 3).key;
    effects.redeliver(&[parked]);
    world.outbox.until_delivered(3).await;
}

/// An engine with undelivered callbacks to greenbank, and the outbox for its lane.
struct Owing {
    engine: Engine,
    handle: EngineHandle,
    outbox: OutboxBacklog,
    target: ParticipantId,
    _directory: tempfile::TempDir,
}

impl Owing {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = EngineOptions::new(directory.path());
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        let (hub, greenbank) = (FspId::parse("Hub").unwrap(), FspId::parse("greenbank").unwrap());
        let currency = Currency::parse("KES").unwrap();
        for command in [
            AdminCommand::CreateHubAccount { name: hub, currency, kind: "HUB_RECONCILIATION".into() },
            AdminCommand::CreateHubAccount {
                name: hub,
                currency,
                kind: "HUB_MULTILATERAL_SETTLEMENT".into(),
            },
            AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("DEFERREDNET", None)),
            AdminCommand::CreateParticipant { name: greenbank, currency, is_proxy: false },
        ] {
            let reply = handle.submit(Command::Admin(command), Payload::default()).await.unwrap();
            assert!(matches!(reply, Reply::Admin(Ok(_))), "{reply:?}");
        }
        let find = move |ledger: &upesi_ledger::Ledger| ledger.participant_named(&greenbank).unwrap().id;
        let target = handle.read(find).await.unwrap();
        let outbox = OutboxBacklog { engine: Arc::new(OnceLock::from(handle.clone())), reports: None };
        Self { engine, handle, outbox, target, _directory: directory }
    }

    /// Adds a callback of this many bytes: the answer to a query for an unknown object.
    async fn owe(&self, bytes: usize) -> CallbackKey {
        let get = Get {
            transfer: ResourceId::Text("x".into()),
            source: FspId::parse("greenbank").unwrap(),
            is_proxied: false,
        };
        let reply = self.handle.submit(Command::Get(get), payload(&"h".repeat(bytes))).await.unwrap();
        assert_eq!(reply, Reply::Accepted);
        self.entries().await.into_keys().next_back().unwrap()
    }

    /// All undelivered callbacks, and the reason if they are parked.
    async fn entries(&self) -> BTreeMap<CallbackKey, Option<Parked>> {
        let entries = |ledger: &upesi_ledger::Ledger| {
            let outbox = ledger.outbox().iter();
            outbox.map(|(key, entry)| (key, entry.parked.cloned())).collect()
        };
        self.handle.read(entries).await.unwrap()
    }
}

fn keys(callbacks: &[OwedCallback]) -> Vec<CallbackKey> {
    callbacks.iter().map(|callback| callback.key).collect()
}

#[tokio::test]
async fn lanes_read_owed_callbacks_within_their_capacity() {
    let owing = Owing::start().await;
    let mut owed = Vec::new();
    for bytes in [10, 20, 5, 40] {
        owed.push(owing.owe(bytes).await);
    }
    let position = |index: usize| (owed[index].seq, owed[index].index);
    // The byte limit may be exceeded by the last callback, and a page has at least one.
    for (after, items, bytes, found, more_after) in [
        (None, 9, 999, 0..4, None),
        (None, 4, 999, 0..4, None),
        (None, 3, 999, 0..3, Some(2)),
        (None, 9, 0, 0..1, Some(0)),
        (None, 0, 0, 0..1, Some(0)),
        (None, 9, 10, 0..1, Some(0)),
        (None, 9, 11, 0..2, Some(1)),
        (None, 9, 30, 0..2, Some(1)),
        (None, 9, 31, 0..3, Some(2)),
        (None, 9, 36, 0..4, None),
        (Some(1), 9, 5, 2..3, Some(2)),
        (Some(3), 9, 999, 4..4, None),
    ] {
        let what = format!("{after:?}, {items} of {bytes} bytes");
        let page = owing.outbox.pending(owing.target, after.map(position), LaneCapacity { items, bytes });
        let page = page.await.unwrap();
        assert_eq!(keys(&page.items), owed[found], "{what}");
        assert_eq!(page.more_after, more_after.map(position), "{what}");
    }
    for (after, limit, found) in [(None, 9, 0..4), (None, 2, 0..2), (Some(0), 2, 1..3)] {
        let read = owing.outbox.keys(owing.target, after.map(position), limit).await;
        assert_eq!(read.unwrap(), owed[found]);
    }
    let nobody = ParticipantId::HUB;
    assert!(owing.outbox.keys(nobody, None, 9).await.unwrap().is_empty());
    let loaded = owing.outbox.load(vec![owed[2], owed[0]]).await.unwrap();
    let seen: Vec<_> = loaded.iter().map(|callback| (callback.key, callback.bytes)).collect();
    assert_eq!(seen, [(owed[2], 5), (owed[0], 10)]);
    owing.engine.shutdown();
}

#[tokio::test]
async fn reported_callbacks_are_no_longer_owed_or_are_parked() {
    let owing = Owing::start().await;
    let [first, second, third] = [owing.owe(1).await, owing.owe(1).await, owing.owe(1).await];
    owing.outbox.delivered(vec![first]);
    owing.outbox.parked(second, "no endpoint".to_owned(), 3);
    let entries = owing.entries().await;
    assert_eq!(entries.keys().copied().collect::<Vec<_>>(), [second, third]);
    let parked = entries[&second].as_ref().unwrap();
    assert_eq!((&*parked.reason, parked.attempts, &entries[&third]), ("no endpoint", 3, &None));
    // The delivered and the parked callback are not loaded.
    let loaded = owing.outbox.load(vec![first, second, third]).await.unwrap();
    assert_eq!(keys(&loaded), [third]);
    let room = LaneCapacity { items: 9, bytes: 999 };
    assert_eq!(keys(&owing.outbox.pending(owing.target, None, room).await.unwrap().items), [third]);
    owing.engine.shutdown();
    // The report is lost, and repeated after the next start.
    owing.outbox.delivered(vec![third]);
    owing.outbox.parked(third, String::new(), 1);
    assert!(owing.outbox.load(vec![third]).await.is_err());
}

#[tokio::test]
async fn engine_that_does_not_run_yet_is_queried_again() {
    let outbox = OutboxBacklog::default();
    let key = CallbackKey { target: ParticipantId::HUB, seq: 1, index: 0 };
    let reason = "the backlog cannot be read: the engine is not running yet";
    let page = outbox.pending(key.target, None, LaneCapacity { items: 1, bytes: 1 }).await;
    assert_eq!(page.unwrap_err().to_string(), reason);
    assert_eq!(outbox.keys(key.target, None, 1).await.unwrap_err().to_string(), reason);
    assert_eq!(outbox.load(vec![key]).await.unwrap_err().to_string(), reason);
    outbox.delivered(vec![key]);
    outbox.parked(key, String::new(), 1);
}
