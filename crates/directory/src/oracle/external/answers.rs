//! Recent answers of an oracle.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use upesi_fspiop::PartyIdType;
use upesi_parties::party::Owner;
use upesi_types::Currency;

use crate::oracle::{OracleFailure, OracleRequest};
use crate::timed::DeadlineTable;

type OwnersAnswer = Result<Vec<Owner>, OracleFailure>;

/// Answers to lookups, including "no owner" and "no such party", for a short time and in limited number.
pub(super) struct AnswerCache {
    ttl: Duration,
    entries_max: usize,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The cached answers by identifier, so that a change of an identifier affects all its sub ids and currencies.
    answers: DeadlineTable<CachedAnswer>,
    /// Number of changes that invalidated answers.
    epoch: u64,
}

struct CachedAnswer {
    kind: PartyIdType,
    id: Box<str>,
    sub_id: Option<Box<str>>,
    currency: Option<Currency>,
    answer: OwnersAnswer,
}

impl AnswerCache {
    pub(super) fn new(ttl: Duration, entries_max: usize) -> Self {
        Self { ttl, entries_max, hasher: RandomState::new(), state: Mutex::default() }
    }

    /// Read this before the request is sent.
    pub(super) fn epoch(&self) -> u64 {
        self.state().epoch
    }

    pub(super) fn get(&self, inquiry: &OracleRequest<'_>) -> Option<OwnersAnswer> {
        let now = Instant::now();
        let (kind, id) = (inquiry.party.kind, inquiry.party.id_text());
        let sub_id = inquiry.party.sub_id_text();
        let state = self.state();
        let mut about = state.answers.about(self.hash(kind, &id), |kept| kept.is_about(kind, &id));
        let is_meant = |kept: &CachedAnswer| {
            kept.sub_id.as_deref() == sub_id.as_deref() && kept.currency == inquiry.currency
        };
        about.find(|(due, kept)| *due > now && is_meant(kept)).map(|(_, kept)| kept.answer.clone())
    }

    /// Stores an answer, unless it is a failure that says nothing about the party, or there was a change since `epoch`.
    pub(super) fn put(&self, inquiry: &OracleRequest<'_>, epoch: u64, answer: &OwnersAnswer) {
        if answer.as_ref().is_err_and(|failure| failure.outcome() != "not_found") {
            return;
        }
        let now = Instant::now();
        let (kind, id) = (inquiry.party.kind, inquiry.party.id_text());
        let hash = self.hash(kind, &id);
        let kept = CachedAnswer {
            kind,
            id: id.into(),
            sub_id: inquiry.party.sub_id_text().map(Into::into),
            currency: inquiry.currency,
            answer: answer.clone(),
        };
        let mut state = self.state();
        if state.epoch != epoch {
            return;
        }
        while state.answers.take_due(now).is_some() {}
        if state.answers.len() >= self.entries_max {
            state.answers.take_oldest();
        }
        state.answers.keep(hash, now + self.ttl, kept, |a, b| a.is_about(b.kind, &b.id));
    }

    /// Drops all answers about an identifier.
    pub(super) fn forget(&self, kind: PartyIdType, id: &str) {
        let hash = self.hash(kind, id);
        let mut state = self.state();
        state.epoch += 1;
        while state.answers.take_about(hash, |kept| kept.is_about(kind, id)).is_some() {}
    }

    pub(super) fn clear(&self) {
        let mut state = self.state();
        state.epoch += 1;
        state.answers = DeadlineTable::default();
    }

    fn hash(&self, kind: PartyIdType, id: &str) -> u64 {
        self.hasher.hash_one(Key(kind, id))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Hash)]
struct Key<'a>(PartyIdType, &'a str);

impl CachedAnswer {
    fn is_about(&self, kind: PartyIdType, id: &str) -> bool {
        self.kind == kind && *self.id == *id
    }
}
