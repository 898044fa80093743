//! The body of `PUT /transfers/{ID}/error` and of all other error callbacks (FSPIOP API v1.1 §7.6).

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;

use upesi_types::ErrorCode;
use upesi_types::error_code::DESCRIPTION_CHARS_MAX;

use super::extension_list::{check_extension_list, parse_extension_list};
use super::payment_request::refuse_unreadable;
use super::quoting::{check, read_optional};
use super::schema::{Object, Schema, Value};
use crate::{Resource, SyncError};

/// The body of an error callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody<'a> {
    /// The code as received. [`ErrorCode::is_known_to_api`] returns whether a DFSP may use it.
    pub code: ErrorCode,
    /// The description, 1 to 128 characters.
    pub description: Cow<'a, str>,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<String>,
}

const OPEN: Schema<1> = Schema::open(1, ["errorInformation"]);
const CLOSED: Schema<1> = Schema::closed(1, ["errorInformation"]);
const INFORMATION: Schema<3> = Schema::open(2, ["errorCode", "errorDescription", "extensionList"]);

/// Reads and checks the body of an error callback about a transfer, a party or a participant.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_error_body(body: &[u8]) -> Result<ErrorBody<'_>, SyncError> {
    read(OPEN.read_body(body)?, |value| value.error_code())
}

/// Reads and checks the body of an error callback of any family. Quoting allows only some classes of codes. Quotes and
/// bulk quotes allow no property other than `errorInformation`.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema. In quotes and bulk quotes, 3103 for
/// another property. For transaction requests and authorizations, 3000 for invalid JSON.
pub fn parse_error_body_of(resource: Resource, body: &[u8]) -> Result<ErrorBody<'_>, SyncError> {
    match resource {
        // Messages of currency conversion may have properties that the schema does not name.
        Resource::FxQuotes => read(OPEN.read_body(body)?, |value| value.quoting_error_code()),
        _ if resource.is_quoting() => read(CLOSED.read_body(body)?, |value| value.quoting_error_code()),
        _ if resource.is_payment_request() => {
            read(OPEN.read_body_or(body, refuse_unreadable)?, |value| value.error_code())
        }
        _ => parse_error_body(body),
    }
}

fn read<'a>(
    object: Object<'a, '_, '_, 1>,
    read_code: impl FnOnce(Value<'a, '_>) -> Result<ErrorCode, SyncError>,
) -> Result<ErrorBody<'a>, SyncError> {
    let information = INFORMATION.read(object.required("errorInformation"))?;
    let code = read_code(information.required("errorCode"))?;
    let description = information.required("errorDescription").bounded_text(1, DESCRIPTION_CHARS_MAX)?;
    let extensions = read_optional(information.optional("extensionList"), parse_extension_list)?;
    Ok(ErrorBody { code, description, extensions })
}

/// Reads the `errorInformation` of one transfer of a bulk transfer.
pub(crate) fn read_error_information(value: Value<'_, '_>) -> Result<(ErrorCode, Box<str>), SyncError> {
    let information = INFORMATION.read(value)?;
    let code = information.required("errorCode").error_code()?;
    let description = information.required("errorDescription").bounded_text(1, DESCRIPTION_CHARS_MAX)?;
    check(information.optional("extensionList"), check_extension_list)?;
    Ok((code, description.into()))
}

/// Checks the `errorInformation` of one quote of a bulk quote.
pub(crate) fn check_error_information(value: Value<'_, '_>) -> Result<(), SyncError> {
    let information = INFORMATION.read(value)?;
    information.required("errorCode").quoting_error_code()?;
    information.required("errorDescription").bounded_text(1, DESCRIPTION_CHARS_MAX)?;
    check(information.optional("extensionList"), check_extension_list)
}
