//! Authenticates the sender of a request. The sender is the participant that the client's certificate or token is bound
//! to, or the participant that a gateway names. Without either, it is the participant in `FSPIOP-Source`.

mod address_lists;
mod certificates;
mod proof;

use std::sync::{Mutex, PoisonError};

use certificates::Certificates;
use http::{HeaderMap, HeaderValue};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use proof::ProofError;
use tokio::time::Instant;
use upesi_engine::{Participants, SharedParticipants};
use upesi_fspiop::SyncError;
use upesi_http::{CertificateFacts, Connection, Failures, KnownAs, OtherIdentity, Peer, PeerIdentity};
use upesi_ledger::{Binding, BindingKind, Participant, ParticipantId};
use upesi_oidc::TokenFault;
use upesi_types::{ErrorCode, FspId};

pub use address_lists::{AddressLists, IPV6_PREFIX_MAX};
pub use certificates::{CERTIFICATES_SEEN, FIRST_EXPIRY_SEEN};
pub(crate) use proof::{Proof, Tokens};

/// The sender of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    headers: &'a HeaderMap,
    identity: Option<&'a PeerIdentity>,
    /// Whether a gateway vouches for the identity.
    is_by_gateway: bool,
}

impl<'a> Caller<'a> {
    /// A caller without proof: the participant in `FSPIOP-Source`.
    pub(crate) const fn named(headers: &'a HeaderMap) -> Self {
        Self::new(headers, None)
    }

    pub(crate) const fn new(headers: &'a HeaderMap, identity: Option<&'a PeerIdentity>) -> Self {
        Self { headers, identity, is_by_gateway: false }
    }

    /// The party that this request assigns to its connection: the authenticated participant, or the named one.
    fn known_as(self) -> KnownAs {
        match self.identity {
            Some(identity) if !self.is_by_gateway => KnownAs::Participant(identity.number),
            _ => KnownAs::Named,
        }
    }

    /// Records that the connection has carried a request of this participant.
    pub(crate) fn introduce(self, connection: &Connection) {
        connection.become_known(self.known_as());
    }

    /// The authenticated participant, if there is one.
    pub(crate) const fn identity(self) -> Option<&'a PeerIdentity> {
        self.identity
    }

    /// Name for logs: the authenticated participant, or the value of the header.
    pub(crate) fn name(self) -> &'a str {
        let header = || self.headers.get(SOURCE).and_then(|source| source.to_str().ok());
        self.identity.map(|identity| &*identity.name).or_else(header).unwrap_or("-")
    }

    /// The participant in `FSPIOP-Source`.
    pub(crate) fn source(self) -> Option<FspId> {
        self.headers.get(SOURCE).and_then(name_in)
    }
}

const SOURCE: &str = "fspiop-source";
const PROXY: &str = "fspiop-proxy";

fn name_in(value: &HeaderValue) -> Option<FspId> {
    value.to_str().ok().and_then(FspId::parse)
}

/// Reason why authentication failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The request has no token, but needs one.
    NoToken,
    /// Its token is not valid.
    Token(ProofError),
    /// The client of its token is not bound to a participant.
    Client,
    /// The gateway names no participant that it may act for.
    Gateway(ProofError),
    /// Certificate and token identify different participants.
    Disagreement,
    /// The certificate is not bound to a participant.
    Unbound,
    /// The certificate is bound to several participants.
    Ambiguous,
    /// The certificate is bound by a name only. The hub trusts several authorities, so the binding also needs the
    /// issuer's key.
    IssuerKey,
    /// The certificate was bound to another participant, or to none, when the connection began.
    Rebound,
    /// The client's address is not on the participant's list.
    Address,
    /// `FSPIOP-Source` names another participant.
    Source,
    /// The authenticated participant is blocked.
    Blocked,
    /// The named source or proxy is blocked.
    BlockedSource,
    /// The request names a proxy that did not send it.
    Proxy,
}

