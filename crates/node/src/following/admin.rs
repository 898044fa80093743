//! The admin port of a follower: what it has read, as soon as it has a state to read from.

use std::fmt::Debug;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use upesi_admin::{AdminContext, AdminService, MetricsText, not_yet};
use upesi_engine::EngineHandle;
use upesi_http::server::Refusal;
use upesi_http::{Bytes, Connection, Full, Incoming, Pace, Request, Response, Service};
use upesi_settings::Settings;

use crate::cluster::config::number_of;
use crate::follower_state::Read;
use crate::issuers::Providers;
use crate::logging::LogControl;
use crate::options;
use crate::signatures::Signatures;

/// Creates the service once there is a state.
type Make = Box<dyn Fn(EngineHandle) -> AdminService + Send + Sync>;

/// The admin API of a follower.
pub(super) struct StandbyAdmin {
    read: Read,
    make: Make,
    service: OnceLock<AdminService>,
    /// Rate limit for requests before the service exists.
    pace: Pace,
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
            context.allowed_origins = options::allowed_origins(&settings);
            context.provider_of_clients = providers.of_clients.clone();
            context.hub_keys = Arc::clone(&hub_keys);
            context.signature_keys = signature_keys.clone();
            context.node = number_of(&settings);
            if let Some(callbacks) = followed.callbacks.get() {
                context.lanes = Arc::new(callbacks.courier.clone());
            }
            let (is_promoted, is_unfit) = (Arc::clone(&followed.is_promoted), Arc::clone(&followed.is_unfit));
            context.promote = Some(Arc::new(move || {
                if is_unfit.load(Ordering::Acquire) {
                    tracing::error!("this node cannot become leader: its state has failed; restart it");
                }
                is_promoted.store(true, Ordering::Release);
            }));
            let followed = followed.clone();
            context.followed = Some(Arc::new(move || followed.now()));
            // A follower has no logins, so second factors are not opened.
            context.access = options::access(&settings, providers.issuers.clone(), None);
            AdminService::new(context)
        };
        Self { read: read.clone(), make: Box::new(make), service: OnceLock::new(), pace: Pace::default() }
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
            None => {
                self.pace.keep_patiently(connection).await;
                not_yet()
            }
        }
    }

    async fn hold_back(&self, connection: &Connection) {
        self.pace.keep_patiently(connection).await;
    }

    fn reject(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        self.service().map_or_else(not_yet, |service| service.reject(request, refusal))
    }

    fn refuse(&self) -> Response<Full<Bytes>> {
        self.service().map_or_else(not_yet, Service::refuse)
    }
}
