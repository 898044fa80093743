//! Participants as gateway and delivery need them: names, endpoints, bindings, and their permission to transact.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::Notify;
use upesi_ledger::{
    Account, Binding, Block, EndpointType, Event, Ledger, LedgerAccountTypeId, Participant, ParticipantId,
    SignatureKeys,
};
use upesi_types::{Currency, FspId};

/// Participants with their endpoints and active accounts at an instant.
#[derive(Clone, Debug, Default)]
pub struct Participants {
    /// Ordered by identifier, without gaps.
    participants: Vec<Participant>,
    by_name: HashMap<FspId, ParticipantId, foldhash::fast::RandomState>,
    by_binding: HashMap<Binding, ParticipantId>,
    /// The bindings of gateways' certificates.
    gateways: HashSet<Binding>,
    /// Participants and currencies with an active position account.
    active_positions: BTreeSet<(ParticipantId, Currency)>,
    /// The proxies of participants behind one.
    proxies: BTreeMap<ParticipantId, ParticipantId>,
    signature_keys: SignatureKeys,
    blocks: BTreeSet<Block>,
    /// Participants that are blocked themselves or whose proxy is blocked.
    blocked: BTreeSet<ParticipantId>,
    /// The nodes that deliver callbacks.
    couriers: Vec<u32>,
}

impl Participants {
    /// The participants of a ledger.
    pub fn of(ledger: &Ledger) -> Self {
        let participants = Self::new(ledger.participants().to_vec(), ledger.accounts());
        let participants = participants.behind(ledger.proxied().collect());
        let participants = participants.without(ledger.blocks().keys().copied().collect());
        let (signature_keys, couriers) = (ledger.signature_keys().clone(), ledger.couriers().to_vec());
        Self { signature_keys, couriers, ..participants }
    }

    /// Whether there is a participant other than the hub.
    pub fn has_dfsps(&self) -> bool {
        self.participants.len() > 1
    }

    /// Adds these proxies. Each participant behind a proxy then uses the endpoints and active positions of its proxy,
    /// and is active only if the proxy is.
    pub fn behind(mut self, proxies: BTreeMap<ParticipantId, ParticipantId>) -> Self {
        let mut held: BTreeMap<ParticipantId, Vec<Currency>> = BTreeMap::new();
        for (owner, currency) in &self.active_positions {
            held.entry(*owner).or_default().push(*currency);
        }
        for (&id, &proxy) in &proxies {
            let Some(proxy) = self.get(proxy).cloned() else { continue };
            let currencies = held.get(&proxy.id).into_iter().flatten();
            self.active_positions.extend(currencies.map(|currency| (id, *currency)));
            if let Some(participant) = self.participants.get_mut(id.number() as usize - 1) {
                participant.is_active &= proxy.is_active;
                participant.endpoints = proxy.endpoints;
            }
        }
        Self { proxies, ..self }
    }

    /// Adds these blocks.
    pub fn without(self, blocks: BTreeSet<Block>) -> Self {
        let names = blocks.iter().filter_map(|block| match block {
            Block::Participant(name) => Some(name),
            Block::Key(_) | Block::Certificate(_) => None,
        });
        let mut blocked: BTreeSet<_> = names.filter_map(|name| self.by_name.get(name).copied()).collect();
        let behind = self.proxies.iter().filter(|(_, proxy)| blocked.contains(proxy));
        let behind: Vec<_> = behind.map(|(participant, _)| *participant).collect();
        blocked.extend(behind);
        Self { blocks, blocked, ..self }
    }

    /// Creates the table from a list ordered by identifier, without gaps, and all accounts.
    pub fn new(participants: Vec<Participant>, accounts: &[Account]) -> Self {
        let by_name = participants.iter().map(|participant| (participant.name, participant.id)).collect();
        let is_active_position =
            |account: &&Account| account.is_active && account.kind == LedgerAccountTypeId::POSITION;
        let active = accounts.iter().filter(is_active_position);
        let active_positions = active.map(|account| (account.participant, account.currency)).collect();
        let bindings = participants.iter().flat_map(|participant| {
            participant.bindings.iter().map(|binding| (binding.clone(), participant.id))
        });
        let by_binding: HashMap<_, _> = bindings.collect();
        let gateways = by_binding.keys().filter_map(Binding::gateway).collect();
        Self { participants, by_name, by_binding, gateways, active_positions, ..Self::default() }
    }

    pub(crate) const fn is_changed_by(event: &Event) -> bool {
        matches!(
            event,
            Event::ParticipantCreated { .. }
                | Event::ParticipantActivitySet { .. }
                | Event::AccountCreated { .. }
                | Event::AccountOpened { .. }
                | Event::AccountActivitySet { .. }
                | Event::EndpointSet { .. }
                | Event::BindingAdded { .. }
                | Event::BindingRemoved { .. }
                | Event::SignatureKeyAdded { .. }
                | Event::SignatureKeyRevoked { .. }
                | Event::BlockSet { .. }
                | Event::BlockLifted { .. }
                | Event::ProxiedAdded { .. }
                | Event::ProxiedRemoved { .. }
                | Event::CouriersSet { .. }
        )
    }