impl Denial {
    const fn name(self) -> &'static str {
        match self {
            Self::NoToken => "no_token",
            Self::Token(ProofError::Token(TokenFault::Expired)) => "token_expired",
            Self::Token(ProofError::Token(TokenFault::Early)) => "token_not_yet_valid",
            Self::Token(_) => "token",
            Self::Client => "client",
            Self::Gateway(_) => "gateway",
            Self::Disagreement => "disagreement",
            Self::Unbound => "unbound",
            Self::Ambiguous => "ambiguous",
            Self::IssuerKey => "issuer_key",
            Self::Rebound => "rebound",
            Self::Address => "address",
            Self::Source => "source",
            Self::Blocked => "blocked",
            Self::BlockedSource => "blocked_source",
            Self::Proxy => "proxy",
        }
    }

    /// The detail for the log.
    const fn flaw(self) -> Option<ProofError> {
        match self {
            Self::Token(flaw) | Self::Gateway(flaw) => Some(flaw),
            _ => None,
        }
    }

    /// Whether another token could succeed.
    pub(crate) const fn asks_for_token(self) -> bool {
        matches!(self, Self::NoToken | Self::Token(_))
    }

    /// The error for the client. It does not reveal which part of the proof was wrong.
    pub(crate) fn error(self) -> SyncError {
        let (code, detail) = match self {
            Self::NoToken | Self::Token(_) => (ErrorCode::CLIENT, "a token of the participant is required"),
            Self::Client | Self::Gateway(_) | Self::Disagreement => {
                (ErrorCode::CLIENT, "the client is not authenticated as a participant")
            }
            Self::Unbound | Self::Ambiguous | Self::IssuerKey | Self::Rebound => {
                (ErrorCode::CLIENT, "the certificate does not belong to a participant")
            }
            Self::Address => (ErrorCode::CLIENT, "the address is not allowed for the participant"),
            Self::Blocked | Self::BlockedSource => (ErrorCode::CLIENT, "the participant is blocked"),
            Self::Source => (ErrorCode::VALIDATION, "Invalid fspiop-source header"),
            Self::Proxy => (ErrorCode::VALIDATION, "Invalid fspiop-proxy header"),
        };
        let status = if self.asks_for_token() { 401 } else { 403 };
        SyncError { status, ..SyncError::new(code, detail) }
    }

    /// Whether the connection must be closed.
    pub(crate) fn ends_connection(self) -> bool {
        matches!(self, Self::Rebound | Self::Address | Self::Blocked)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RejectionLabels {
    reason: &'static str,
    fsp: String,
}

/// Authenticates senders.
#[derive(Debug)]
pub(crate) struct Callers {
    participants: SharedParticipants,
    /// Whether each certificate must be bound to a participant.
    are_bindings_required: bool,
    addresses: AddressLists,
    tokens: Option<Tokens>,
    refused: Family<RejectionLabels, Counter>,
    certificates: Certificates,
    failures: Mutex<Failures>,
}

impl Callers {
    pub(crate) fn new(
        participants: SharedParticipants,
        are_bindings_required: bool,
        addresses: AddressLists,
        tokens: Option<Tokens>,
        registry: &mut Registry,
    ) -> Self {
        let refused = Family::<RejectionLabels, Counter>::default();
        registry.register(
            "upesi_auth_refused",
            "Requests that failed authentication, by reason and authenticated participant",
            refused.clone(),
        );
        Self {
            participants,
            are_bindings_required,
            addresses,
            tokens,
            refused,
            certificates: Certificates::register(registry),
            failures: Mutex::default(),
        }
    }

    /// Authenticates the sender of a request. The binding of a certificate is looked up once per connection, and again
    /// after participants have changed.
    pub(crate) fn identify<'a>(
        &self,
        headers: &'a HeaderMap,
        connection: &'a Connection,
        proof: Option<&'a Proof>,
    ) -> Result<Caller<'a>, Denial> {
        let known = match connection.peer() {
            None if proof.is_none() => return self.identify_named(headers, connection),
            None => Ok(None),
            Some(peer) => {
                let generation = self.participants.generation();
                match connection.identity(generation) {
                    Some(identity) => Ok(identity),
                    None => self.look_up(peer, connection, generation),
                }
            }
        };
        let checked = known.and_then(|certified| match (certified, proof) {
            (Some(certified), Some(proof)) if *certified != proof.identity => Err(Denial::Disagreement),
            (Some(identity), _) => Ok(Some(identity)),
            (None, Some(proof)) if !self.lets_in_unbound(proof, connection) => Err(Denial::Unbound),
            (None, Some(proof)) => Ok(Some(&proof.identity)),
            (None, None) => Ok(None),
        });
        let checked = checked.and_then(|identity| match identity {
            Some(identity) if self.addresses.forbids(&identity.name, connection.address()).is_some() => {
                Err(Denial::Address)
            }
            Some(identity) => self.check_bound(headers, identity).map(|()| Some(identity)),
            None => self.check_unbound(headers).and_then(|()| self.check_route(headers)).map(|()| None),
        });
        // Last, so that a DFSP cannot learn that another DFSP is blocked.
        let checked = checked.and_then(|identity| self.check_blocks(headers, identity).map(|()| identity));
        match checked {
            Ok(identity) => {
                let is_by_gateway = proof.is_some_and(|proof| proof.is_by_gateway)
                    && !known.is_ok_and(|certified| certified.is_some());
                Ok(Caller { headers, identity, is_by_gateway })
            }
            Err(denial) => {
                let proven = proof.map(|proof| &proof.identity);
                let fsp = known.ok().flatten().or(proven).map_or("", |identity| &*identity.name);
                self.note(denial, fsp, connection.peer());
                Err(denial)
            }
        }
    }

    /// The sender of a request without proof: the named participant, if it need not authenticate.
    fn identify_named<'a>(
        &self,
        headers: &'a HeaderMap,
        connection: &Connection,
    ) -> Result<Caller<'a>, Denial> {
        // A participant with bindings could authenticate with a token.
        let named = if self.tokens.is_some() { self.check_names_unbound(headers) } else { Ok(()) };
        let checked = named.map_err(|_| Denial::NoToken).and_then(|()| self.check_route(headers));
        let checked = checked.and_then(|()| self.check_blocks(headers, None));
        checked.inspect_err(|denial| self.note(*denial, "", None))?;
        self.check_named(headers, connection)
    }

    /// Whether a proof is sufficient for a client without a certificate, or with an unbound one.
    fn lets_in_unbound(&self, proof: &Proof, connection: &Connection) -> bool {
        proof.is_by_gateway || connection.peer().is_none() || !self.are_bindings_required
    }

    fn check_blocks(&self, headers: &HeaderMap, identity: Option<&PeerIdentity>) -> Result<(), Denial> {
        check_blocks(&self.participants.get(), headers, identity)
    }

    /// A participant behind a proxy must send through that proxy and name it. [`Self::check_bound`] checks more for an
    /// authenticated client.
    fn check_route(&self, headers: &HeaderMap) -> Result<(), Denial> {
        let participants = self.participants.get();
        if !participants.has_proxied() {
            return Ok(());
        }
        let source = headers.get(SOURCE).and_then(name_in);
        let source = source.and_then(|name| participants.named_in_any_case(&name));
        let Some(proxy) = source.and_then(|source| participants.proxy_of(source.id)) else { return Ok(()) };
        let said = headers.get(PROXY).is_some_and(|said| said.as_bytes() == proxy.name.as_str().as_bytes());
        if said { Ok(()) } else { Err(Denial::Proxy) }
    }

    /// Without a certificate, trusts `FSPIOP-Source` if the client's address is allowed for that participant.
    fn check_named<'a>(&self, headers: &'a HeaderMap, connection: &Connection) -> Result<Caller<'a>, Denial> {
        let caller = Caller::named(headers);
        if self.addresses.is_empty() {
            return Ok(caller);
        }
        let source = caller.source();
        match source.and_then(|name| self.addresses.forbids(name.as_str(), connection.address())) {
            None => Ok(caller),
            Some(participant) => {
                self.note(Denial::Address, participant, None);
                Err(Denial::Address)
            }
        }
    }

    /// The sender as far as it is known, for requests that need no sender.
    pub(crate) fn known<'a>(&self, headers: &'a HeaderMap, connection: &'a Connection) -> Caller<'a> {
        let identity = connection.peer().and_then(|_| connection.identity(self.participants.generation()));
        Caller::new(headers, identity.flatten())
    }

    fn look_up<'a>(
        &self,
        peer: &Peer,
        connection: &'a Connection,
        generation: u64,
    ) -> Result<Option<&'a PeerIdentity>, Denial> {
        let found = bound_participant(&self.participants.get(), peer.facts())?;
        if let Some(identity) = &found {
            self.certificates.note(&identity.name, peer.facts(), Instant::now());
        }
        connection.identify(found, generation).map_err(|OtherIdentity| Denial::Rebound)?;
        Ok(connection.identity(generation).flatten())
    }

    /// Looks up the participant of a new connection's certificate, and counts the connection for that participant.
    pub(crate) fn meet(&self, connection: &Connection) {
        let Some(peer) = connection.peer() else { return };
        // An unbound or ambiguous certificate is checked with each request.
        if let Ok(Some(identity)) = self.look_up(peer, connection, self.participants.generation()) {
            connection.become_known(KnownAs::Participant(identity.number));
        }
    }

    /// The headers must name the participant itself or, through a proxy, a sender of another scheme. A request without
    /// a source is rejected by the check of the headers.
    fn check_bound(&self, headers: &HeaderMap, identity: &PeerIdentity) -> Result<(), Denial> {
        let is_itself = |value: &HeaderValue| value.as_bytes() == identity.name.as_bytes();
        let Some(source) = headers.get(SOURCE) else { return Ok(()) };
        match headers.get(PROXY) {
            None if is_itself(source) => return Ok(()),
            None => return Err(Denial::Source),
            Some(proxy) if !is_itself(proxy) => return Err(Denial::Proxy),
            Some(_) => {}
        }
        let participants = self.participants.get();
        let itself = ParticipantId::new(identity.number).and_then(|id| participants.get(id));
        if !itself.is_some_and(|participant| participant.is_proxy) {
            return Err(Denial::Proxy);
        }
        // A fulfil may name its sender in any letter case.
        let named = name_in(source).and_then(|name| participants.named_in_any_case(&name));
        let is_behind_it = |named: &Participant| {
            participants.proxy_of(named.id).is_some_and(|proxy| proxy.id.number() == identity.number)
        };
        if named.is_none_or(is_behind_it) { Ok(()) } else { Err(Denial::Source) }
    }

    /// While bindings are optional, an unbound client may only name participants without bindings.
    fn check_unbound(&self, headers: &HeaderMap) -> Result<(), Denial> {
        if self.are_bindings_required {
            return Err(Denial::Unbound);
        }
        self.check_names_unbound(headers)
    }

    /// A participant with bindings must authenticate with one of them.
    fn check_names_unbound(&self, headers: &HeaderMap) -> Result<(), Denial> {
        let participants = self.participants.get();
        let is_bound = |name: &str| {
            let named = headers.get(name).and_then(name_in);
            let participant = named.and_then(|name| participants.named_in_any_case(&name));
            participant.is_some_and(|participant: &Participant| !participant.bindings.is_empty())
        };
        match (is_bound(SOURCE), is_bound(PROXY)) {
            (true, _) => Err(Denial::Source),
            (_, true) => Err(Denial::Proxy),
            _ => Ok(()),
        }
    }

    fn note(&self, denial: Denial, fsp: &str, peer: Option<&Peer>) {
        let reason = denial.name();
        self.refused.get_or_create(&RejectionLabels { reason, fsp: fsp.to_owned() }).inc();
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(times) = failures.note(Instant::now()) {
            let text = |of: fn(&CertificateFacts) -> &str| peer.map_or("", |peer| of(peer.facts()));
            let (subject, issuer) = (text(|facts| &facts.subject), text(|facts| &facts.issuer));
            let spki_sha256 = peer.map(|peer| peer.facts().spki_sha256.to_string()).unwrap_or_default();
            let why = denial.flaw().map(|flaw| flaw.to_string()).unwrap_or_default();
            tracing::warn!(
                reason, %fsp, %why, %subject, %issuer, %spki_sha256, times,
                "requests failed authentication; only the last one is shown"
            );
        }
    }
}

