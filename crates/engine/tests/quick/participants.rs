//! The edges' view of participants: it follows each change, and a proxy's data applies to the DFSPs behind it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use upesi_engine::{
    DurableRecord, Effects, EngineHandle, EngineMetrics, EngineOptions, Participants, Payload,
    SharedParticipants, SteppedEngine, Storage,
};
use upesi_journal::sim_disk::SimDisk;
use upesi_ledger::command::NewSignatureKey;
use upesi_ledger::{
    AdminCommand, AdminOutcome, Binding, BindingKind, Block, CallbackKey, Command, EndpointType,
    LedgerAccountTypeId, ParticipantId, PublicKeyDer, Reply,
};
use upesi_tables::archive::MemoryArchive;
use upesi_testsupport::scheme::{TestClock, amount, id, kes, name, onboard, prepare, talk};
use upesi_types::Timestamp;

const START_MS: i64 = 1_900_000_000_000;
const URL: &str = "http://127.0.0.1:1/transfers";
const BRIDGE_URL: &str = "http://127.0.0.1:2/transfers";

/// Stores the participants for the edges.
struct Edges(SharedParticipants);

impl Effects for Edges {
    fn publish(&mut self, _: &Arc<DurableRecord>) {}

    fn redeliver(&mut self, _: &[CallbackKey]) {}

    fn flush(&mut self) {}

    fn participants(&mut self, participants: Arc<Participants>) {
        self.0.set(participants);
    }
}

struct World {
    engine: SteppedEngine,
    handle: EngineHandle,
    shared: SharedParticipants,
}

impl World {
    fn new() -> Self {
        let storage = Storage { disk: Arc::new(SimDisk::new(8)), archive: Arc::new(MemoryArchive::new()) };
        let clock = TestClock::starting_at(START_MS);
        let options = EngineOptions { storage: Some(storage), clock, ..EngineOptions::new("nowhere") };
        let shared = SharedParticipants::default();
        let effects = Box::new(Edges(shared.clone()));
        let (mut engine, handle) = SteppedEngine::start(options, EngineMetrics::default(), effects).unwrap();
        talk(&mut engine, onboard(&handle, &["greenbank", "bluewallet"]));
        Self { engine, handle, shared }
    }

    fn submit(&mut self, command: Command) -> Reply {
        talk(&mut self.engine, self.handle.submit(command, Payload::default())).unwrap()
    }

    /// Makes a change, which reaches the edges at once. Returns their view afterwards.
    fn change(&mut self, change: AdminCommand) -> Arc<Participants> {
        let (before, what) = (self.shared.generation(), format!("{change:?}"));
        assert_eq!(self.submit(Command::Admin(change)), Reply::Admin(Ok(AdminOutcome::Done)), "{what}");
        assert_eq!(self.shared.generation(), before + 1, "{what}");
        self.shared.get()
    }

    fn id(&self, dfsp: &str) -> ParticipantId {
        self.engine.ledger().participant_id(&name(dfsp)).unwrap()
    }

    fn set_activity(&mut self, dfsp: &str, is_active: bool) -> Arc<Participants> {
        self.change(AdminCommand::SetParticipantActivity { name: name(dfsp), is_active })
    }
}

fn may(participants: &Participants, dfsp: &str) -> bool {
    participants.may_transact(participants.named(&name(dfsp)).unwrap(), kes())
}

