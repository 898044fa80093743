//! `GET /health` with the state of each part, and `GET /live`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_engine::{Availability, EngineStatus, StopReason};
use upesi_oidc::Provider;
use upesi_tables::store::StoreStats;

use crate::call::Call;
use crate::context::Process;
use crate::error::ApiError;
use crate::json::{Instant, Seconds, json, ok};
use crate::parts::Directory;

/// Error of a store that stopped after a failure.
const STORE_STOPPED: &str =
    "stopped after a disk failure: changes are rejected until a restart, reads continue";
/// Reason why a follower accepts no payments itself.
const FOLLOWS: &str = "this node is a follower; only the leader accepts payments";

/// The state of the hub and its parts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    #[serde(skip)]
    pub takes_payments: bool,
    pub status: &'static str,
    pub uptime: Seconds,
    pub start_time: Instant,
    pub version_number: &'static str,
    /// `empty` if there is no DFSP: the hub is new, or its data directory is the wrong one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ledger: Option<&'static str>,
    pub services: Vec<Service>,
}

/// The state of a part.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Service {
    pub name: &'static str,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Service {
    fn new(name: &'static str, fault: Option<String>) -> Self {
        Self { name, status: word(fault.is_none()), detail: fault }
    }
}

const fn word(is_up: bool) -> &'static str {
    if is_up { "OK" } else { "DOWN" }
}

/// Whether payments are accepted. The state of the store is not included. If a load balancer removed the hub because
/// nothing can be registered, this would also stop payments, and fulfils of payments that already hold money.
fn takes_payments(status: &EngineStatus) -> bool {
    status.serving == Availability::Yes
}

/// The parts of the hub. One of the first three is down if it prevents payments. The clock is down if its time is not
/// reliable, which stops nothing. The store, if there is one, is down after a disk failure. Identity providers, if
/// there are any, are down if their keys cannot be fetched; cached keys stay in use. `datastore` and `broker` are the
/// names that Mojaloop's monitors expect: the storage of payments (journal and archive) and the recipient of messages
/// (the engine).
fn services(
    status: &EngineStatus,
    store: Option<StoreStats>,
    providers: Option<Vec<String>>,
) -> Vec<Service> {
    let (mut journal, mut archive, mut engine) = (None, None, None);
    let clock = status.clock.fault();
    match &status.serving {
        Availability::Yes => {}
        Availability::ReadOnly => journal = Some("the disk is full".to_owned()),
        Availability::HeldUp => {
            journal = Some("the brokers of the cluster's log do not acknowledge".to_owned())
        }
        Availability::Following => engine = Some(FOLLOWS.to_owned()),
        Availability::Stopped(reason) => {
            engine = Some(reason.to_string());
            match reason {
                StopReason::Journal(fault) => journal = Some(fault.clone()),
                StopReason::Archive(fault) => archive = Some(fault.clone()),
                StopReason::Shutdown
                | StopReason::HandedOver
                | StopReason::Superseded(_)
                | StopReason::Panicked(_) => {}
            }
        }
    }
    let (datastore, broker) = (journal.clone().or_else(|| archive.clone()), engine.clone());
    let store = store.map(|store| store.poisoned.then(|| STORE_STOPPED.to_owned()));
    [
        ("journal", Some(journal)),
        ("archive", Some(archive)),
        ("engine", Some(engine)),
        ("clock", Some(clock)),
        ("store", store),
        ("datastore", Some(datastore)),
        ("broker", Some(broker)),
        ("identity provider", providers.map(|faults| (!faults.is_empty()).then(|| faults.join("; ")))),
    ]
    .into_iter()
    .filter_map(|(name, fault)| Some(Service::new(name, fault?)))
    .collect()
}

/// 200 while payments are accepted, otherwise 502.
pub(crate) async fn get(
    call: Call,
    State(process): State<Process>,
    State(directory): State<Directory>,
    State(provider_of_clients): State<Option<Provider>>,
) -> Result<Response, ApiError> {
    let health = report(&call, process, &directory, provider_of_clients.as_ref());
    json(if health.takes_payments { StatusCode::OK } else { StatusCode::BAD_GATEWAY }, &health)
}