/// Neither the client nor a participant that it names may be blocked.
pub(crate) fn check_blocks(
    participants: &Participants,
    headers: &HeaderMap,
    identity: Option<&PeerIdentity>,
) -> Result<(), Denial> {
    if !participants.has_blocked() {
        return Ok(());
    }
    let id = identity.and_then(|identity| ParticipantId::new(identity.number));
    if id.is_some_and(|id| participants.is_blocked(id)) {
        return Err(Denial::Blocked);
    }
    let is_blocked = |header: &str| {
        let name = headers.get(header).and_then(name_in);
        let named = name.and_then(|name| participants.named_in_any_case(&name));
        named.is_some_and(|named| participants.is_blocked(named.id))
    };
    if is_blocked(SOURCE) || is_blocked(PROXY) { Err(Denial::BlockedSource) } else { Ok(()) }
}

/// The one participant that a certificate is bound to. It must not be bound to a gateway as well.
fn bound_participant(
    participants: &Participants,
    facts: &CertificateFacts,
) -> Result<Option<PeerIdentity>, Denial> {
    let (mut found, mut is_of_gateway) = (None, false);
    for binding in bindings_of(facts) {
        is_of_gateway |= participants.is_of_gateway(&binding);
        match (found, participants.bound_by(&binding)) {
            (Some(one), Some(other)) if one != other => return Err(Denial::Ambiguous),
            (None, bound) => found = bound,
            _ => {}
        }
    }
    let is_bound = |name: &Binding| participants.bound_by(name).is_some() || participants.is_of_gateway(name);
    match found {
        Some(_) if is_of_gateway => Err(Denial::Ambiguous),
        None if !is_of_gateway && names_of(facts).any(|name| !counts(&name, facts) && is_bound(&name)) => {
            Err(Denial::IssuerKey)
        }
        _ => Ok(found.and_then(|id| identity_of(participants, id))),
    }
}

