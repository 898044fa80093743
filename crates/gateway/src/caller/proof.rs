//! Proof of the sender in addition to the client certificate: a token, or the statement of a gateway.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use upesi_engine::{Clock, Participants};
use upesi_http::{CertificateFacts, Connection, PeerIdentity};
use upesi_ledger::{Binding, BindingKind};
use upesi_oidc::{Claims, Provider, TokenFault};

use super::{Callers, Denial, bindings_of, identity_of};

/// Header of a gateway that names the client whose request it forwards.
const CLIENT_ID: &str = "x-client-id";
/// Maximum number of remembered verified tokens. A remembered token is not verified again.
const TOKENS_MAX: usize = 10_000;
/// Longest client name that is looked up. The ledger does not contain longer ones.
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
pub(crate) enum ProofError {
    /// The header `Authorization` is not a bearer token, or there are two.
    Form,
    Token(TokenFault),
    /// The token has no client, or two.
    NoClient,
    /// The gateway names no participant's client, or two.
    NoName,
    /// The client is not bound to a participant.
    UnknownName,
}

impl Display for ProofError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "the header Authorization is not one bearer token",
            Self::Token(fault) => return fault.fmt(f),
            Self::NoClient => "the token does not name exactly one client",
            Self::NoName => "the gateway does not name exactly one client in X-Client-Id",
            Self::UnknownName => "no participant is bound to the gateway's X-Client-Id",
        })
    }
}

#[derive(Clone, Debug)]
pub(super) struct VerifiedToken {
    pub(super) client: Binding,
    /// SHA-256 of the certificate that the token is bound to.
    pub(super) certificate: Option<[u8; 32]>,
    pub(super) good_until_s: i64,
}

impl VerifiedToken {
    fn of(claims: &Claims) -> Result<Self, ProofError> {
        let names = ["azp", "client_id"].map(|name| claims.text(name));
        let client = match names {
            [Some(one), Some(other)] if one != other => None,
            [one, other] => one.or(other),
        };
        let client = client.and_then(|client| Binding::new(BindingKind::OauthClient, client));
        Ok(Self {
            client: client.ok_or(ProofError::NoClient)?,
            certificate: claims.certificate().map_err(ProofError::Token)?,
            good_until_s: claims.good_until_s(),
        })
    }

    fn is_for(&self, facts: Option<&CertificateFacts>) -> bool {
        self.certificate.is_none_or(|digest| facts.is_some_and(|facts| facts.certificate_sha256.0 == digest))
    }
}

/// The tokens of a provider.
pub(crate) struct Tokens {
    provider: Provider,
    are_required: bool,
    clock: Arc<dyn Clock>,
    known: Mutex<VerifiedTokens>,
}

/// Verified tokens by SHA-256, for one generation of the provider's keys.
#[derive(Debug, Default)]
struct VerifiedTokens {
    generation: u64,
    tokens: HashMap<[u8; 32], Arc<VerifiedToken>>,
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
    async fn of(&self, headers: &HeaderMap) -> Result<Option<Arc<VerifiedToken>>, Denial> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let Some(value) = values.next() else {
            return if self.are_required { Err(Denial::NoToken) } else { Ok(None) };
        };
        let text = value.to_str().ok().filter(|_| values.next().is_none()).and_then(bearer);
        let text = text.ok_or(Denial::Token(ProofError::Form))?;
        let digest = Sha256::digest(text).into();
        let now = self.clock.now();
        let generation = self.provider.generation();
        if let Some(known) = self.known(generation).tokens.get(&digest)
            && known.good_until_s > now.as_ms().div_euclid(1_000)
        {
            return Ok(Some(Arc::clone(known)));
        }
        let claims = self.provider.verify(text, now).await;
        let claims = claims.map_err(|fault| Denial::Token(ProofError::Token(fault)))?;
        let verified = Arc::new(VerifiedToken::of(&claims).map_err(Denial::Token)?);
        // If keys were fetched meanwhile, a new cache has begun. This token enters it with its next request.
        let mut known = self.known(generation);
        if known.tokens.len() >= TOKENS_MAX {
            known.tokens.clear();
        }
        known.tokens.insert(digest, Arc::clone(&verified));
        Ok(Some(verified))
    }

    /// The tokens that were verified with keys of this generation.
    fn known(&self, generation: u64) -> MutexGuard<'_, VerifiedTokens> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.generation != generation {
            *known = VerifiedTokens { generation, tokens: HashMap::new() };
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
        token: Option<&VerifiedToken>,
        headers: &mut HeaderMap,
        facts: Option<&CertificateFacts>,
    ) -> Result<Option<Proof>, Denial> {
        let participants = self.participants.get();
        let by_token = match token {
            None => None,
            Some(token) if !token.is_for(facts) => {
                return Err(Denial::Token(ProofError::Token(TokenFault::Confirmation)));
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
    facts: &CertificateFacts,
    headers: &mut HeaderMap,
) -> Result<Option<PeerIdentity>, Denial> {
    let gateways: Vec<_> = bindings_of(facts).filter(|binding| participants.is_of_gateway(binding)).collect();
    if gateways.is_empty() {
        return Ok(None);
    }
    let mut names = headers.get_all(CLIENT_ID).iter();
    let name = names.next().and_then(|name| name.to_str().ok()).filter(|_| names.next().is_none());
    let name = name.filter(|name| (1..=CLIENT_BYTES_MAX).contains(&name.len()));
    let name = name.ok_or(Denial::Gateway(ProofError::NoName))?;
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
    identity.map(Some).ok_or(Denial::Gateway(ProofError::UnknownName))
}
