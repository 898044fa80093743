//! The dependencies of the API: the engine, and parts of the process.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use upesi_engine::{Clock, EngineHandle, Payload, ResponseTimes};
use upesi_http::Schemes;
use upesi_ledger::command::{Act, Deed};
use upesi_ledger::{AdminCommand, AdminOutcome, AdminRefusal, Change, Command, Ledger, Reply};
use upesi_oidc::Provider;
use upesi_types::Timestamp;

use crate::access::{Access, Caller, Permission, Rights, forbidden, may_change_in_emergency, permission_of};
use crate::approvals;
use crate::audit::AuditPort;
use crate::collector::Collector;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::follower::FollowedNow;
use crate::hosts::{AllowedHosts, AllowedOrigins};
use crate::metrics_text::MetricsText;
use crate::parts::{DirectoryHandle, FixedLog, Holders, Lanes, LogLevel, NoLanes};
use crate::public_keys::{HubKeys, SignatureKeyRules};
use crate::stored_quote::FindQuote;

const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The dependencies of the API. Cheap to clone.
#[derive(Clone)]
pub struct AdminContext {
    /// The hub's engine.
    pub engine: EngineHandle,
    /// Host in the links of answers, with a port if it has one.
    pub hostname: Arc<str>,
    /// Version of the hub, for `/health`.
    pub version: &'static str,
    /// The party directory and the oracles; without them, those resources answer 501.
    pub directory: Option<DirectoryHandle>,
    /// The stored quotes; `None` if quotes are not stored.
    pub quotes: Option<FindQuote>,
    /// The lanes of callbacks.
    pub lanes: Arc<dyn Lanes>,
    /// Response times of DFSPs.
    pub response_times: ResponseTimes,
    /// The metrics.
    pub metrics: MetricsText,
    /// Memory use of the hub's parts for `/debug/heap`; `None` if profiling is disabled.
    pub profiling: Option<Holders>,
    /// The log's level.
    pub log_level: Arc<dyn LogLevel>,
    /// Rules for the addresses of endpoints.
    pub schemes: Schemes,
    /// Host names that requests may use; `None` for any.
    pub allowed_hosts: Option<AllowedHosts>,
    /// Origins of the port's own pages, in addition to the host of the request.
    pub allowed_origins: AllowedOrigins,
    /// Time limit for a request's body.
    pub body_timeout: Duration,
    /// Start of the process, for its uptime.
    pub started: Instant,
    /// Start of the process by the calendar.
    pub started_at: Timestamp,
    /// The public keys of the hub's signatures.
    pub hub_keys: HubKeys,
    /// Rules and files of participants' keys, in addition to the ledger.
    pub signature_keys: SignatureKeyRules,
    /// Number of this node, if the hub is part of a cluster.
    pub node: Option<u32>,
    /// Progress of this node, if it is a follower. Then reads are answered, and changes are not.
    pub followed: Option<FollowedNow>,
    /// Lets a follower claim leadership.
    pub promote: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The audit trail.
    pub audit: AuditPort,
    /// The provider of DFSPs' tokens on the FSPIOP port, for `/health`.
    pub provider_of_clients: Option<Provider>,
    /// Authentication of callers.
    pub access: Access,
    /// Permit for computing the diff of a change set.
    pub diffs: Arc<Semaphore>,
    /// The caller. Each request has its own.
    pub caller: Arc<Caller>,
}

impl AdminContext {
    /// A context with the defaults: host name `central-ledger`, no directory, no quotes, no lanes, no metrics, a fixed
    /// log level, requests to any host.
    pub fn new(engine: EngineHandle) -> Self {
        let started_at = engine.clock().now();
        let access = Access::open();
        let caller = Arc::new(access.stranger(None));
        Self {
            engine,
            hostname: "central-ledger".into(),
            version: env!("CARGO_PKG_VERSION"),
            directory: None,
            quotes: None,
            lanes: Arc::new(NoLanes),
            response_times: ResponseTimes::default(),
            metrics: MetricsText::new(Duration::ZERO, String::new),
            profiling: None,
            log_level: Arc::new(FixedLog),
            schemes: Schemes::default(),
            allowed_hosts: None,
            allowed_origins: AllowedOrigins::default(),
            body_timeout: BODY_TIMEOUT,
            started: Instant::now(),
            started_at,
            hub_keys: Arc::new(Vec::new),
            signature_keys: SignatureKeyRules::default(),
            node: None,
            followed: None,
            promote: None,
            audit: AuditPort::new(None),
            provider_of_clients: None,
            access,
            diffs: Arc::new(Semaphore::new(1)),
            caller,
        }
    }

    /// Sets the authentication of callers.
    pub fn with_access(self, access: Access) -> Self {
        let caller = Arc::new(access.stranger(None));
        Self { access, caller, ..self }
    }

