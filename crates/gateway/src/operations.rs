//! The endpoints beside the FSPIOP API: metadata, health, and the API's documents.

use std::fmt::Write;

use bytes::Bytes;
use http::{Method, StatusCode};
use upesi_apidocs::{ApiPort, File};
use upesi_engine::{Availability, ClockState, EngineStatus};
use upesi_fspiop::PATHS;
use upesi_types::Timestamp;

use crate::answer::{self, Answer};
use crate::config::GatewayConfig;
use crate::role::{FollowerState, HubRole};

/// An endpoint beside the FSPIOP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperatorEndpoint {
    /// `GET /health`: whether the hub accepts requests.
    Health,
    /// `GET /live`: whether the process answers.
    Live,
    /// `DELETE /endpointcache`: operators' scripts call it after changing endpoints. Endpoints are never cached, but
    /// answers of oracles may be; they are dropped.
    EndpointCache,
    /// `GET /openapi.yaml` and `GET /docs` with its parts: documentation of this API.
    File(&'static File),
    /// `GET /`: a list of the endpoints.
    Metadata,
}

const ENDPOINTS: [(&str, OperatorEndpoint); 4] = [
    ("/health", OperatorEndpoint::Health),
    ("/live", OperatorEndpoint::Live),
    ("/endpointcache", OperatorEndpoint::EndpointCache),
    ("/", OperatorEndpoint::Metadata),
];

impl OperatorEndpoint {
    /// The endpoint at a path without its query.
    pub(crate) fn find(path: &str) -> Option<Self> {
        let found = ENDPOINTS.iter().find(|(own, _)| *own == path).map(|(_, endpoint)| *endpoint);
        found.or_else(|| ApiPort::Fspiop.file(path).map(Self::File))
    }

    /// The methods, as the `Allow` header lists them.
    pub(crate) const fn allow(self) -> &'static str {
        match self {
            Self::EndpointCache => "DELETE",
            _ => "GET, HEAD",
        }
    }

    pub(crate) fn takes(self, method: &Method) -> bool {
        self.allow().split(", ").any(|allowed| allowed == method.as_str())
    }

    /// Whether load balancers and service managers call this endpoint and act on its answer.
    pub(crate) const fn is_for_probes(self) -> bool {
        matches!(self, Self::Health | Self::Live)
    }

    /// Label of metrics: the path, without its slash unless that is all of it.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Metadata => "/",
            Self::Health => "health",
            Self::Live => "live",
            Self::EndpointCache => "endpointcache",
            Self::File(_) => "docs",
        }
    }
}

/// The entries of `GET /`: path templates and their methods, without the parts of the documentation page.
fn directory() -> impl Iterator<Item = (&'static str, String)> {
    let api = PATHS.iter().map(|path| (path.template(), path.served_methods()));
    let files = ApiPort::Fspiop.files().map(File::path).filter(|path| !path.starts_with("/docs/"));
    let own = ENDPOINTS.iter().map(|(path, endpoint)| (*path, endpoint.allow()));
    let own = own.chain(files.map(|path| (path, "GET, HEAD")));
    api.filter(|(_, methods)| !methods.is_empty())
        .chain(own.map(|(path, methods)| (path, methods.trim_end_matches(", HEAD").to_owned())))
}

/// The body of `GET /`.
pub(crate) fn metadata(config: &GatewayConfig) -> Bytes {
    let mut text = format!(
        r#"{{"name":"upesi","versionNumber":"{}","hubName":{},"protocolVersions":["#,
        env!("CARGO_PKG_VERSION"),
        json_text(config.hub_name.as_str()),
    );
    // Writing to a `String` cannot fail.
    for (index, version) in config.headers.versions.accepted.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}"{version}""#);
    }
    text.push_str(r#"],"directory":{"#);
    for (index, (path, methods)) in directory().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let _ = write!(text, r#"{comma}"{path}":"{methods}""#);
    }
    text.push_str("}}");
    Bytes::from(text)
}

/// A JSON string of printable ASCII text, such as a name.
fn json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The answer to `GET /health`: 200 while the hub accepts transfers, otherwise 502, the status that Mojaloop uses.
pub(crate) fn health<H>(role: &HubRole<H>, started_at: Timestamp, now: Timestamp) -> Answer {
    let (code, body) = match role {
        HubRole::Starting => return bare_health(false),
        HubRole::Leads(leading) => health_text(&leading.engine.status(), started_at, now),
        HubRole::Follows(following) => follower_text((following.health)(), started_at, now),
    };
    answer::json(code, body)
}