fn identity_of(participants: &Participants, id: ParticipantId) -> Option<PeerIdentity> {
    let name = participants.name(id)?;
    Some(PeerIdentity { number: id.number(), name: name.as_str().into() })
}

/// The bindings that a certificate matches.
fn bindings_of(facts: &CertificateFacts) -> impl Iterator<Item = Binding> {
    let digests = [
        (BindingKind::SpkiSha256, facts.spki_sha256.to_string()),
        (BindingKind::CertSha256, facts.certificate_sha256.to_string()),
    ];
    let digests = digests.into_iter().filter_map(|(kind, value)| Binding::new(kind, &value));
    let names = names_of(facts).flat_map(|name| {
        let issuer = facts.verified_issuer.as_ref();
        let by_issuer = issuer.and_then(|issuer| name.by_issuer(&issuer.spki_sha256.0));
        let by_name = counts(&name, facts).then_some(name);
        [by_issuer, by_name].into_iter().flatten()
    });
    digests.chain(names)
}

/// The bindings by name that a certificate matches, without its issuer's key. A common name is used only if there are
/// no alternative names, which are more exact.
fn names_of(facts: &CertificateFacts) -> impl Iterator<Item = Binding> {
    let uris = facts.uris.iter().map(|uri| (BindingKind::SanUri, uri.clone()));
    let names = facts.dns.iter().map(|name| (BindingKind::SanDns, name.clone()));
    let parts = facts.subject_parts.iter().filter(|(part, _)| *part != "CN" || !facts.has_alternative_names);
    let subjects =
        parts.map(|(part, text)| (BindingKind::Subject, Binding::subject(part, text, &facts.issuer)));
    let all = uris.chain(names).chain(subjects);
    let named = all.filter_map(|(kind, value)| Binding::new(kind, &value));
    // A name in a certificate must not be mistaken for the key of an issuer.
    named.filter(|binding| !binding.has_issuer_key())
}

/// Whether a binding by name is valid without the issuer's key. With two authorities, an intermediate of one can have
/// the name of the other, and can certify any name.
fn counts(name: &Binding, facts: &CertificateFacts) -> bool {
    facts.verified_issuer.is_some_and(|issuer| {
        issuer.is_of_only_authority || (name.kind == BindingKind::Subject && issuer.has_unique_name)
    })
}

#[cfg(test)]
mod tests;
