//! `POST /participants`: registers many parties at once.

use std::sync::Arc;

use upesi_delivery::relayed::{Address, ErrorInformation};
use upesi_delivery::{Accepted, Request};
use upesi_fspiop::message::{BatchContent, BatchEntry};
use upesi_fspiop::render::{BatchResult, PartyEntry, write_batch_result};
use upesi_fspiop::{PartyIdType, SyncError, check_party_id};
use upesi_http::Bytes;
use upesi_ledger::EndpointType;
use upesi_parties::party::DirectoryEntry;
use upesi_types::{Currency, ErrorCode, FspId};

use super::{DirectoryState, InProgress, no_oracle, run, to_information};
use crate::oracle::{BatchInquiry, Operation, Oracle};

/// Memory of a batch in progress, as a multiple of its body: its entries, their outcomes, the answer.
const MEMORY_PER_BODY: usize = 4;

/// A batch in progress.
struct Batch {
    request: Request<()>,
    request_id: String,
    currency: Option<Currency>,
    entries: Vec<BatchEntry>,
    /// The outcome of each entry, as far as it is known.
    outcomes: Vec<Option<Result<(), ErrorInformation>>>,
    /// The entries for each oracle, one group per type; entries of the built-in directory first.
    groups: Vec<Group>,
    /// The first failure of a whole group, and the number of failed groups.
    failure: Option<ErrorInformation>,
    failed: usize,
    /// Whether the built-in directory has moved to another node.
    has_moved: bool,
}

struct Group {
    kind: PartyIdType,
    oracle: Arc<dyn Oracle>,
    indices: Vec<usize>,
}

impl DirectoryState {
    pub(super) async fn take_batch(
        self: Arc<Self>,
        request: Request<()>,
        body_bytes: usize,
        content: BatchContent,
    ) -> Result<Accepted, SyncError> {
        self.check_requester(&request)?;
        let permit =
            self.relay.admit(&request.parties.source, request.bytes() + body_bytes * MEMORY_PER_BODY)?;
        let mut batch = Batch {
            request,
            request_id: content.request_id.to_string(),
            currency: content.currency,
            outcomes: vec![None; content.parties.len()],
            entries: content.parties,
            groups: Vec::new(),
            failure: None,
            failed: 0,
            has_moved: false,
        };
        batch.group(&self);
        let is_kept_by_hub = batch.groups.first().is_some_and(|group| group.oracle.is_kept_by_hub());
        run(permit, is_kept_by_hub, move |mut progress: InProgress| async move {
            for group in std::mem::take(&mut batch.groups) {
                if !group.oracle.is_kept_by_hub() {
                    progress.acknowledge().await;
                }
                batch.register(&group).await;
            }
            if let Some(failure) = batch.whole_failure()
                && batch.has_moved
                && progress.refuse(failure)
            {
                return progress;
            }
            progress.acknowledge().await;
            self.answer_batch(&batch).await;
            progress
        })
        .await
    }

    async fn answer_batch(&self, batch: &Batch) {
        let source = batch.request.parties.source;
        let path = format!("/participants/{}", batch.request_id);
        let error_path = format!("{path}/error").into_boxed_str();
        let error_to = Address::Template(EndpointType::PARTICIPANT_BATCH_PUT_ERROR);
        if let Some(failure) = batch.whole_failure() {
            return self.relay.send_error(&batch.request, source, error_to, error_path, failure).await;
        }
        let to = Address::Template(EndpointType::PARTICIPANT_BATCH_PUT);
        let answer = batch.request.answer(source, to, path.into(), batch.body());
        if let Err(failure) = self.relay.send(&answer).await {
            self.relay.send_error(&batch.request, source, error_to, error_path, &failure.to_error()).await;
        }
    }
}

impl Batch {
    /// Decides the entries that need no oracle, and groups the others by type.
    fn group(&mut self, shared: &DirectoryState) {
        for (index, entry) in self.entries.iter().enumerate() {
            let kind = match self.kind_of(entry, shared) {
                Ok(kind) => kind,
                Err(refusal) => {
                    self.outcomes[index] = Some(Err(refusal));
                    continue;
                }
            };
            if let Some(group) = self.groups.iter_mut().find(|group| group.kind == kind) {
                group.indices.push(index);
            } else if let Some(oracle) = shared.oracles.oracle(kind, self.currency) {
                self.groups.push(Group { kind, oracle, indices: vec![index] });
            } else {
                self.outcomes[index] = Some(Err(no_oracle(kind.as_str(), self.currency)));
            }
        }
        self.groups.sort_by_key(|group| !group.oracle.is_kept_by_hub());
    }

    /// The type of an entry, if it can be registered.
    fn kind_of(&self, entry: &BatchEntry, shared: &DirectoryState) -> Result<PartyIdType, ErrorInformation> {
        if entry.fsp != Some(self.request.parties.source) {
            return Err(ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, ""));
        }
        let kind = entry.kind.as_ref().ok().copied();
        let kind = kind.filter(|kind| shared.config.extended_party_id_types || !kind.is_extended());
        let kind = kind.ok_or_else(|| no_oracle(entry.kind_text(), self.currency))?;
        check_party_id(kind, &entry.id, entry.sub_id.as_deref()).map_err(to_information)?;
        shared.check_account(&self.request.parties.source, self.currency)?;
        Ok(kind)
    }

    async fn register(&mut self, group: &Group) {
        let entry = |index: &usize| {
            let BatchEntry { id, sub_id, .. } = &self.entries[*index];
            let (id, sub_id) = (id.clone(), sub_id.clone());
            // An entry for another DFSP is in no group.
            let fsp = self.request.parties.source;
            DirectoryEntry { kind: group.kind, id, sub_id, currency: self.currency, fsp }
        };
        let entries: Vec<DirectoryEntry> = group.indices.iter().map(entry).collect();
        let inquiry = BatchInquiry {
            request_id: &self.request_id,
            currency: self.currency,
            entries: &entries,
            requester: self.request.parties.source,
            headers: &self.request.headers,
        };
        match group.oracle.register_batch(&inquiry).await {
            Ok(outcomes) => {
                for (index, outcome) in group.indices.iter().zip(outcomes) {
                    self.outcomes[*index] = Some(outcome);
                }
            }
            Err(failure) => {
                let error = failure.to_error(Operation::RegisterBatch);
                for index in &group.indices {
                    self.outcomes[*index] = Some(Err(error.clone()));
                }
                self.failed += group.indices.len();
                self.has_moved |= group.oracle.has_moved();
                self.failure.get_or_insert(error);
            }
        }
    }

    /// The error of a batch without a processed entry.
    fn whole_failure(&self) -> Option<&ErrorInformation> {
        self.failure.as_ref().filter(|_| self.failed == self.entries.len())
    }

    fn body(&self) -> Bytes {
        let mut body = Vec::with_capacity(64 + self.entries.len() * 160);
        let results = self.entries.iter().zip(&self.outcomes).map(|(entry, outcome)| BatchResult {
            party: PartyEntry {
                kind: entry.kind_text(),
                identifier: &entry.id,
                sub_id: entry.sub_id.as_deref(),
                fsp: entry.fsp.as_ref().map(FspId::as_str),
            },
            error: match outcome {
                Some(Ok(())) => None,
                Some(Err(error)) => Some((error.code, &*error.description)),
                // An oracle decided fewer entries than it received.
                None => Some((ErrorCode::ADD_PARTY_INFORMATION, "Add Party information error")),
            },
        });
        write_batch_result(&mut body, self.currency, results);
        body.into()
    }
}
