//! A follower answers reads from its memory, with their age. For all other requests it names the leader.

use std::sync::Arc;

use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::Response;

use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::page_paths::PagePaths;

/// Header with the maximum age of an answer, in milliseconds.
const AGE: HeaderName = HeaderName::from_static("upesi-age-ms");
/// Header with the last record that the follower knows.
const RECORD: HeaderName = HeaderName::from_static("upesi-record");
/// Header with the leader's number.
const LEADER: HeaderName = HeaderName::from_static("upesi-leader");

/// Reads of data that only the leader has, in its memory or its store.
const OF_LEADER: [&str; 6] =
    ["/oracles", "/directory", "/quotes", "/sessions", "/audit/checkpoint", "/console/login"];

/// The one change that a follower accepts: to claim leadership.
const PROMOTE: &str = "/cluster/promote";

/// Progress of a follower.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowerProgress {
    /// Number and address of the leader; `None` if there is none.
    pub leader: Option<(u32, String)>,
    /// Age of the last entry that was read, in milliseconds; `None` before the first.
    pub age_ms: Option<u64>,
    /// The last record in the state.
    pub record: u64,
}

/// Returns the progress of the follower.
pub type FollowedNow = Arc<dyn Fn() -> FollowerProgress + Send + Sync>;

impl FollowerProgress {
    /// The reason why a request is not answered here.
    pub(crate) fn check(&self, method: &Method, path: &str, pages: &PagePaths) -> Result<(), ApiError> {
        let is_read = matches!(*method, Method::GET | Method::HEAD)
            || *method == Method::POST && pages.is_reading_form(path);
        if !(is_read || path == PROMOTE) || is_of_leader(path) {
            return Err(self.refusal());
        }
        if self.age_ms.is_none() && needs_state(path) && !pages.is_file(path) {
            return Err(ApiError::new(ErrorName::FollowerNotReady, "This node has not read the log yet"));
        }
        Ok(())
    }

    /// The error that names the leader.
    pub(crate) fn refusal(&self) -> ApiError {
        let detail = match &self.leader {
            Some((node, address)) => {
                format!("This node is a follower; the leader is node {node} at {address}")
            }
            None => "This node is a follower, and the cluster has no leader".to_owned(),
        };
        ApiError::new(ErrorName::Follower, &detail)
    }

    /// Adds the age of the answer, for a request that arrived after this state was read.
    pub(crate) fn tell(&self, response: &mut Response) {
        let headers = response.headers_mut();
        if let Some(age_ms) = self.age_ms {
            headers.insert(AGE, HeaderValue::from(age_ms));
            headers.insert(RECORD, HeaderValue::from(self.record));
        }
        if let Some((node, _)) = &self.leader {
            headers.insert(LEADER, HeaderValue::from(*node));
        }
    }
}

fn is_of_leader(path: &str) -> bool {
    OF_LEADER
        .iter()
        .any(|of| path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// Whether an answer needs more than the process itself.
fn needs_state(path: &str) -> bool {
    const OF_PROCESS: [&str; 10] = [
        "/",
        "/health",
        "/v2/health",
        "/live",
        "/openapi.yaml",
        "/docs",
        "/metrics",
        "/log-level",
        "/enums",
        "/clock",
    ];
    !(OF_PROCESS.contains(&path) || path.starts_with("/docs/") || path.starts_with("/debug/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follower_answers_reads_and_refers_changes_to_the_leader() {
        let leader = Some((2, "http://hub-2:4000".to_owned()));
        let followed = FollowerProgress { leader, age_ms: Some(40), record: 9 };
        let pages = PagePaths { forms: vec!["/console/find"], files: vec!["/console/assets/{file}"] };
        for (method, path, is_answered) in [
            (Method::GET, "/participants", true),
            (Method::HEAD, "/participants/green/limits", true),
            (Method::GET, "/audit", true),
            (Method::GET, "/audit/checkpoint", false),
            (Method::GET, "/lanes", true),
            (Method::GET, "/callbacks", true),
            (Method::POST, "/callbacks/redeliver", false),
            (Method::GET, "/quotesmen", true),
            (Method::GET, "/directory/parties/MSISDN/1", false),
            (Method::GET, "/quotes/1", false),
            (Method::GET, "/console/login", false),
            (Method::POST, "/console/login", false),
            (Method::GET, "/console/login/with/oidc", false),
            (Method::GET, "/console/login/return/oidc", false),
            (Method::POST, "/console/logout", false),
            (Method::POST, "/console/find", true),
            (Method::PUT, "/console/find", false),
            (Method::POST, "/console/find/x", false),
            (Method::POST, "/console/assets/x.css", false),
            (Method::POST, "/participants", false),
            (Method::POST, "/cluster/promote", true),
            (Method::POST, "/cluster/hand-over", false),
            (Method::PUT, "/log-level", false),
            (Method::DELETE, "/blocks", false),
        ] {
            let checked = followed.check(&method, path, &pages);
            assert_eq!(checked.is_ok(), is_answered, "{method} {path}");
            if let Err(error) = checked {
                assert_eq!((error.status.as_u16(), error.name.code().number()), (503, 2003));
                assert_eq!(error.name.as_str(), "follower");
                assert!(error.description.ends_with("node 2 at http://hub-2:4000"), "{error:?}");
            }
        }
        let unread = FollowerProgress { age_ms: None, leader: None, ..followed };
        for path in ["/health", "/v2/health", "/console/assets/x.css"] {
            assert!(unread.check(&Method::GET, path, &pages).is_ok(), "{path}");
        }
        for path in ["/console", "/console/find", "/console/assets/x/y"] {
            let error = unread.check(&Method::GET, path, &pages).unwrap_err();
            assert_eq!(error.name.as_str(), "follower_not_ready", "{path}");
        }
        let error = unread.check(&Method::GET, "/participants", &pages).unwrap_err();
        assert!(error.description.ends_with("has not read the log yet"), "{error:?}");
        assert_eq!(error.name.as_str(), "follower_not_ready");
        let error = unread.check(&Method::POST, "/participants", &pages).unwrap_err();
        assert!(error.description.ends_with("the cluster has no leader"), "{error:?}");
    }
}
