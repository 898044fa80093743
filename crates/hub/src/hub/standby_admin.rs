//! Operators' port of a node that follows: what it has read, as soon as it has a state to read from.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock, PoisonError};

use upesi_admin::{AdminContext, AdminService, Followed, MetricsText, not_yet};
use upesi_engine::EngineHandle;
use upesi_http::server::Refusal;
use upesi_http::{Bytes, Connection, Full, Incoming, Request, Response, Service};

use super::following::Read;
use super::issuers::Providers;
use super::signatures::Signatures;
use super::{cluster, options};
use crate::config::Settings;
use crate::logging::LogControl;

/// Makes the service once there is a state.
type Make = Box<dyn Fn(EngineHandle) -> AdminService + Send + Sync>;

/// The admin API of a node that follows.
pub(super) struct StandbyAdmin {
    read: Read,
    make: Make,
    service: OnceLock<AdminService>,
}

impl Debug for StandbyAdmin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StandbyAdmin").field("service", &self.service).finish_non_exhaustive()
    }
}

impl StandbyAdmin {
    pub(super) fn new(
        settings: &Settings,
        read: &Read,
        (signatures, providers): (&Signatures, &Providers),
        (metrics, log): (MetricsText, LogControl),
    ) -> Self {
        let (settings, followed, providers) = (settings.clone(), read.clone(), providers.clone());
        let (hub_keys, signature_keys) = (signatures.hub_keys(), signatures.participants_keys(&settings));
        let log: Arc<dyn upesi_admin::LogLevel> = Arc::new(log);
        let make = move |engine: EngineHandle| {
            let mut context = AdminContext::new(engine);
            context.hostname = settings.admin.hostname.as_str().into();
            context.metrics = metrics.clone();
            // Nothing here has a list of what it holds.
            context.profiling = settings.admin.profiling.then(|| Arc::new(Vec::new) as upesi_admin::Holders);
            context.log_level = Arc::clone(&log);
            context.allowed_hosts = Some(options::allowed_hosts(&settings));
            context.provider_of_clients = providers.of_clients.clone();
            context.hub_keys = Arc::clone(&hub_keys);
            context.signature_keys = signature_keys.clone();
            context.node = cluster::number_of(&settings);
            let followed = followed.clone();
            context.followed = Some(Arc::new(move || followed.now()));
            // Nobody logs in here, so second factors are not opened.
            let access = options::access(&settings, providers.issuers.clone(), None);
            AdminService::new(context.with_access(access))
        };
        Self { read: read.clone(), make: Box::new(make), service: OnceLock::new() }
    }

    fn service(&self) -> Option<&AdminService> {
        let engine = self.read.engine.get()?;
        Some(self.service.get_or_init(|| (self.make)(engine.clone())))
    }
}

impl Service for StandbyAdmin {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        match self.service() {
            Some(service) => service.call(request, connection).await,
            None => not_yet(),
        }
    }

    fn reject(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        self.service().map_or_else(not_yet, |service| service.reject(request, refusal))
    }

    fn refuse(&self) -> Response<Full<Bytes>> {
        self.service().map_or_else(not_yet, Service::refuse)
    }
}

impl Read {
    /// How far this node is, for operators.
    fn now(&self) -> Followed {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let record = self.engine.get().map_or(0, |engine| engine.status().durable_seq);
        Followed { leader, age_ms: self.metrics.behind_ms(), record }
    }
}
