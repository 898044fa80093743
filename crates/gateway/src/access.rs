//! The access log: one line per request, for those who ask for it.
//!
//! A line names what was asked, by whom, how it was answered and how long that took. Party identifiers are personal, so
//! of paths only those of transfers show their ids, which are not; bodies never show.

use http::StatusCode;
use tokio::time::Instant;
use upesi_fspiop::{Route, Segments};

use crate::caller::Caller;
use crate::metrics::Labels;

/// The target of the lines, for directives such as `upesi_access=off`.
const TARGET: &str = "upesi_access";

/// A request whose line is to be written. `None` costs nothing.
#[derive(Debug)]
pub(crate) struct Access {
    source: Box<str>,
    id: Box<str>,
}

impl Access {
    /// Of a request, where lines are wanted.
    pub(crate) fn of(is_wanted: bool, caller: Caller<'_>, route: Option<Route<'_>>) -> Option<Self> {
        if !is_wanted {
            return None;
        }
        let id = match route {
            Some(Route { operation, segments: Segments::Id(id) }) if operation.resource().moves_money() => id,
            _ => "-",
        };
        Some(Self { source: caller.name().into(), id: id.into() })
    }

    /// Writes the line.
    pub(crate) fn log(self, labels: Labels, status: StatusCode, received: Instant) {
        let Self { source, id } = self;
        let duration_us = u64::try_from(received.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (Labels { method, resource }, status) = (labels, status.as_u16());
        tracing::info!(target: TARGET, method, resource, %source, %id, status, duration_us, "answered");
    }
}