#[test]
fn edges_see_accounts_and_endpoints_of_each_participant() {
    let mut world = World::new();
    let created = AdminCommand::CreateParticipant { name: name("redbank"), currency: kes(), is_proxy: false };
    let seen = world.change(created);
    let red = world.id("redbank");
    assert!(seen.get(red).is_some() && !may(&seen, "redbank"));
    assert_eq!((seen.name(red), seen.hub_name()), (Some(name("redbank")), Some(name("Hub"))));
    let names: Vec<_> = seen.ids().filter_map(|id| seen.name(id)).collect();
    assert_eq!(names, ["Hub", "greenbank", "bluewallet", "redbank"].map(name));
    let seen = world.change(AdminCommand::OpenAccounts {
        name: name("redbank"),
        currency: kes(),
        net_debit_cap: amount("100"),
        initial_position: amount("0"),
    });
    assert!(may(&seen, "redbank"));
    assert_eq!(seen.endpoint(red, EndpointType::TRANSFER_POST), None);
    let (kind, value) = (EndpointType::TRANSFER_POST, URL.into());
    let seen = world.change(AdminCommand::SetEndpoint { name: name("redbank"), kind, value });
    assert_eq!(seen.endpoint(red, EndpointType::TRANSFER_POST), Some(URL));
    assert_eq!(seen.endpoint(red, EndpointType::TRANSFER_PUT), None);
    assert!(!may(&world.set_activity("redbank", false), "redbank"));
    assert!(may(&world.set_activity("redbank", true), "redbank"));
    let position = |participants: &Participants| {
        participants.get(red).unwrap().account(kes(), LedgerAccountTypeId::POSITION).unwrap()
    };
    let account = position(&world.shared.get());
    let closed = AdminCommand::SetAccountActivity { name: name("redbank"), account, is_active: false };
    let seen = world.change(closed);
    assert!(!may(&seen, "redbank") && may(&seen, "greenbank"));
    // In any case of letters, if that is allowed.
    assert!(seen.named(&name("RedBank")).is_none());
    let found = |text| seen.named_in_any_case(&name(text)).map(|participant| participant.id);
    assert_eq!((found("RedBank"), found("redbank"), found("redbanks")), (Some(red), Some(red), None));
}

#[test]
fn edges_see_bindings_and_blocks() {
    let mut world = World::new();
    let (green, blue) = (world.id("greenbank"), world.id("bluewallet"));
    let gateway = Binding::new(BindingKind::SanDns, "gateway.example").unwrap();
    let own = Binding::new(BindingKind::SanDns, "green.example").unwrap();
    let spoken_for = Binding::by_gateway(&gateway, "green-client");
    let added = |binding: &Binding| AdminCommand::AddBinding {
        name: name("greenbank"),
        kind: binding.kind,
        value: binding.value.clone(),
    };
    let seen = world.change(added(&own));
    assert_eq!((seen.bound_by(&own), seen.bound_by(&spoken_for)), (Some(green), None));
    assert!(!seen.has_gateways() && !seen.is_of_gateway(&own));
    let seen = world.change(added(&spoken_for));
    assert_eq!((seen.bound_by(&own), seen.bound_by(&spoken_for)), (Some(green), Some(green)));
    assert!(seen.has_gateways() && seen.is_of_gateway(&gateway) && !seen.is_of_gateway(&own));
    let Binding { kind, value } = spoken_for.clone();
    let seen = world.change(AdminCommand::RemoveBinding { name: name("greenbank"), kind, value });
    assert_eq!(seen.bound_by(&spoken_for), None);
    assert!(!seen.has_gateways() && !seen.is_of_gateway(&gateway));

    let public_key = PublicKeyDer(vec![7; 91].into());
    let sha256 = public_key.sha256();
    let key = NewSignatureKey {
        name: name("greenbank"),
        public_key,
        not_before: None,
        not_after: None,
        starts_at: None,
        overlap_hours: 1,
    };
    let seen = world.change(AdminCommand::AddSignatureKey(key));
    assert_eq!(
        (seen.signature_keys().owner_of(&sha256), seen.signature_keys().of(blue)),
        (Some(green), None)
    );
    let seen = world.change(AdminCommand::RevokeSignatureKey { name: name("greenbank"), sha256 });
    assert!(seen.signature_keys().is_revoked(&sha256));

    let (of_key, of_green) = (Block::Key([5; 32]), Block::Participant(name("greenbank")));
    let seen = world.change(AdminCommand::SetBlock { block: of_key });
    assert!(seen.blocks().iter().eq([&of_key]) && !seen.has_blocked(), "no participant is");
    let seen = world.change(AdminCommand::SetBlock { block: of_green });
    assert!(seen.blocks().iter().eq([&of_key, &of_green]) && seen.has_blocked());
    assert!(seen.is_blocked(green) && !seen.is_blocked(blue));
    let seen = world.change(AdminCommand::LiftBlock { block: of_green });
    assert!(seen.blocks().iter().eq([&of_key]) && !seen.has_blocked() && !seen.is_blocked(green));
}

