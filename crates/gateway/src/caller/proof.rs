//! Proof of the sender in addition to the client certificate: a token, or the statement of a gateway.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use upesi_engine::{Clock, Participants};
use upesi_http::{Connection, Facts, Network, PeerIdentity};
use upesi_ledger::{Binding, BindingKind};
use upesi_oidc::{Claims, Fault, Provider};

use super::{Callers, Denial, bindings_of, identity_of};

/// Header of a gateway that names the client whose request it forwards.
const CLIENT_ID: &str = "x-client-id";
/// Number of verified tokens that are remembered, so that each is verified once.
const TOKENS_MAX: usize = 10_000;
/// Longest client name that is looked up; the ledger has no longer ones.
const CLIENT_BYTES_MAX: usize = 128;

/// The participant that a request proves by a token or through a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(super) identity: PeerIdentity,
    /// Whether a gateway vouches for it. Then the gateway's certificate needs no binding to the participant.
    pub(super) is_by_gateway: bool,
}

/// The fault of a token, or of a gateway's statement. Only the log shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The header `Authorization` is not a bearer token, or there are two.
    Form,
    Token(Fault),
    /// The token has no client, or two.
    NoClient,
    /// The gateway names no participant's client, or two.
    NoName,
    /// The client is not bound to a participant.
    UnknownName,
}

impl Display for Flaw {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "the header Authorization is not one bearer token",
            Self::Token(fault) => return fault.fmt(f),
            Self::NoClient => "the token does not say to which one client it was given",
            Self::NoName => "the gateway does not say in one X-Client-Id for whom it speaks",
            Self::UnknownName => "nobody is bound to the X-Client-Id that the gateway says",
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct Verified {
    pub(super) client: Binding,
    /// SHA-256 of the certificate that the token is bound to.
    pub(super) certificate: Option<[u8; 32]>,
    pub(super) good_until_s: i64,
}

impl Verified {
    fn of(claims: &Claims) -> Result<Self, Flaw> {
        let names = ["azp", "client_id"].map(|name| claims.text(name));
        let client = match names {
            [Some(one), Some(other)] if one != other => None,
            [one, other] => one.or(other),
        };
        let client = client.and_then(|client| Binding::new(BindingKind::OauthClient, client));
        Ok(Self {
            client: client.ok_or(Flaw::NoClient)?,
            certificate: claims.certificate().map_err(Flaw::Token)?,
            good_until_s: claims.good_until_s(),
        })
    }

    fn is_for(&self, facts: Option<&Facts>) -> bool {
        self.certificate.is_none_or(|digest| facts.is_some_and(|facts| facts.certificate_sha256.0 == digest))
    }
}

/// The tokens of a provider.
pub(crate) struct Tokens {
    provider: Provider,
    are_required: bool,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

/// Verified tokens by SHA-256, for one generation of the provider's keys.
#[derive(Debug, Default)]
struct Known {
    generation: u64,
    tokens: HashMap<[u8; 32], Arc<Verified>>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("are_required", &self.are_required).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(provider: Provider, are_required: bool, clock: Arc<dyn Clock>) -> Self {
        Self { provider, are_required, clock, known: Mutex::default() }
    }

    /// The verified token of a request; `None` if it has no token and needs none.
    async fn of(&self, headers: &HeaderMap) -> Result<Option<Arc<Verified>>, Denial> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return if self.are_required { Err(Denial::NoToken) } else { Ok(None) };
        };
        let text = value.to_str().ok().filter(|_| values.next().is_none()).and_then(bearer);
        let text = text.ok_or(Denial::Token(Flaw::Form))?;
        let digest = Sha256::digest(text).into();
        let now = self.clock.now();
        let generation = self.provider.generation();
        if let Some(known) = self.known(generation).tokens.get(&digest)
            && known.good_until_s > now.as_ms().div_euclid(1_000)
        {
            return Ok(Some(Arc::clone(known)));
        }
        let claims = self.provider.verify(text, now).await;
        let claims = claims.map_err(|fault| Denial::Token(Flaw::Token(fault)))?;
        let verified = Arc::new(Verified::of(&claims).map_err(Denial::Token)?);
        // If keys were fetched meanwhile, a new cache has begun. This token enters it with its next request.
        let mut known = self.known(generation);
        if known.tokens.len() >= TOKENS_MAX {
            known.tokens.clear();
        }
        known.tokens.insert(digest, Arc::clone(&verified));
        Ok(Some(verified))
    }

    /// The tokens that were verified with keys of this generation.
    fn known(&self, generation: u64) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation != generation {
            *known = Known { generation, tokens: HashMap::new() };
        }
        known
    }
}

/// The token of `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

impl Callers {
    /// Whether requests may carry proof of their own. Requests with a bound certificate need none.
    pub(crate) fn may_prove(&self, connection: &Connection) -> bool {
        let is_bound = || matches!(connection.identity(self.participants.generation()), Some(Some(_)));
        self.tokens.is_some() || (connection.peer().is_some() && !is_bound())
    }

    /// The participant that a request proves by a token or through a gateway. The gateway's header is removed from the
    /// request.
    pub(crate) async fn prove(
        &self,
        headers: &mut HeaderMap,
        connection: &Connection,
    ) -> Result<Option<Proof>, Denial> {
        let token = match &self.tokens {
            Some(tokens) => tokens.of(headers).await,
            None => Ok(None),
        };
        let facts = connection.peer().map(|peer| peer.facts());
        let proof = token.and_then(|token| self.prove_with(token.as_deref(), headers, facts));
        if let (Ok(Some(proof)), Some(facts)) = (&proof, facts)
            && proof.is_by_gateway
            && !connection.is_known()
        {
            self.certificates.note(&proof.identity.name, facts, Instant::now());
        }
        proof.inspect_err(|denial| self.note(*denial, "", connection.peer()))
    }

