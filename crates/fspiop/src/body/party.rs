//! Parties in bodies, and the body of `PUT /parties/…` (FSPIOP API v1.1 §6.3.4, §7.4.11).

use alloc::borrow::Cow;
use alloc::vec::Vec;

use upesi_types::{Currency, FspId};

use super::extension_list::check_extension_list;
use super::quoting::{check, read_optional};
use super::schema::{Schema, Value, read_array};
use super::text::are_digits;
use crate::{PATH_ID_CHARS_MAX, PartyIdType, SyncError};

/// Maximum number of currencies that a party can state as supported.
const CURRENCIES_MAX: usize = 16;

/// Information about a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyInfo<'a> {
    /// The party's identifier and its DFSP.
    pub id: PartyIdInfo<'a>,
    /// The party's stated currencies for being paid; empty if it states none.
    pub supported_currencies: Vec<Currency>,
}

/// The identifier of a party and its DFSP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyIdInfo<'a> {
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

pub(super) fn read_party<'a>(value: Value<'a, '_>) -> Result<PartyInfo<'a>, SyncError> {
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

pub(super) fn read_party_id_info<'a>(value: Value<'a, '_>) -> Result<PartyIdInfo<'a>, SyncError> {
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
