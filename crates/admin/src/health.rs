//! `GET /health` with the state of each part, and `GET /live`.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_engine::{EngineStatus, Serving, StopReason};

use crate::context::AdminContext;
use crate::error::ApiError;
use crate::json::{Instant, Seconds, json, ok};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    status: &'static str,
    uptime: Seconds,
    start_time: Instant,
    version_number: &'static str,
    services: Vec<Service>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Service {
    name: &'static str,
    status: &'static str,
    /// What is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

impl Service {
    fn new(name: &'static str, fault: Option<String>) -> Self {
        Self { name, status: word(fault.is_none()), detail: fault }
    }
}

const fn word(is_up: bool) -> &'static str {
    if is_up { "OK" } else { "DOWN" }
}

/// The parts of the hub. A part is down when the hub cannot take payments for its sake.
fn services(status: &EngineStatus) -> Vec<Service> {
    let (mut journal, mut archive, mut engine) = (None, None, None);
    match &status.serving {
        Serving::Yes => {}
        Serving::ReadOnly => journal = Some("there is no room on the disk".to_owned()),
        Serving::Stopped(reason) => {
            engine = Some(reason.to_string());
            match reason {
                StopReason::Journal(fault) => journal = Some(fault.clone()),
                StopReason::Archive(fault) => archive = Some(fault.clone()),
                StopReason::Shutdown => {}
            }
        }
    }
    vec![Service::new("journal", journal), Service::new("archive", archive), Service::new("engine", engine)]
}

/// 200 when all is well, else 502.
pub(crate) async fn get(State(context): State<AdminContext>) -> Result<Response, ApiError> {
    let services = services(&context.engine.status());
    let is_up = services.iter().all(|service| service.detail.is_none());
    let health = Health {
        status: word(is_up),
        uptime: Seconds { ms: u64::try_from(context.started.elapsed().as_millis()).unwrap_or(u64::MAX) },
        start_time: Instant(context.started_at),
        version_number: context.version,
        services,
    };
    json(if is_up { StatusCode::OK } else { StatusCode::BAD_GATEWAY }, &health)
}

#[derive(Serialize)]
struct Live {
    status: &'static str,
}

/// 200 for as long as the process answers at all.
pub(crate) async fn live() -> Result<Response, ApiError> {
    ok(&Live { status: word(true) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_down_when_payments_stop_for_its_sake() {
        let stopped = |reason| Serving::Stopped(reason);
        for (serving, down) in [
            (Serving::Yes, vec![]),
            (Serving::ReadOnly, vec!["journal"]),
            (stopped(StopReason::Journal("I/O error".into())), vec!["journal", "engine"]),
            (stopped(StopReason::Archive("I/O error".into())), vec!["archive", "engine"]),
            (stopped(StopReason::Shutdown), vec!["engine"]),
        ] {
            let status = EngineStatus {
                serving: serving.clone(),
                queue_depth: 0,
                durable_seq: 0,
                archived_seq: 0,
                is_durable: true,
            };
            let services = services(&status);
            let found: Vec<_> = services
                .iter()
                .filter(|service| service.status == "DOWN")
                .map(|service| service.name)
                .collect();
            assert_eq!(found, down, "{serving:?}");
        }
    }
}
