//! Changes by the caller of a request: one request to the engine for each, an entry in the audit trail, and its log
//! line.

use upesi_engine::{EngineHandle, Payload};
use upesi_ledger::command::{AuditedCommand, OperatorAction};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, AuditActor, AuditEntry, AuditedReply, Change, Command, Reply,
};

use crate::access::{Permission, permission_of};
use crate::approvals;
use crate::call::Call;
use crate::collector::Collector;
use crate::error::ApiError;
use crate::error_name::ErrorName;

impl Call {
    /// Makes a change, with its entry in the audit trail, and waits until both are durable. If the change needs an
    /// approval, that is the error.
    pub(crate) async fn change(&self, command: AdminCommand) -> Result<AdminOutcome, ApiError> {
        match self.change_or_propose(command).await? {
            AdminOutcome::Proposed(id) => Err(approvals::waits(self, id).await?),
            outcome => Ok(outcome),
        }
    }

    /// Makes a change, or proposes it for approval. The ledger determines its action, and checks the caller's
    /// permission for it.
    pub(crate) async fn change_or_propose(&self, command: AdminCommand) -> Result<AdminOutcome, ApiError> {
        if let Some(collector) = &self.caller.collector {
            return Err(self.collect(collector, command).await);
        }
        let by = self.caller.attribution_of("", command.reason().map(Into::into));
        match self.submit(by, OperatorAction::Change(command)).await? {
            AuditedReply::Made { outcome, entry } => {
                entry.iter().for_each(log_entry);
                Ok(outcome)
            }
            AuditedReply::Rejected { refusal, by, object } => {
                let error = ApiError::from(refusal);
                self.record_refusal(by, object.into(), &error).await;
                Err(error)
            }
        }
    }

    /// Adds a change to the set that is being proposed, if the caller may make it.
    async fn collect(&self, collector: &Collector, command: AdminCommand) -> ApiError {
        let asked = command.clone();
        let looked = self
            .ask(move |ledger| (permission_of(ledger.action_of(&asked)), Change::of(&asked, ledger).what));
        let (permission, what) = match looked.await {
            Ok(looked) => looked,
            Err(error) => return error,
        };
        match self.caller.check(&[permission]) {
            Ok(()) => collector.collect(command),
            Err(error) => {
                self.refused(permission, what, &error).await;
                error
            }
        }
    }

    /// Performs an action on an object, with its entry in the audit trail, which is logged.
    pub(crate) async fn act(
        &self,
        permission: Permission,
        action: OperatorAction,
        object: String,
    ) -> Result<AdminOutcome, ApiError> {
        match self.try_act(permission, action, object.clone()).await? {
            Ok((outcome, entry)) => {
                entry.iter().for_each(log_entry);
                Ok(outcome)
            }
            Err(refusal) => {
                let error = ApiError::from(refusal);
                self.refused(permission, object, &error).await;
                Err(error)
            }
        }
    }

    /// Performs an action on an object, without logging its entry. An action that the ledger rejects has no entry.
    pub(crate) async fn try_act(
        &self,
        permission: Permission,
        action: OperatorAction,
        object: String,
    ) -> Result<Result<(AdminOutcome, Option<AuditEntry>), AdminRefusal>, ApiError> {
        if self.caller.collector.is_some() {
            return Err(ApiError::new(
                ErrorName::ChangeSetKind,
                "This change cannot be part of a change set",
            ));
        }
        if let Err(error) = self.caller.check(&[permission]) {
            self.refused(permission, object, &error).await;
            return Err(error);
        }
        let by = self.caller.attribution(permission, action.reason());
        Ok(match self.submit(by, action).await? {
            AuditedReply::Made { outcome, entry } => Ok((outcome, entry)),
            AuditedReply::Rejected { refusal, .. } => Err(refusal),
        })
    }

    /// Submits an action of the caller.
    async fn submit(&self, by: AuditActor, action: OperatorAction) -> Result<AuditedReply, ApiError> {
        let authority = self.caller.authority(self.access.acts_alone(&self.caller));
        submit(&self.engine, AuditedCommand { by, action, authority }).await
    }

    /// Makes a change outside the ledger. Its entry in the audit trail is recorded before; a further entry records
    /// whether the change then failed. Logs the first entry once the change is made.
    pub(crate) async fn elsewhere<T>(
        &self,
        permission: Permission,
        change: Change,
        make: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let (made, entry) = self.elsewhere_unlogged(permission, change, make).await?;
        entry.iter().for_each(log_entry);
        Ok(made)
    }

    /// The same, for changes that write their own log line. Returns the first entry, too.
    pub(crate) async fn elsewhere_unlogged<T>(
        &self,
        permission: Permission,
        change: Change,
        make: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<(T, Option<AuditEntry>), ApiError> {
        let object = change.what.clone();
        let (_, entry) = self.try_act(permission, OperatorAction::External(change), object.clone()).await??;
        match make().await {
            Ok(made) => Ok((made, entry)),
            Err(error) => {
                let by = self.caller.attribution(permission, None);
                self.access.record_failure(&self.engine, by, object, &error.description).await;
                Err(error)
            }
        }
    }

    /// Records a rejected attempt in the audit trail.
    pub(crate) async fn refused(&self, permission: Permission, object: String, error: &ApiError) {
        self.record_refusal(self.caller.attribution(permission, None), object, error).await;
    }

    async fn record_refusal(&self, by: AuditActor, object: String, error: &ApiError) {
        let is_proven = self.caller.is_proven();
        self.access.record_refusal(&self.engine, is_proven, by, object, &error.description).await;
    }
}

/// Submits an action, and waits until it is durable.
pub(crate) async fn submit(engine: &EngineHandle, act: AuditedCommand) -> Result<AuditedReply, ApiError> {
    match engine.submit(Command::Audited(Box::new(act)), Payload::default()).await? {
        Reply::Audited(acted) => Ok(*acted),
        Reply::Accepted | Reply::UnknownSender(_) | Reply::NeedsArchive | Reply::Admin(_) => {
            Err(ApiError::internal("The engine did not answer an operator's command"))
        }
    }
}

pub(crate) fn log_entry(entry: &AuditEntry) {
    let AuditEntry { number, by, object, before, after, refused, .. } = entry;
    let (what, from, to, operator) = (object, before, after, &by.operator);
    match refused {
        None => tracing::info!(number, %what, %from, %to, %operator, "an operator's change"),
        Some(why) => {
            tracing::warn!(number, %what, %from, %to, %operator, %why, "an operator's change failed")
        }
    }
}