    pub fn get(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.get(id.number() as usize - 1)
    }

    /// The participant with this name, in the registered case.
    pub fn named(&self, name: &FspId) -> Option<&Participant> {
        self.by_name.get(name).and_then(|id| self.get(*id))
    }

    /// The participant with this name, in any case.
    pub fn named_in_any_case(&self, name: &FspId) -> Option<&Participant> {
        let any_case = || self.participants.iter().find(|participant| participant.name.eq_ignore_case(name));
        self.named(name).or_else(any_case)
    }

    /// The DFSP with this name. The hub is not a DFSP.
    pub fn dfsp(&self, name: &FspId) -> Option<&Participant> {
        self.named(name).filter(|participant| participant.id != ParticipantId::HUB)
    }

    /// The participant whose accounts and limits apply to a participant: its proxy, if it is behind one.
    pub fn liable<'a>(&'a self, participant: &'a Participant) -> &'a Participant {
        self.proxy_of(participant.id).unwrap_or(participant)
    }

    /// The currencies of the position accounts of a participant, or of its proxy, whether active or not.
    pub fn position_currencies<'a>(
        &'a self,
        participant: &'a Participant,
    ) -> impl Iterator<Item = Currency> + 'a {
        let accounts = self.liable(participant).accounts.iter();
        let positions = accounts.filter(|account| account.kind == LedgerAccountTypeId::POSITION);
        positions.map(|account| account.currency)
    }

    /// Whether a participant can be registered for a party in a currency, which requires a position account in it. Any
    /// participant can be registered for all currencies (`None`).
    pub fn can_serve(&self, participant: &Participant, currency: Option<Currency>) -> bool {
        currency.is_none_or(|currency| self.position_currencies(participant).any(|held| held == currency))
    }

    /// The participant that this binding identifies.
    pub fn bound_by(&self, binding: &Binding) -> Option<ParticipantId> {
        self.by_binding.get(binding).copied()
    }

    /// Whether a certificate with this binding belongs to a gateway, which sends requests for other participants.
    pub fn is_of_gateway(&self, binding: &Binding) -> bool {
        self.gateways.contains(binding)
    }

    /// Whether there are gateways.
    pub fn has_gateways(&self) -> bool {
        !self.gateways.is_empty()
    }

    /// The public keys of participants for signatures.
    pub const fn signature_keys(&self) -> &SignatureKeys {
        &self.signature_keys
    }

    /// The blocks in force.
    pub const fn blocks(&self) -> &BTreeSet<Block> {
        &self.blocks
    }

    /// Whether any participant is blocked.
    pub fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Whether a participant is blocked.
    pub fn is_blocked(&self, id: ParticipantId) -> bool {
        self.blocked.contains(&id)
    }

    /// Whether any participant is behind a proxy.
    pub fn has_proxied(&self) -> bool {
        !self.proxies.is_empty()
    }

    /// The proxy in front of a participant, if any.
    pub fn proxy_of(&self, id: ParticipantId) -> Option<&Participant> {
        self.proxies.get(&id).and_then(|proxy| self.get(*proxy))
    }

    pub fn name(&self, id: ParticipantId) -> Option<FspId> {
        self.get(id).map(|participant| participant.name)
    }

    /// The hub's own name.
    pub fn hub_name(&self) -> Option<FspId> {
        self.name(ParticipantId::HUB)
    }

    /// A participant's callback URL or address.
    pub fn endpoint(&self, id: ParticipantId, kind: EndpointType) -> Option<&str> {
        self.get(id)?.endpoint(kind)
    }

    /// Whether a participant is active and has an active position account in a currency.
    pub fn may_transact(&self, participant: &Participant, currency: Currency) -> bool {
        participant.is_active && self.active_positions.contains(&(participant.id, currency))
    }

    /// The nodes of a cluster that deliver callbacks. The list is empty while the leader delivers all callbacks.
    pub fn couriers(&self) -> &[u32] {
        &self.couriers
    }

    /// Sets the nodes that deliver callbacks.
    pub fn delivered_by(self, couriers: Vec<u32>) -> Self {
        Self { couriers, ..self }
    }

    pub fn ids(&self) -> impl Iterator<Item = ParticipantId> {
        self.participants.iter().map(|participant| participant.id)
    }
}

/// The current participants, shared between the engine's thread and the edges.
#[derive(Clone, Debug, Default)]
pub struct SharedParticipants(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    participants: RwLock<Arc<Participants>>,
    generation: AtomicU64,
    changed: Notify,
}

impl SharedParticipants {
    /// Replaces the participants.
    pub fn set(&self, participants: Arc<Participants>) {
        *self.0.participants.write().unwrap_or_else(PoisonError::into_inner) = participants;
        self.0.generation.fetch_add(1, Ordering::Release);
        self.0.changed.notify_one();
    }

    /// Number of replacements so far. Results from [`Self::get`] after this was read are valid while the number stays
    /// the same.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Waits until the participants are replaced. Returns immediately if that happened since the last call. Only one
    /// task may wait.
    pub async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// The current participants.
    pub fn get(&self) -> Arc<Participants> {
        Arc::clone(&self.0.participants.read().unwrap_or_else(PoisonError::into_inner))
    }
}
