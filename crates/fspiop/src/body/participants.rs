//! The bodies of `/participants` (FSPIOP API v1.1 §6.2.3).

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::{Currency, FspId, TransferId};

use super::error::check_extension_list;
use super::quote::{check, read_optional};
use super::schema::{Schema, Value, read_array};
use super::text::are_digits;
use crate::{PATH_ID_CHARS_MAX, PartyIdType, SyncError};

/// Maximum number of parties in one `POST /participants`.
pub const BATCH_PARTIES_MAX: usize = 10_000;

/// The body of `POST /participants/{Type}/{ID}[/{SubId}]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantPost {
    /// The DFSP that serves the party.
    pub fsp: FspId,
    /// The currency in which the DFSP serves the party; `None` for all currencies.
    pub currency: Option<Currency>,
}

/// The body of `PUT /participants/{Type}/{ID}[/{SubId}]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantPut {
    /// The DFSP that serves the party; the schema does not require it.
    pub fsp: Option<FspId>,
    /// The currency in which the DFSP serves the party; `None` for all currencies.
    pub currency: Option<Currency>,
}

/// The body of `POST /participants`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantsBatch<'a> {
    /// Identifies the batch in the path of its result.
    pub request_id: TransferId,
    /// The parties, 1 to 10 000.
    pub parties: Vec<BatchParty<'a>>,
    /// The currency in which all of them are served; `None` for all currencies.
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

// Parties in bodies, and the body of `PUT /parties/…` (FSPIOP API v1.1 §6.3.4, §7.4.11).

/// Maximum number of currencies that a party can state as supported.
const CURRENCIES_MAX: usize = 16;

/// Information about a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyInfo<'a> {
    /// The party's identifier and its DFSP.
    pub id: PartyIdInfo<'a>,
    /// The currencies in which the party states that it can be paid; empty if it states none.
    pub supported_currencies: Vec<Currency>,
}

/// The identifier of a party and its DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyIdInfo<'a> {
    /// The type of the identifier.
    pub kind: PartyIdType,
    /// The identifier, 1 to 128 characters.
    pub identifier: Cow<'a, str>,
    /// Distinguishes parties under one identifier.
    pub sub_id: Option<Cow<'a, str>>,
    /// The DFSP that serves the party.
    pub fsp: Option<FspId>,
}

const PARTY: Schema<5> = Schema::open(
    1,
    ["partyIdInfo", "merchantClassificationCode", "name", "personalInfo", "supportedCurrencies"],
);

pub(crate) fn read_party<'a>(value: Value<'a, '_>) -> Result<PartyInfo<'a>, SyncError> {
    let party = PARTY.read(value)?;
    let id = read_party_id_info(party.required("partyIdInfo"))?;
    check(party.optional("merchantClassificationCode"), |value| {
        value.matching("1 to 4 digits", |text| are_digits(text, 1, 4))
    })?;
    check(party.optional("name"), |value| value.bounded_text(1, 128))?;
    check(party.optional("personalInfo"), check_personal_info)?;
    let mut supported_currencies = Vec::new();
    if let Some(currencies) = party.optional("supportedCurrencies") {
        for currency in read_array(currencies, 0, CURRENCIES_MAX)?.iter() {
            supported_currencies.push(currency.currency()?);
        }
    }
    Ok(PartyInfo { id, supported_currencies })
}

const PARTY_ID_INFO: Schema<5> =
    Schema::open(2, ["partyIdType", "partyIdentifier", "partySubIdOrType", "fspId", "extensionList"]);

pub(crate) fn read_party_id_info<'a>(value: Value<'a, '_>) -> Result<PartyIdInfo<'a>, SyncError> {
    let info = PARTY_ID_INFO.read(value)?;
    let kind = info.required("partyIdType").party_id_type()?;
    let identifier = info.required("partyIdentifier").bounded_text(1, PATH_ID_CHARS_MAX)?;
    let sub_id =
        read_optional(info.optional("partySubIdOrType"), |value| value.bounded_text(1, PATH_ID_CHARS_MAX))?;
    let fsp = read_optional(info.optional("fspId"), |value| value.name())?;
    check(info.optional("extensionList"), check_extension_list)?;
    Ok(PartyIdInfo { kind, identifier, sub_id, fsp })
}

const PERSONAL_INFO: Schema<3> = Schema::open(0, ["complexName", "dateOfBirth", "kycInformation"]);
const COMPLEX_NAME: Schema<3> = Schema::open(0, ["firstName", "middleName", "lastName"]);
const KYC_INFORMATION_CHARS_MAX: usize = 2048;

fn check_personal_info(value: Value<'_, '_>) -> Result<(), SyncError> {
    let info = PERSONAL_INFO.read(value)?;
    if let Some(name) = info.optional("complexName") {
        let name = COMPLEX_NAME.read(name)?;
        for part in ["firstName", "middleName", "lastName"] {
            check(name.optional(part), |value| value.person_name())?;
        }
    }
    check(info.optional("dateOfBirth"), |value| value.date())?;
    check(info.optional("kycInformation"), |value| value.bounded_text(1, KYC_INFORMATION_CHARS_MAX))
}

const PUT_PARTY: Schema<1> = Schema::open(1, ["party"]);

/// Reads and checks the body of `PUT /parties/{Type}/{ID}[/{SubId}]`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_party(body: &[u8]) -> Result<PartyInfo<'_>, SyncError> {
    let object = PUT_PARTY.read_body(body)?;
    read_party(object.required("party"))
}
