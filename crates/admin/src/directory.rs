//! `/directory`: the hub's own party directory, as operators see and mend it.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use upesi_ledger::Change;
use upesi_ledger::ParticipantId;
use upesi_parties::builtin::{BuiltInDirectory, RegisterError};
use upesi_parties::import::Imports;
use upesi_parties::party::{Entry, Owner, PartyIdType, check_identifier};
use upesi_parties::registry::{OracleError, OracleRegistry};
use upesi_tables::TablesError;
use upesi_types::{ErrorCode, FspId, hex};

use crate::access::Permission;
use crate::body::JsonBody;
use crate::call::Call;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments};
use crate::json::{empty, ok};

/// What this API needs for `/oracles` and `/directory`.
#[derive(Clone, Debug)]
pub struct DirectoryHandle {
    /// Parties of the hub's own directory.
    pub built_in: BuiltInDirectory,
    /// Bulk imports into it.
    pub imports: Imports,
    /// The oracles.
    pub oracles: OracleRegistry,
}

impl DirectoryHandle {
    /// Over a directory and a registry.
    pub fn new(built_in: BuiltInDirectory, oracles: OracleRegistry) -> Result<Self, TablesError> {
        Ok(Self { imports: Imports::open(&built_in)?, built_in, oracles })
    }
}

impl AdminContext {
    pub(crate) fn directory(&self) -> Result<&DirectoryHandle, ApiError> {
        self.directory
            .as_ref()
            .ok_or_else(|| ApiError::new(ErrorCode::NOT_IMPLEMENTED, "This hub has no party directory"))
    }

    /// Who may be named as the DFSP of a party.
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
        Self::new(error.code(), &error.to_string())
    }
}

impl From<RegisterError> for ApiError {
    fn from(error: RegisterError) -> Self {
        Self::new(error.code(), &error.to_string())
    }
}

impl From<OracleError> for ApiError {
    fn from(error: OracleError) -> Self {
        Self::new(error.code(), &error.to_string())
    }
}

/// The party-id type that a request names.
fn party_id_type(label: &str, text: &str) -> Result<PartyIdType, ApiError> {
    PartyIdType::parse(text).ok_or_else(|| {
        let known: Vec<_> = PartyIdType::ALL.iter().map(|kind| kind.as_str()).collect();
        ApiError::malformed(&format!("\"{label}\" must be one of [{}]", known.join(", ")))
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    /// Whether it answers where no oracle fits.
    is_enabled: bool,
    /// Identifiers; too many by those that were changed lately.
    parties_estimate: u64,
    disk_bytes: u64,
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

pub(crate) async fn summary(Call(context): Call) -> Result<Response, ApiError> {
    let directory = context.directory()?;
    ok(&Summary {
        is_enabled: directory.oracles.oracles().builtin_enabled(),
        parties_estimate: directory.built_in.parties_estimate(),
        disk_bytes: directory.built_in.store().stats().disk_bytes,
    })
}

pub(crate) async fn get(
    Call(context): Call,
    Segments((kind, id)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let directory = context.directory()?;
    let kind = party_id_type("Type", &kind)?;
    let owners = directory.built_in.find(kind, &id)?;
    let entries = owners.into_iter().map(EntryView::from).collect();
    ok(&PartyView { party_id_type: kind.as_str(), party_identifier: id, entries })
}

pub(crate) async fn put(
    Call(context): Call,
    Segments((kind, id)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let directory = context.directory()?;
    let kind = party_id_type("Type", &kind)?;
    let fields = body.fields()?;
    let fsp = fields.required("fspId")?.text()?;
    let currency = fields.optional("currency").map(|field| field.currency()).transpose()?;
    let sub_id = fields.optional("partySubIdOrType").map(|field| field.text()).transpose()?;
    fields.only(&["fspId", "currency", "partySubIdOrType"])?;
    check_identifier(kind, &id, sub_id.as_deref()).map_err(|mistake| ApiError::malformed(&mistake))?;
    let fsp = match FspId::parse(&fsp) {
        Some(name) if context.dfsp_names().await?.contains(&name) => name,
        _ => return Err(ApiError::unknown_participant(&fsp)),
    };
    let change = Change::new(party(kind, &id), "", format!("served by {fsp}"));
    let entry = Entry { kind, id: id.into(), sub_id: sub_id.map(Into::into), currency, fsp };
    let put = async || Ok(directory.built_in.put(&entry).await?);
    context.elsewhere(Permission::PartyManage, change, put).await?;
    empty(StatusCode::NO_CONTENT)
}

pub(crate) async fn delete(
    Call(context): Call,
    Segments((kind, id)): Segments<(String, String)>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let directory = context.directory()?;
    let kind = party_id_type("Type", &kind)?;
    let sub_id = parameters.get("partySubIdOrType");
    let currency = parameters.currency()?;
    let change = Change::new(party(kind, &id), "", "not registered");
    let remove = async || Ok(directory.built_in.remove(kind, &id, sub_id, currency, None).await?);
    context.elsewhere(Permission::PartyManage, change, remove).await?;
    empty(StatusCode::NO_CONTENT)
}

/// A party as the audit trail has it: not by its number, but so that an auditor who knows it finds it.
fn party(kind: PartyIdType, id: &str) -> String {
    let digest = Sha256::digest(id.as_bytes());
    format!("party {} with SHA-256 {}…", kind.as_str(), hex(&digest[..8]))
}