    /// Makes a change, with its entry in the audit trail, and waits until both are durable. The log shows the old and
    /// the new value; another operator's concurrent change may lie between. If the change needs an approval, that is
    /// the error.
    pub(crate) async fn change(&self, command: AdminCommand) -> Result<AdminOutcome, ApiError> {
        match self.change_or_propose(command).await? {
            AdminOutcome::Proposed(id) => Err(approvals::waits(self, id).await?),
            outcome => Ok(outcome),
        }
    }

    /// Makes a change, or proposes it for approval.
    pub(crate) async fn change_or_propose(&self, command: AdminCommand) -> Result<AdminOutcome, ApiError> {
        if let Some(collector) = &self.caller.collector {
            return Err(self.collect(collector, command).await);
        }
        let asked = command.clone();
        let looked = self.ask(move |ledger| {
            let permission = permission_of(ledger.action_of(&asked));
            (Change::of(&asked, ledger), permission, may_change_in_emergency(&asked, ledger))
        });
        let (change, permission, is_for_emergencies) = looked.await?;
        if self.caller.rights == Rights::Emergency && !is_for_emergencies {
            let error = forbidden(
                ErrorName::EmergencyOnly,
                "break-glass lets an iam-admin in again who was switched off, and changes no other",
            );
            self.refused(permission, change.what, &error).await;
            return Err(error);
        }
        self.act(permission, Deed::Change(command), change).await
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

    /// Performs an action, with its entry in the audit trail.
    pub(crate) async fn act(
        &self,
        permission: Permission,
        deed: Deed,
        change: Change,
    ) -> Result<AdminOutcome, ApiError> {
        let what = change.what.clone();
        match self.try_act(permission, deed, change).await? {
            Ok(outcome) => Ok(outcome),
            Err(refusal) => {
                let error = ApiError::from(refusal);
                self.refused(permission, what, &error).await;
                Err(error)
            }
        }
    }

    /// Performs an action; if the ledger rejects it, there is no entry.
    pub(crate) async fn try_act(
        &self,
        permission: Permission,
        deed: Deed,
        change: Change,
    ) -> Result<Result<AdminOutcome, AdminRefusal>, ApiError> {
        if self.caller.collector.is_some() {
            return Err(ApiError::new(
                ErrorName::ChangeSetKind,
                "The change is not made as part of a change set",
            ));
        }
        if let Err(error) = self.caller.check(&[permission]) {
            self.refused(permission, change.what, &error).await;
            return Err(error);
        }
        let by = self.caller.attribution(permission, deed.reason());
        let is_elsewhere = matches!(deed, Deed::Elsewhere(_));
        let is_alone = self.access.acts_alone(&self.caller);
        let command = Command::Act(Box::new(Act { by, deed, is_alone }));
        match self.engine.submit(command, Payload::default()).await? {
            Reply::Admin(Ok(outcome)) => {
                if !is_elsewhere {
                    log_change(change, &outcome, &self.caller);
                }
                Ok(Ok(outcome))
            }
            Reply::Admin(Err(refusal)) => Ok(Err(refusal)),
            Reply::Accepted | Reply::UnknownSender(_) | Reply::NeedsArchive => {
                Err(ApiError::internal("The engine gave no answer to an operator's command"))
            }
        }
    }

    /// Makes a change outside the ledger. Its entry in the audit trail is recorded before; a further entry records
    /// whether the change then failed.
    pub(crate) async fn elsewhere<T>(
        &self,
        permission: Permission,
        change: Change,
        make: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let made = self.elsewhere_unlogged(permission, change.clone(), make).await?;
        log_change(change, &AdminOutcome::Done, &self.caller);
        Ok(made)
    }

    /// The same, for changes that write their own log line.
    pub(crate) async fn elsewhere_unlogged<T>(
        &self,
        permission: Permission,
        change: Change,
        make: impl AsyncFnOnce() -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let object = change.what.clone();
        self.act(permission, Deed::Elsewhere(change.clone()), change).await?;
        let made = make().await;
        if let Err(error) = &made {
            let by = self.caller.attribution(permission, None);
            self.access.record_failure(&self.engine, by, object, &error.description).await;
        }
        made
    }

    /// Records a rejected attempt in the audit trail.
    pub(crate) async fn refused(&self, permission: Permission, object: String, error: &ApiError) {
        let (by, is_proven) = (self.caller.attribution(permission, None), self.caller.is_proven());
        self.access.record_refusal(&self.engine, is_proven, by, object, &error.description).await;
    }

    /// Queries the durable state.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        Ok(self.engine.read(question).await?)
    }
}

impl fmt::Debug for AdminContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminContext").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// Logs an operator's change, if it changed anything.
pub(crate) fn log_change(change: Change, outcome: &AdminOutcome, by: &Caller) {
    if let Some(Change { what, from, to }) = change.made(outcome) {
        tracing::info!(%what, %from, %to, operator = %by.operator, "an operator's change");
    }
}