#[test]
fn data_of_a_proxy_applies_to_dfsps_behind_it() {
    let mut world = World::new();
    let proxy = name("bridge");
    world.change(AdminCommand::CreateParticipant { name: proxy, currency: kes(), is_proxy: true });
    let (kind, value) = (EndpointType::TRANSFER_POST, BRIDGE_URL.into());
    world.change(AdminCommand::SetEndpoint { name: proxy, kind, value });
    assert!(!world.shared.get().has_proxied());
    let far = name("farbank");
    let seen = world.change(AdminCommand::AddProxied { proxy, name: far });
    let (bridge, farbank) = (world.id("bridge"), world.id("farbank"));
    assert!(seen.has_proxied() && !may(&seen, "farbank"), "the proxy has no open account");
    assert_eq!(seen.proxy_of(farbank).map(|proxy| proxy.id), Some(bridge));
    assert!(seen.proxy_of(bridge).is_none() && seen.proxy_of(world.id("greenbank")).is_none());
    assert_eq!(seen.endpoint(farbank, EndpointType::TRANSFER_POST), Some(BRIDGE_URL));
    assert_eq!(seen.endpoint(world.id("greenbank"), EndpointType::TRANSFER_POST), Some(URL));
    let opened = AdminCommand::OpenAccounts {
        name: proxy,
        currency: kes(),
        net_debit_cap: amount("100"),
        initial_position: amount("0"),
    };
    assert!(may(&world.change(opened), "farbank"));
    // The proxy and the DFSP behind it must be active.
    for dfsp in ["bridge", "farbank"] {
        let seen = world.set_activity(dfsp, false);
        assert!(!may(&seen, "farbank") && may(&seen, "greenbank"), "{dfsp}");
        assert!(may(&world.set_activity(dfsp, true), "farbank"));
    }
    let block = Block::Participant(proxy);
    let seen = world.change(AdminCommand::SetBlock { block });
    assert!(seen.is_blocked(bridge) && seen.is_blocked(farbank) && !seen.is_blocked(world.id("greenbank")));
    world.change(AdminCommand::LiftBlock { block });
    let seen = world.change(AdminCommand::SetBlock { block: Block::Participant(far) });
    assert!(!seen.is_blocked(bridge) && seen.is_blocked(farbank), "a proxy is not blocked for one behind it");
    let seen = world.change(AdminCommand::RemoveProxied { proxy, name: far });
    assert!(!seen.has_proxied() && seen.proxy_of(farbank).is_none() && !may(&seen, "farbank"));
}

#[test]
fn waiting_task_is_woken_only_by_a_change() {
    let mut world = World::new();
    let shared = world.shared.clone();
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(shared.changed()).poll(&mut context).is_ready(), "they have changed since the start");
    let mut changed = pin!(shared.changed());
    assert!(changed.as_mut().poll(&mut context).is_pending());
    let before = shared.generation();
    let expires = Timestamp::from_ms(START_MS + 1_000);
    assert_eq!(world.submit(prepare(id(1), "greenbank", "bluewallet", "1", expires)), Reply::Accepted);
    assert!(changed.as_mut().poll(&mut context).is_pending() && shared.generation() == before);
    world.set_activity("greenbank", false);
    assert!(changed.as_mut().poll(&mut context).is_ready());
}
