//! The dependencies of the API: the engine, and parts of the process.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::FromRef;
use tokio::sync::Semaphore;
use upesi_engine::{Clock, EngineHandle, ResponseTimes};
use upesi_http::Schemes;
use upesi_oidc::Provider;
use upesi_types::Timestamp;

use crate::access::Access;
use crate::audit::AuditPort;
use crate::follower::FollowedNow;
use crate::hosts::{AllowedHosts, AllowedOrigins};
use crate::metrics_text::MetricsText;
use crate::parts::{Directory, DirectoryHandle, FixedLog, Holders, Lanes, LogLevel, NoLanes};
use crate::public_keys::{HubKeys, SignatureKeyRules};
use crate::searches::Searches;
use crate::stored_quote::FindQuote;

const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The dependencies of the API. Cheap to clone. A handler gets only the parts that it names as extractors, such
/// as `State<AuditPort>`, and the `Call` of its caller.
#[derive(Clone)]
pub struct AdminContext {
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
    pub response_times: ResponseTimes,
    pub metrics: MetricsText,
    /// Memory use of the hub's parts for `/debug/heap`; `None` if profiling is disabled.
    pub profiling: Option<Holders>,
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
    pub audit: AuditPort,
    /// The provider of DFSPs' tokens on the FSPIOP port, for `/health`.
    pub provider_of_clients: Option<Provider>,
    /// Authentication of callers.
    pub access: Access,
    /// Permit for computing the diff of a change set.
    pub diffs: Diffs,
    /// Permits for searches of transfers.
    pub searches: Searches,
    /// Protections outside this API, for the banner of pages.
    pub protections: Protections,
}

/// Protections that an operator may have switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protections {
    /// Whether the admin port uses TLS.
    pub has_admin_tls: bool,
    /// Whether the FSPIOP port uses TLS.
    pub has_fspiop_tls: bool,
    /// Whether the signatures of DFSPs are verified.
    pub verifies_signatures: bool,
}

impl AdminContext {
    /// A context with the defaults: host name `central-ledger`, no directory, no quotes, no lanes, no metrics, a fixed
    /// log level, requests to any host.
    pub fn new(engine: EngineHandle) -> Self {
        let started_at = engine.clock().now();
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
            access: Access::open(),
            diffs: Diffs(Arc::new(Semaphore::new(1))),
            searches: Searches::default(),
            protections: Protections::default(),
        }
    }
}

impl fmt::Debug for AdminContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminContext").field("hostname", &self.hostname).finish_non_exhaustive()
    }
}

/// Permit for computing the diff of a change set, which occupies the deciding thread.
#[derive(Clone, Debug)]
pub struct Diffs(pub(crate) Arc<Semaphore>);

/// The version and the start of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    pub(crate) version: &'static str,
    pub(crate) started: Instant,
    pub(crate) started_at: Timestamp,
}

/// Host in the links of answers.
#[derive(Clone, Debug)]
pub(crate) struct Hostname(pub(crate) Arc<str>);

/// This node of a cluster.
#[derive(Clone)]
pub(crate) struct NodeOfCluster {
    /// Its number, if the hub is part of a cluster.
    pub(crate) number: Option<u32>,
    /// Lets a follower claim leadership.
    pub(crate) promote: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl FromRef<AdminContext> for Process {
    fn from_ref(context: &AdminContext) -> Self {
        let AdminContext { version, started, started_at, .. } = *context;
        Self { version, started, started_at }
    }
}

impl FromRef<AdminContext> for Hostname {
    fn from_ref(context: &AdminContext) -> Self {
        Self(Arc::clone(&context.hostname))
    }
}

impl FromRef<AdminContext> for NodeOfCluster {
    fn from_ref(context: &AdminContext) -> Self {
        Self { number: context.node, promote: context.promote.clone() }
    }
}

impl FromRef<AdminContext> for Directory {
    fn from_ref(context: &AdminContext) -> Self {
        Self(context.directory.clone())
    }
}

/// Rows are `Type: field;`: a handler may extract the field as `State<Type>`.
macro_rules! extracted {
    ($($kind:ty: $field:ident;)*) => {
        $(impl FromRef<AdminContext> for $kind {
            fn from_ref(context: &AdminContext) -> Self {
                context.$field.clone()
            }
        })*
    };
}

extracted! {
    Option<FindQuote>: quotes;
    Arc<dyn Lanes>: lanes;
    ResponseTimes: response_times;
    MetricsText: metrics;
    Option<Holders>: profiling;
    Arc<dyn LogLevel>: log_level;
    Schemes: schemes;
    HubKeys: hub_keys;
    SignatureKeyRules: signature_keys;
    AuditPort: audit;
    Option<Provider>: provider_of_clients;
    Diffs: diffs;
}
