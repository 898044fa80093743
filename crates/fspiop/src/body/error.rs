//! The body of `PUT /transfers/{ID}/error` and all its kin (FSPIOP API v1.1 §7.6).

use alloc::borrow::Cow;
use alloc::string::String;

use upesi_types::ErrorCode;
use upesi_types::error_code::DESCRIPTION_CHARS_MAX;

use super::extensions::parse_extension_list;
use super::object::{read_body, read_nested, require};
use super::text::Property;
use crate::SyncError;

/// The body of an error callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody<'a> {
    /// The code as given; [`ErrorCode::is_known_to_api`] tells whether a DFSP may use it.
    pub code: ErrorCode,
    /// 1 to 128 characters.
    pub description: Cow<'a, str>,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<String>,
}

const INFORMATION: [&str; 3] = ["errorCode", "errorDescription", "extensionList"];

/// Reads and checks the body of an error callback.
///
/// Errors: 400 with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_error_body(body: &[u8]) -> Result<ErrorBody<'_>, SyncError> {
    let names = ["errorInformation"];
    let [information] = require(&read_body(body, &names)?, &names, [0], "/requestBody")?;
    let path = "/requestBody/errorInformation";
    let properties = read_nested(information, path, &INFORMATION)?;
    let [code, description] = require(&properties, &INFORMATION, [0, 1], path)?;
    let code = Property::new(code, "/requestBody/errorInformation/errorCode").error_code()?;
    let description = Property::new(description, "/requestBody/errorInformation/errorDescription")
        .bounded_text(1, DESCRIPTION_CHARS_MAX)?;
    let extensions = match properties[2] {
        Some(json) => Some(parse_extension_list(json, "/requestBody/errorInformation/extensionList")?),
        None => None,
    };
    Ok(ErrorBody { code, description, extensions })
}