/// The status alone, for clients that are not operators.
pub(crate) fn bare_health(is_good: bool) -> Answer {
    match is_good {
        true => answer::json(StatusCode::OK, r#"{"status":"OK"}"#),
        false => answer::json(StatusCode::BAD_GATEWAY, r#"{"status":"DOWN"}"#),
    }
}

fn follower_text(state: FollowerState, started_at: Timestamp, now: Timestamp) -> (StatusCode, String) {
    let (code, status) =
        if state.is_current { (StatusCode::OK, "OK") } else { (StatusCode::BAD_GATEWAY, "DOWN") };
    let body = format!(
        concat!(
            r#"{{"status":"{status}","uptime":{},"startTime":"{}","versionNumber":"{}",{empty}"role":"follower","services":["#,
            r#"{{"name":"copy","status":"{status}"}},{{"name":"clock","status":"{clock}"}},"#,
            r#"{{"name":"broker","status":"{status}"}},{{"name":"datastore","status":"{status}"}}]}}"#
        ),
        now.ms_since(started_at).max(0) / 1000,
        started_at,
        env!("CARGO_PKG_VERSION"),
        status = status,
        clock = clock_text(state.clock),
        empty = empty_text(state.is_new),
    );
    (code, body)
}

/// The member that reports a ledger without a DFSP.
const fn empty_text(is_new: bool) -> &'static str {
    if is_new { r#""ledger":"empty","# } else { "" }
}

/// Payments are accepted in every state.
const fn clock_text(clock: ClockState) -> &'static str {
    if clock.is_good() { "OK" } else { "DOWN" }
}

fn health_text(status: &EngineStatus, started_at: Timestamp, now: Timestamp) -> (StatusCode, String) {
    let (code, overall, ledger, journal) = match status.serving {
        Availability::Yes => (StatusCode::OK, "OK", "OK", "OK"),
        // The disk is full, or the brokers do not acknowledge: no request can be accepted until this changes.
        Availability::ReadOnly | Availability::HeldUp => (StatusCode::BAD_GATEWAY, "DOWN", "OK", "DOWN"),
        Availability::Following | Availability::Stopped(_) => {
            (StatusCode::BAD_GATEWAY, "DOWN", "DOWN", "DOWN")
        }
    };
    let body = format!(
        concat!(
            r#"{{"status":"{}","uptime":{},"startTime":"{}","versionNumber":"{}",{empty}"services":["#,
            r#"{{"name":"ledger","status":"{ledger}"}},{{"name":"journal","status":"{journal}"}},"#,
            r#"{{"name":"clock","status":"{clock}"}},"#,
            // The same value under the names that monitors of Mojaloop look for.
            r#"{{"name":"broker","status":"{ledger}"}},{{"name":"datastore","status":"{journal}"}}]}}"#
        ),
        overall,
        now.ms_since(started_at).max(0) / 1000,
        started_at,
        env!("CARGO_PKG_VERSION"),
        ledger = ledger,
        journal = journal,
        clock = clock_text(status.clock),
        empty = empty_text(status.is_new),
    );
    (code, body)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::watch;
    use upesi_engine::{SharedParticipants, StopReason, SystemClock};
    use upesi_types::FspId;

    use super::*;
    use crate::nodes::{KnownLeader, Peers, RequestForwarder};
    use crate::role::FollowerRole;

    #[test]
    fn health_follows_the_engine() {
        for (serving, code, states) in [
            (Availability::Yes, 200, ["OK", "OK"]),
            (Availability::ReadOnly, 502, ["OK", "DOWN"]),
            (Availability::HeldUp, 502, ["OK", "DOWN"]),
            (Availability::Stopped(StopReason::Journal("disk".into())), 502, ["DOWN", "DOWN"]),
        ] {
            for clock in [ClockState::default(), ClockState { jump_ms: 86_400_000, ahead_ms: 0 }] {
                let is_good = clock.is_good();
                let status = EngineStatus {
                    serving: serving.clone(),
                    queue_depth: 0,
                    durable_seq: 1,
                    archived_seq: 0,
                    is_durable: true,
                    clock,
                    is_new: !is_good,
                };
                let (found, body) = health_text(&status, Timestamp::EPOCH, Timestamp::from_ms(61_500));
                assert_eq!(found.as_u16(), code);
                assert_eq!(body.contains(r#""ledger":"empty","services":["#), !is_good, "{body}");
                let [engine, journal] = states;
                for (name, state) in [
                    ("ledger", engine),
                    ("broker", engine),
                    ("journal", journal),
                    ("datastore", journal),
                    ("clock", if is_good { "OK" } else { "DOWN" }),
                ] {
                    let service = format!(r#"{{"name":"{name}","status":"{state}"}}"#);
                    assert!(body.contains(&service), "{service}: {body}");
                }
            }
        }
    }

    #[test]
    fn health_of_a_follower_shows_its_role_and_whether_it_is_current() {
        for ((is_current, code, status), jump_ms) in
            [(true, 200, "OK"), (false, 502, "DOWN")].into_iter().flat_map(|is| [(is, 0), (is, 3_600_000)])
        {
            let clock = ClockState { jump_ms, ahead_ms: 0 };
            let state = FollowerState { is_current, clock, is_new: is_current };
            let (health, leads) = (Arc::new(move || state), watch::channel(KnownLeader::default()).1);
            let peers = Peers::new(std::iter::empty(), None);
            let forwarder =
                RequestForwarder::new(leads, peers, SharedParticipants::default(), Arc::default());
            let role = HubRole::<()>::Follows(FollowerRole { health, forwarder });
            assert_eq!((role.is_good(), role.is_behind(), role.leads()), (is_current, !is_current, false));
            let present = role.present(&SystemClock);
            assert_eq!((present.earliest, present.latest), (Timestamp::EPOCH, Timestamp::MAX));
            let (found, body) = follower_text(state, Timestamp::EPOCH, Timestamp::from_ms(61_500));
            assert_eq!(found.as_u16(), code);
            assert!(body.contains(r#""uptime":61,"#) && body.contains(r#""role":"follower""#), "{body}");
            let clock = if jump_ms == 0 { "OK" } else { "DOWN" };
            assert!(body.contains(&format!(r#"{{"name":"clock","status":"{clock}"}}"#)), "{body}");
            assert_eq!(body.contains(r#""ledger":"empty","role""#), is_current, "{body}");
            let same = 4 + usize::from(clock == status);
            assert_eq!(body.matches(&format!(r#""status":"{status}""#)).count(), same, "{body}");
        }
    }

    #[test]
    fn names_are_quoted() {
        let config = GatewayConfig { hub_name: FspId::parse(r#"a"b\c"#).unwrap(), ..Default::default() };
        let text = String::from_utf8(metadata(&config).to_vec()).unwrap();
        assert!(text.contains(r#""hubName":"a\"b\\c","protocolVersions":["1.0","1.1","2.0"]"#), "{text}");
    }
}
