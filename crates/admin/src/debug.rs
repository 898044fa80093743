//! `GET /debug/profile` and `GET /debug/heap`: where CPU time and memory of this process go.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use upesi_profile::{Holder, Profile, ProfileError, SECONDS_MAX, memory};
use upesi_types::ErrorCode;

use crate::call::Call;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::extract::Parameters;

/// Who in the hub holds how much memory, asked for when it is shown.
pub type Holders = Arc<dyn Fn() -> Vec<Holder> + Send + Sync>;

const SECONDS_DEFAULT: usize = 10;
/// The graph has a script and a style of its own and needs nothing from anywhere.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'";

/// How the profile is wanted.
#[derive(Clone, Copy)]
enum Form {
    FlameGraph,
    Folded,
}

pub(crate) async fn profile(Call(context): Call, parameters: Parameters) -> Result<Response, ApiError> {
    holders(&context)?;
    let seconds_max = usize::try_from(SECONDS_MAX).unwrap_or(usize::MAX);
    let seconds = parameters.count("seconds", SECONDS_DEFAULT, seconds_max)? as u64;
    let form = match parameters.get("format") {
        None | Some("svg") => Form::FlameGraph,
        Some("folded") => Form::Folded,
        Some(_) => return Err(ApiError::malformed("\"format\" must be one of [svg, folded]")),
    };
    tracing::info!(seconds, "a CPU profile is being taken");
    let version = context.version;
    // Gone with this future, when the client goes away or the hub stops, which then need not wait for the profile's
    // end.
    let waiting = Arc::new(());
    let waited_for = Arc::downgrade(&waiting);
    let take = move || {
        let profile = upesi_profile::profile(seconds, || waited_for.strong_count() > 0)?;
        Ok::<_, ProfileError>(render(&profile, form, version))
    };
    let taken = tokio::task::spawn_blocking(take).await;
    drop(waiting);
    let (content_type, body) = taken.map_err(|_| ApiError::internal("The profile could not be drawn"))??;
    let headers = [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    ];
    Ok((StatusCode::OK, headers, body).into_response())
}

fn render(profile: &Profile, form: Form, version: &str) -> (&'static str, String) {
    match form {
        Form::FlameGraph => {
            let title = format!("upesi {version}: where CPU time goes");
            ("image/svg+xml", profile.flame_graph(&title))
        }
        Form::Folded => ("text/plain; charset=utf-8", profile.folded()),
    }
}

pub(crate) async fn heap(Call(context): Call) -> Result<Response, ApiError> {
    let summary = memory::summary(&holders(&context)?());
    let headers = [(CONTENT_TYPE, "application/json; charset=utf-8"), (CACHE_CONTROL, "no-store")];
    Ok((StatusCode::OK, headers, summary.to_json()).into_response())
}

/// Without them, profiling is off.
fn holders(context: &AdminContext) -> Result<&Holders, ApiError> {
    let off = || ApiError::new(ErrorCode::NOT_IMPLEMENTED, "Profiling is off, as admin.profiling is false");
    context.profiling.as_ref().ok_or_else(off)
}

impl From<ProfileError> for ApiError {
    fn from(error: ProfileError) -> Self {
        let code = match &error {
            ProfileError::Busy => ErrorCode::SERVER_BUSY,
            ProfileError::Seconds => ErrorCode::MALFORMED_SYNTAX,
            ProfileError::Unsupported => ErrorCode::NOT_IMPLEMENTED,
            ProfileError::Abandoned | ProfileError::Kernel(_) => ErrorCode::INTERNAL,
        };
        Self::new(code, &error.to_string())
    }
}