/// The state of the hub, of its parts, and of the identity providers.
pub(crate) fn report(
    call: &Call,
    process: Process,
    directory: &Directory,
    provider_of_clients: Option<&Provider>,
) -> Health {
    let status = call.engine.status();
    let store = directory.get().ok().map(|directory| directory.built_in.store().stats());
    let is_up = takes_payments(&status);
    let providers: Vec<_> = call.access.providers().chain(provider_of_clients).collect();
    let providers = (!providers.is_empty())
        .then(|| providers.into_iter().filter_map(Provider::fault).collect::<Vec<_>>());
    let services = services(&status, store, providers);
    Health {
        takes_payments: is_up,
        status: word(is_up),
        uptime: Seconds { ms: u64::try_from(process.started.elapsed().as_millis()).unwrap_or(u64::MAX) },
        start_time: Instant(process.started_at),
        version_number: process.version,
        ledger: status.is_new.then_some("empty"),
        services,
    }
}

#[derive(Serialize)]
struct LivenessAnswer {
    status: &'static str,
}

/// 200 as long as the process answers.
pub(crate) async fn live() -> Result<Response, ApiError> {
    ok(&LivenessAnswer { status: word(true) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_engine::ClockState;

    #[test]
    fn health_names_failed_parts_and_ignores_the_store_for_payments() {
        let stopped = |reason| Availability::Stopped(reason);
        for (serving, poisoned, down, is_up) in [
            (Availability::Yes, false, vec![], true),
            (Availability::Yes, true, vec!["store"], true),
            (Availability::ReadOnly, false, vec!["journal", "datastore"], false),
            (Availability::ReadOnly, true, vec!["journal", "store", "datastore"], false),
            (Availability::HeldUp, false, vec!["journal", "datastore"], false),
            (
                stopped(StopReason::Journal("I/O error".into())),
                false,
                vec!["journal", "engine", "datastore", "broker"],
                false,
            ),
            (
                stopped(StopReason::Archive("I/O error".into())),
                false,
                vec!["archive", "engine", "datastore", "broker"],
                false,
            ),
            (Availability::Following, false, vec!["engine", "broker"], false),
            (stopped(StopReason::Shutdown), false, vec!["engine", "broker"], false),
        ] {
            let status = EngineStatus {
                serving: serving.clone(),
                queue_depth: 0,
                durable_seq: 0,
                archived_seq: 0,
                is_durable: true,
                clock: ClockState::default(),
                is_new: false,
            };
            let store = StoreStats { poisoned, ..StoreStats::default() };
            let services = services(&status, Some(store), None);
            let found: Vec<_> = services
                .iter()
                .filter(|service| service.status == "DOWN")
                .map(|service| service.name)
                .collect();
            assert_eq!(found, down, "{serving:?}");
            assert!(services.iter().all(|service| service.detail.is_some() == (service.status == "DOWN")));
            assert_eq!(takes_payments(&status), is_up, "{serving:?}");
        }
    }

    #[test]
    fn health_of_a_hub_without_store_omits_it() {
        let status = EngineStatus {
            serving: Availability::Yes,
            queue_depth: 0,
            durable_seq: 0,
            archived_seq: 0,
            is_durable: true,
            clock: ClockState { jump_ms: -86_400_000, ahead_ms: 0 },
            is_new: true,
        };
        let services = services(&status, None, None);
        let names: Vec<_> = services.iter().map(|service| service.name).collect();
        assert_eq!(names, ["journal", "archive", "engine", "clock", "datastore", "broker"]);
        // A wrong clock is reported, and stops nothing.
        assert_eq!((services[3].status, takes_payments(&status)), ("DOWN", true));
        assert!(services[3].detail.as_ref().unwrap().contains("86400.000 s back"), "{services:?}");
    }
}