    pub(super) fn prove_with(
        &self,
        token: Option<&Verified>,
        headers: &mut HeaderMap,
        facts: Option<&Facts>,
    ) -> Result<Option<Proof>, Denial> {
        let participants = self.participants.get();
        let by_token = match token {
            None => None,
            Some(token) if !token.is_for(facts) => {
                return Err(Denial::Token(Flaw::Token(Fault::Confirmation)));
            }
            Some(token) => {
                let found = participants.bound_by(&token.client);
                Some(found.and_then(|id| identity_of(&participants, id)).ok_or(Denial::Client)?)
            }
        };
        let by_gateway = match facts {
            Some(facts) if participants.has_gateways() => spoken_for(&participants, facts, headers)?,
            _ => None,
        };
        match (by_gateway, by_token) {
            (Some(one), Some(other)) if one != other => Err(Denial::Disagreement),
            (Some(identity), _) => Ok(Some(Proof { identity, is_by_gateway: true })),
            (None, Some(identity)) => Ok(Some(Proof { identity, is_by_gateway: false })),
            (None, None) => Ok(None),
        }
    }
}

/// The participant that a gateway acts for; `None` if the certificate is not bound to a gateway.
fn spoken_for(
    participants: &Participants,
    facts: &Facts,
    headers: &mut HeaderMap,
) -> Result<Option<PeerIdentity>, Denial> {
    let gateways: Vec<_> = bindings_of(facts).filter(|binding| participants.is_of_gateway(binding)).collect();
    if gateways.is_empty() {
        return Ok(None);
    }
    let mut names = headers.get_all(CLIENT_ID).iter();
    let name = names.next().and_then(|name| name.to_str().ok()).filter(|_| names.next().is_none());
    let name = name.filter(|name| (1..=CLIENT_BYTES_MAX).contains(&name.len()));
    let name = name.ok_or(Denial::Gateway(Flaw::NoName))?;
    let mut found = None;
    for gateway in &gateways {
        match (found, participants.bound_by(&Binding::by_gateway(gateway, name))) {
            (Some(one), Some(other)) if one != other => return Err(Denial::Ambiguous),
            (None, bound) => found = bound,
            _ => {}
        }
    }
    let identity = found.and_then(|id| identity_of(participants, id));
    headers.remove(CLIENT_ID);
    identity.map(Some).ok_or(Denial::Gateway(Flaw::UnknownName))
}

// Permitted client addresses of participants.

/// Longest prefix of an IPv6 network: clients are identified by the first 64 bits of their address.
pub const IPV6_PREFIX_MAX: u8 = 64;

/// The allowed networks of participants that have a list; other participants may connect from anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressLists(BTreeMap<String, List>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    participant: String,
    networks: Vec<Network>,
}

impl AddressLists {
    /// Adds a network to a participant's list.
    pub fn add(&mut self, participant: &str, network: Network) {
        let list = || List { participant: participant.to_owned(), networks: Vec::new() };
        self.0.entry(participant.to_ascii_lowercase()).or_insert_with(list).networks.push(network);
    }

    /// Whether no participant has a list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The participant whose list forbids this address, as its list spells it; `None` if the address is allowed. Names
    /// are compared without regard to case, as for senders.
    pub(super) fn forbids(&self, participant: &str, address: Option<IpAddr>) -> Option<&str> {
        // Usually there are no lists, and every request reaches this check.
        if self.is_empty() {
            return None;
        }
        let list = self.0.get(&participant.to_ascii_lowercase())?;
        let is_allowed = |address| list.networks.iter().any(|network| network.contains(address));
        if address.is_some_and(is_allowed) { None } else { Some(&list.participant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_of_one_participant_and_all_of_its_networks_count() {
        let mut lists = AddressLists::default();
        assert!(lists.is_empty() && lists.forbids("greenbank", None).is_none());
        for (name, network) in [
            ("greenbank", "192.0.2.0/24"),
            ("greenbank", "2001:db8:1::/48"),
            ("bluewallet", "198.51.100.7/32"),
        ] {
            lists.add(name, network.parse().unwrap());
        }
        for (name, address, allowed) in [
            ("greenbank", "192.0.2.255", true),
            ("GreenBank", "192.0.2.1", true),
            ("greenbank", "::ffff:192.0.2.1", true),
            ("greenbank", "2001:db8:1:ffff::", true),
            ("greenbank", "192.0.3.0", false),
            ("GREENBANK", "192.0.3.0", false),
            ("greenbank", "2001:db8:2::", false),
            ("greenbank", "::ffff:192.0.3.1", false),
            ("greenbank", "::192.0.2.1", false),
            ("greenbank", "198.51.100.7", false),
            ("bluewallet", "198.51.100.7", true),
            ("bluewallet", "198.51.100.8", false),
            ("redmoney", "198.51.100.8", true),
        ] {
            let forbidden = lists.forbids(name, Some(address.parse().unwrap()));
            // The name is that of the list, because a sender's text must not become a label.
            let expected = (!allowed).then(|| name.to_ascii_lowercase());
            assert_eq!(forbidden, expected.as_deref(), "{name} {address}");
        }
        assert_eq!(lists.forbids("greenbank", None), Some("greenbank"), "an address that nobody knows");
    }
}
