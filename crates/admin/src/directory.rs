//! `/directory`: the built-in party directory for operators.

use axum::extract::{FromRequest, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use upesi_http::Bytes;
use upesi_ledger::{Change, ParticipantId};
use upesi_parties::builtin::RegisterError;
use upesi_parties::import::{Chunk, Columns, Conflict, ImportError, ImportId, Progress};
use upesi_parties::party::{DirectoryEntry, Owner, PartyIdType, check_identifier};
use upesi_parties::registry::OracleError;
use upesi_tables::TablesError;
use upesi_types::{ErrorCode, FspId, hex};

use super::call::{Parameters, Segments};
use crate::access::Permission;
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{empty, ok};
use crate::parts::Directory;

impl Call {
    /// The DFSPs that may be named as owners of parties.
    pub(crate) async fn dfsp_names(&self) -> Result<Vec<FspId>, ApiError> {
        self.ask(|ledger| {
            let participants = ledger.participants().iter();
            let dfsps = participants.filter(|participant| participant.id != ParticipantId::HUB);
            dfsps.map(|participant| participant.name).collect()
        })
        .await
    }
}

impl From<TablesError> for ApiError {
    fn from(error: TablesError) -> Self {
        let is_temporary = error.code() == ErrorCode::UNAVAILABLE;
        let name = if is_temporary { ErrorName::StoreUnavailable } else { ErrorName::StoreFailed };
        Self::new(name, &error.to_string())
    }
}

impl From<RegisterError> for ApiError {
    fn from(error: RegisterError) -> Self {
        let name = match error {
            // Operators may change the entries of any DFSP, so `NotOwner` does not occur here.
            RegisterError::AlreadyRegistered { .. } | RegisterError::NotOwner { .. } => ErrorName::PartyTaken,
            RegisterError::TooManyOwners => ErrorName::TooManyPartyEntries,
            RegisterError::NotRegistered => ErrorName::PartyNotFound,
            RegisterError::Store(error) => return error.into(),
        };
        Self::new(name, &error.to_string())
    }
}

impl From<OracleError> for ApiError {
    fn from(error: OracleError) -> Self {
        let name = match error {
            OracleError::Duplicate { .. } => ErrorName::OracleExists,
            OracleError::NotFound { .. } => ErrorName::OracleNotFound,
            OracleError::TooMany => ErrorName::TooManyOracles,
            OracleError::BadUrl { .. } => ErrorName::Malformed,
            OracleError::Store(error) => return error.into(),
        };
        Self::new(name, &error.to_string())
    }
}

/// The party identifier type in a request.
fn party_id_type(label: &str, text: &str) -> Result<PartyIdType, ApiError> {
    PartyIdType::parse(text).ok_or_else(|| {
        let known: Vec<_> = PartyIdType::ALL.iter().map(|kind| kind.as_str()).collect();
        ApiError::malformed(&format!("\"{label}\" must be one of [{}]", known.join(", ")))
    })
}

/// The size of the built-in directory.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectorySummary {
    /// Whether it answers if no oracle matches.
    pub is_enabled: bool,
    /// Number of identifiers; recent changes make it too high.
    pub parties_estimate: u64,
    pub disk_bytes: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartyView {
    party_id_type: &'static str,
    party_identifier: String,
    entries: Vec<EntryView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntryView {
    fsp_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<Box<str>>,
}

impl From<Owner> for EntryView {
    fn from(owner: Owner) -> Self {
        Self {
            fsp_id: owner.fsp.to_string(),
            currency: owner.currency.map(|currency| currency.to_string()),
            party_sub_id_or_type: owner.sub_id,
        }
    }
}

pub(crate) async fn summary(State(directory): State<Directory>) -> Result<Response, ApiError> {
    ok(&directory_summary(&directory)?)
}

/// The size of the built-in directory.
///
/// # Errors
/// The hub has no directory.
pub(crate) fn directory_summary(directory: &Directory) -> Result<DirectorySummary, ApiError> {
    let directory = directory.get()?;
    Ok(DirectorySummary {
        is_enabled: directory.oracles.oracles().builtin_enabled(),
        parties_estimate: directory.built_in.parties_estimate(),
        disk_bytes: directory.built_in.store().stats().disk_bytes,
    })
}

pub(crate) async fn get(
    State(directory): State<Directory>,
    Segments((kind, id)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let directory = directory.get()?;
    let kind = party_id_type("Type", &kind)?;
    let owners = directory.built_in.find(kind, &id)?;
    let entries = owners.into_iter().map(EntryView::from).collect();
    ok(&PartyView { party_id_type: kind.as_str(), party_identifier: id, entries })
}

pub(crate) async fn put(
    call: Call,
    State(directory): State<Directory>,
    Segments((kind, id)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let directory = directory.get()?;
    let kind = party_id_type("Type", &kind)?;
    let fields = body.fields()?;
    let fsp = fields.required("fspId")?.text()?;
    let currency = fields.optional("currency").map(|field| field.currency()).transpose()?;
    let sub_id = fields.optional("partySubIdOrType").map(|field| field.text()).transpose()?;
    fields.only(&["fspId", "currency", "partySubIdOrType"])?;
    check_identifier(kind, &id, sub_id.as_deref()).map_err(|mistake| ApiError::malformed(&mistake))?;
    let fsp = match FspId::parse(&fsp) {
        Some(name) if call.dfsp_names().await?.contains(&name) => name,
        _ => return Err(ApiError::unknown_participant(&fsp)),
    };
    let change = Change::new(party(kind, &id), "", format!("served by {fsp}"));
    let entry = DirectoryEntry { kind, id: id.into(), sub_id: sub_id.map(Into::into), currency, fsp };
    let put = async || Ok(directory.built_in.put(&entry).await?);
    call.elsewhere(Permission::PartyManage, change, put).await?;
    empty(StatusCode::NO_CONTENT)
}

pub(crate) async fn delete(
    call: Call,
    State(directory): State<Directory>,
    Segments((kind, id)): Segments<(String, String)>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let directory = directory.get()?;
    let kind = party_id_type("Type", &kind)?;
    let sub_id = parameters.get("partySubIdOrType");
    let currency = parameters.currency()?;
    let change = Change::new(party(kind, &id), "", "not registered");
    let remove = async || Ok(directory.built_in.remove(kind, &id, sub_id, currency, None).await?);
    call.elsewhere(Permission::PartyManage, change, remove).await?;
    empty(StatusCode::NO_CONTENT)
}

/// A party in the audit trail: without its identifier, but so that an auditor who knows it can find it.
fn party(kind: PartyIdType, id: &str) -> String {
    let digest = Sha256::digest(id.as_bytes());
    format!("party {} with SHA-256 {}…", kind.as_str(), hex(&digest[..8]))
}

// `/directory/imports`: bulk imports of parties, chunk by chunk.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ImportView {
    import_id: String,
    /// The next line of the file, counted from 1.
    next_line: u64,
    /// Lines that were accepted so far.
    taken: u64,
    /// Lines that were rejected so far.
    refused: u64,
    /// Outcome of the chunk in the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    chunk: Option<ChunkView>,
}

#[derive(Serialize)]
struct ChunkView {
    taken: usize,
    refused: usize,
    /// The first rejected lines.
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
            // An import that has not begun continues with the first line.
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
                Self { status: StatusCode::CONFLICT, ..Self::new(ErrorName::ImportGap, &detail) }
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
        // The service has already read the body within its limits.
        let body = Bytes::from_request(request, state).await;
        body.map(Self).map_err(|error| ApiError::malformed(&error.body_text()))
    }
}

pub(crate) async fn get_import(
    State(directory): State<Directory>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    let imports = &directory.get()?.imports;
    let id = import_id(&id)?;
    ok(&ImportView::of(&id, imports.progress(&id)?.unwrap_or_default(), None))
}

pub(crate) async fn take_import(
    call: Call,
    State(directory): State<Directory>,
    Segments(id): Segments<String>,
    parameters: Parameters,
    CsvBody(body): CsvBody,
) -> Result<Response, ApiError> {
    let imports = &directory.get()?.imports;
    let id = import_id(&id)?;
    let from = parameters.get("from").and_then(|text| text.parse().ok()).filter(|from| *from > 0);
    let from: u64 = from.ok_or_else(|| ApiError::malformed("\"from\" must be a line's number, 1 or more"))?;
    let columns = match parameters.get("columns") {
        None => Columns::default(),
        Some(header) => Columns::parse(header)
            .map_err(|mistake| ApiError::malformed(&format!("\"columns\" is not a header: {mistake}")))?,
    };
    let conflict = if parameters.is_set("replace") { Conflict::Replace } else { Conflict::Refuse };
    let known = call.dfsp_names().await?;
    let chunk = Chunk::read(&body, from, &columns, conflict, |fsp| known.contains(fsp))?;
    let change = Change::new(format!("import {} of parties", id.as_str()), "", format!("from line {from}"));
    let take = async || Ok(imports.take(&id, chunk).await?);
    let outcome = call.elsewhere(Permission::PartyManage, change, take).await?;
    let refusals = outcome.refusals.into_iter();
    let refusals = refusals.map(|refusal| RefusalView { line: refusal.line, reason: refusal.reason });
    let chunk = ChunkView { taken: outcome.taken, refused: outcome.refused, refusals: refusals.collect() };
    ok(&ImportView::of(&id, outcome.progress, Some(chunk)))
}

fn import_id(text: &str) -> Result<ImportId, ApiError> {
    ImportId::parse(text)
        .ok_or_else(|| ApiError::malformed("\"importId\" must be 1 to 64 letters, digits, - and _"))
}
