//! The bodies of `/participants` (FSPIOP API v1.1 §6.2.3).

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::{Currency, FspId, TransferId};

use super::extension_list::check_extension_list;
use super::quoting::{check, read_optional};
use super::schema::{Schema, Value, read_array};
use crate::{PATH_ID_CHARS_MAX, PartyIdType, SyncError};

/// Maximum number of parties in one `POST /participants`.
pub const BATCH_PARTIES_MAX: usize = 10_000;

/// The body of `POST /participants/{Type}/{ID}[/{SubId}]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantPost {
    /// The DFSP that serves the party.
    pub fsp: FspId,
    /// The only currency of the registration; `None` for all currencies.
    pub currency: Option<Currency>,
}

/// The body of `PUT /participants/{Type}/{ID}[/{SubId}]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantPut {
    /// The DFSP that serves the party; the schema does not require it.
    pub fsp: Option<FspId>,
    /// The only currency of the registration; `None` for all currencies.
    pub currency: Option<Currency>,
}

/// The body of `POST /participants`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantsBatch<'a> {
    /// Identifies the batch in the path of its result.
    pub request_id: TransferId,
    /// The parties, 1 to 10 000.
    pub parties: Vec<BatchParty<'a>>,
    /// The only currency of all registrations; `None` for all currencies.
    pub currency: Option<Currency>,
}

/// One party of a batch. [`crate::check_party_id`] checks that the identifier has the form of its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchParty<'a> {
    /// The type of the identifier. As is usual in schemes, an unknown type does not reject the batch; only its entry
    /// fails. The text is then kept as received, 1 to 32 characters.
    pub kind: Result<PartyIdType, Cow<'a, str>>,
    /// The identifier, 1 to 128 characters.
    pub identifier: Cow<'a, str>,
    /// Distinguishes parties under one identifier.
    pub sub_id: Option<Cow<'a, str>>,
    /// The DFSP that serves the party. `None` if the entry names none, or not a valid name. Such an entry fails alone,
    /// like an entry with an unknown type.
    pub fsp: Option<FspId>,
}

const POST: Schema<3> = Schema::open(1, ["fspId", "currency", "extensionList"]);
const PUT: Schema<3> = Schema::open(0, ["fspId", "currency", "extensionList"]);

/// Reads and checks the body of `POST /participants/{Type}/{ID}[/{SubId}]`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_participant_post(body: &[u8]) -> Result<ParticipantPost, SyncError> {
    let object = POST.read_body(body)?;
    let fsp = object.required("fspId").name()?;
    let currency = read_optional(object.optional("currency"), |value| value.currency())?;
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(ParticipantPost { fsp, currency })
}

/// Reads and checks the body of `PUT /participants/{Type}/{ID}[/{SubId}]`.
///
/// Errors: 400 with 3100 or 3101 for the first violation of the schema.
pub fn parse_participant_put(body: &[u8]) -> Result<ParticipantPut, SyncError> {
    let object = PUT.read_body(body)?;
    let fsp = read_optional(object.optional("fspId"), |value| value.name())?;
    let currency = read_optional(object.optional("currency"), |value| value.currency())?;
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(ParticipantPut { fsp, currency })
}

const BATCH: Schema<3> = Schema::open(2, ["requestId", "partyList", "currency"]);

/// Reads and checks the body of `POST /participants`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_participants_batch(body: &[u8]) -> Result<ParticipantsBatch<'_>, SyncError> {
    let object = BATCH.read_body(body)?;
    let request_id = object.required("requestId").transfer_id()?;
    let list = read_array(object.required("partyList"), 1, BATCH_PARTIES_MAX)?;
    let parties = list.iter().map(read_batch_party).collect::<Result<_, _>>()?;
    let currency = read_optional(object.optional("currency"), |value| value.currency())?;
    Ok(ParticipantsBatch { request_id, parties, currency })
}

/// Longest text in place of an identifier type, in characters.
const PARTY_ID_TYPE_CHARS_MAX: usize = 32;

const BATCH_PARTY: Schema<5> =
    Schema::open(2, ["partyIdType", "partyIdentifier", "fspId", "partySubIdOrType", "extensionList"]);

fn read_batch_party<'a>(value: Value<'a, '_>) -> Result<BatchParty<'a>, SyncError> {
    let party = BATCH_PARTY.read(value)?;
    let kind = party.required("partyIdType").bounded_text(1, PARTY_ID_TYPE_CHARS_MAX)?;
    let kind = PartyIdType::parse(&kind).ok_or(kind);
    let identifier = party.required("partyIdentifier").bounded_text(1, PATH_ID_CHARS_MAX)?;
    let fsp = read_optional(party.optional("fspId"), |value| value.text())?;
    let fsp = fsp.and_then(|name| FspId::parse(&name));
    let sub_id =
        read_optional(party.optional("partySubIdOrType"), |value| value.bounded_text(1, PATH_ID_CHARS_MAX))?;
    check(party.optional("extensionList"), check_extension_list)?;
    Ok(BatchParty { kind, identifier, sub_id, fsp })
}
