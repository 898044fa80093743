//! `/directory/imports`: parties in bulk, chunk by chunk.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde::Serialize;
use upesi_http::Bytes;
use upesi_ledger::Change;
use upesi_parties::import::{Chunk, Columns, Conflict, ImportError, ImportId, Progress};
use upesi_types::ErrorCode;

use crate::access::Permission;
use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments};
use crate::json::ok;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ImportView {
    import_id: String,
    /// The line of the file that comes next, counted from 1.
    next_line: u64,
    /// Lines that were taken so far.
    taken: u64,
    /// Lines that were refused so far.
    refused: u64,
    /// What became of the chunk that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<ChunkView>,
}

#[derive(Serialize)]
struct ChunkView {
    taken: usize,
    refused: usize,
    /// The first refused lines.
    refusals: Vec<RefusalView>,
}

#[derive(Serialize)]
struct RefusalView {
    line: u64,
    reason: String,
}

impl ImportView {
    fn of(id: &ImportId, progress: Progress, chunk: Option<ChunkView>) -> Self {
        Self {
            import_id: id.as_str().to_owned(),
            // What has not begun begins with the first line.
            next_line: progress.next_line.max(1),
            taken: progress.taken,
            refused: progress.refused,
            chunk,
        }
    }
}

impl From<ImportError> for ApiError {
    fn from(error: ImportError) -> Self {
        let detail = error.to_string();
        match error {
            ImportError::Store(error) => error.into(),
            ImportError::Gap { .. } => {
                Self { status: StatusCode::CONFLICT, ..Self::new(ErrorCode::VALIDATION, &detail) }
            }
            _ => Self::malformed(&detail),
        }
    }
}

/// A body of comma-separated values.
pub(crate) struct CsvBody(Bytes);

impl<S: Send + Sync> FromRequest<S> for CsvBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let media_type = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !["text/csv", "text/plain"].iter().any(|known| media_type.eq_ignore_ascii_case(known)) {
            return Err(ApiError::malformed("\"content-type\" must be text/csv"));
        }
        // The service has read the body within its limits already.
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|error| ApiError::malformed(&error.body_text()))
    }
}

pub(crate) async fn get(Call(context): Call, Segments(id): Segments<String>) -> Result<Response, ApiError> {
    let imports = &context.directory()?.imports;
    let id = import_id(&id)?;
    ok(&ImportView::of(&id, imports.progress(&id)?.unwrap_or_default(), None))
}

pub(crate) async fn take(
    Call(context): Call,
    Segments(id): Segments<String>,
    parameters: Parameters,
    CsvBody(body): CsvBody,
) -> Result<Response, ApiError> {
    let imports = &context.directory()?.imports;
    let id = import_id(&id)?;
    let from = parameters.get("from").and_then(|text| text.parse().ok()).filter(|from| *from > 0);
    let from: u64 = from.ok_or_else(|| ApiError::malformed("\"from\" must be a line's number, 1 or more"))?;
    let columns = match parameters.get("columns") {
        None => Columns::default(),
        Some(header) => Columns::parse(header)
            .map_err(|mistake| ApiError::malformed(&format!("\"columns\" is no header: {mistake}")))?,
    };
    let conflict = if parameters.is_set("replace") { Conflict::Replace } else { Conflict::Refuse };
    let known = context.dfsp_names().await?;
    let chunk = Chunk::read(&body, from, &columns, conflict, |fsp| known.contains(fsp))?;
    let change = Change::new(format!("import {} of parties", id.as_str()), "", format!("from line {from}"));
    let take = async || Ok(imports.take(&id, chunk).await?);
    let outcome = context.elsewhere(Permission::PartyManage, change, take).await?;
    let refusals = outcome.refusals.into_iter();
    let refusals = refusals.map(|refusal| RefusalView { line: refusal.line, reason: refusal.reason });
    let chunk = ChunkView { taken: outcome.taken, refused: outcome.refused, refusals: refusals.collect() };
    ok(&ImportView::of(&id, outcome.progress, Some(chunk)))
}

fn import_id(text: &str) -> Result<ImportId, ApiError> {
    ImportId::parse(text)
        .ok_or_else(|| ApiError::malformed("\"importId\" must be 1 to 64 letters, digits, - and _"))
}
