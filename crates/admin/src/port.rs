//! The admin port of a node, which serves the API of the node's current role. Connections stay open when the role
//! changes.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use upesi_http::server::Refusal;
use upesi_http::{Bytes, Connection, Full, Incoming, Pace, Request, Response, Service};

use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::service::{AdminService, answer};

/// Serves the API of the current role. Clones share it.
#[derive(Clone, Default)]
pub struct AdminPort(Arc<PortState>);

#[derive(Default)]
struct PortState {
    service: RwLock<Option<Arc<AdminService>>>,
    /// Rate limit for requests while the port has no service.
    pace: Pace,
}

impl AdminPort {
    /// Changes the API; `None` while the node has no state to answer from. Requests in flight keep the previous one.
    pub fn set(&self, service: Option<AdminService>) {
        *self.0.service.write().unwrap_or_else(PoisonError::into_inner) = service.map(Arc::new);
    }

    fn service(&self) -> Option<Arc<AdminService>> {
        self.0.service.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for AdminPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdminPort").field(&self.service()).finish()
    }
}

impl Service for AdminPort {
    async fn call(&self, request: Request<Incoming>, connection: &Connection) -> Response<Full<Bytes>> {
        match self.service() {
            Some(service) => service.call(request, connection).await,
            None => {
                self.0.pace.keep_patiently(connection).await;
                not_yet()
            }
        }
    }

    async fn hold_back(&self, connection: &Connection) {
        self.0.pace.keep_patiently(connection).await;
    }

    fn reject(&self, request: &Request<Incoming>, refusal: Refusal) -> Response<Full<Bytes>> {
        self.service().map_or_else(not_yet, |service| service.reject(request, refusal))
    }

    fn refuse(&self) -> Response<Full<Bytes>> {
        self.service().map_or_else(not_yet, |service| service.refuse())
    }
}

/// The answer of a node that has not read its copy yet.
fn not_yet() -> Response<Full<Bytes>> {
    answer(ApiError::new(ErrorName::FollowerNotReady, "This node has not read its copy yet"))
}
