//! The bodies of `/transactionRequests` and `/authorizations`, and the query of `GET /authorizations/{ID}` (FSPIOP API
//! v1.1 §6.4, §6.6). Mojaloop serves them with a separate service, which rejects invalid JSON with its own texts.

use alloc::borrow::Cow;
use alloc::format;

use upesi_types::{Currency, ErrorCode, Timestamp, TransferId};

use super::extension_list::check_extension_list;
use super::json::Kind;
use super::object::Unreadable;
use super::party::{PartyIdInfo, PartyInfo, read_party, read_party_id_info};
use super::quoting::{
    QuotedMoney, check, check_geo_code, check_note, check_transaction_type, read_money, read_optional,
};
use super::schema::{Schema, Value};
use super::text::{CURRENCIES, amount_violation, are_digits, names};
use crate::SyncError;
use crate::percent::decode_segment;
use crate::rules::NOT_ALLOWED;

/// The body of `POST /transactionRequests`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRequest<'a> {
    /// Identifies the request in all messages about it.
    pub transaction_request_id: TransferId,
    /// The payee, which requests the payment.
    pub payee: PartyInfo<'a>,
    /// The payer, which is to pay.
    pub payer: PartyIdInfo<'a>,
    pub amount: QuotedMoney<'a>,
    /// Time until which a response is requested. It may be in the past, because hubs do not enforce it.
    pub expiration: Option<Timestamp>,
}

/// The state of a transaction request according to the payer's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionRequestState {
    Received,
    /// The request was sent to the payer.
    Pending,
    /// The payer agrees.
    Accepted,
    /// The payer declines.
    Rejected,
}

/// The body of `PUT /transactionRequests/{ID}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionRequestResponse {
    pub state: TransactionRequestState,
    /// The transaction that the payer's side created for it.
    pub transaction_id: Option<TransferId>,
}

/// The payer's action at the payee's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorizationOutcome {
    /// The payer entered the requested value.
    Entered,
    /// The payer declined.
    Rejected,
    /// The payer requests that the value is sent again.
    Resend,
}

/// How a payer consents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthenticationType {
    /// A one-time password.
    Otp,
    /// A QR code.
    QrCode,
    /// A key of the FIDO alliance's U2F standard.
    U2f,
}

/// The query of `GET /authorizations/{ID}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationQuery<'a> {
    /// How the payer consents: with a one-time password or a QR code.
    pub authentication_type: AuthenticationType,
    /// The number of remaining attempts, a positive number.
    pub retries_left: Cow<'a, str>,
    /// The amount to pay.
    pub money: QuotedMoney<'a>,
}

/// The error for a body that is not an object.
pub(crate) fn refuse_unreadable(unreadable: Unreadable) -> SyncError {
    if unreadable.is_syntax() {
        return SyncError::new(ErrorCode::CLIENT, "Invalid request payload JSON format");
    }
    unreadable.into()
}

const REQUEST: Schema<10> = Schema::open(
    5,
    [
        "transactionRequestId",
        "payee",
        "payer",
        "amount",
        "transactionType",
        "note",
        "geoCode",
        "authenticationType",
        "expiration",
        "extensionList",
    ],
);

/// Reads and checks the body of `POST /transactionRequests`.
///
/// Errors: 400 with 3000 for invalid JSON, otherwise with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_transaction_request(body: &[u8]) -> Result<TransactionRequest<'_>, SyncError> {
    let object = REQUEST.read_body_or(body, refuse_unreadable)?;
    let transaction_request_id = object.required("transactionRequestId").transfer_id()?;
    let payee = read_party(object.required("payee"))?;
    let payer = read_party_id_info(object.required("payer"))?;
    let amount = read_money(object.required("amount"))?;
    check_transaction_type(object.required("transactionType"))?;
    check(object.optional("note"), check_note)?;
    check(object.optional("geoCode"), check_geo_code)?;
    check(object.optional("authenticationType"), |value| value.one_of(&AUTHENTICATION_TYPES))?;
    let expiration = read_optional(object.optional("expiration"), |value| value.date_time())?;
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(TransactionRequest { transaction_request_id, payee, payer, amount, expiration })
}

const RESPONSE: Schema<3> = Schema::open(1, ["transactionRequestState", "transactionId", "extensionList"]);

/// Reads and checks the body of `PUT /transactionRequests/{ID}`.
///
/// Errors: 400 with 3000 for invalid JSON, otherwise with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_transaction_request_response(body: &[u8]) -> Result<TransactionRequestResponse, SyncError> {
    use TransactionRequestState::{Accepted, Pending, Received, Rejected};
    let object = RESPONSE.read_body_or(body, refuse_unreadable)?;
    let state = object.required("transactionRequestState").one_of(&[
        ("RECEIVED", Received),
        ("PENDING", Pending),
        ("ACCEPTED", Accepted),
        ("REJECTED", Rejected),
    ])?;
    let transaction_id = read_optional(object.optional("transactionId"), |value| value.transfer_id())?;
    check(object.optional("extensionList"), check_extension_list)?;
    Ok(TransactionRequestResponse { state, transaction_id })
}

const AUTHENTICATION_TYPES: [(&str, AuthenticationType); 3] = [
    ("OTP", AuthenticationType::Otp),
    ("QRCODE", AuthenticationType::QrCode),
    ("U2F", AuthenticationType::U2f),
];

const AUTHORIZATION: Schema<2> = Schema::open(1, ["responseType", "authenticationInfo"]);
const AUTHENTICATION_INFO: Schema<2> = Schema::open(2, ["authentication", "authenticationValue"]);

/// Reads and checks the body of `PUT /authorizations/{ID}`.
///
/// Errors: 400 with 3000 for invalid JSON, otherwise with 3100, 3101 or 3102 for the first violation of the schema.
pub fn parse_authorization(body: &[u8]) -> Result<AuthorizationOutcome, SyncError> {
    use AuthorizationOutcome::{Entered, Rejected, Resend};
    let object = AUTHORIZATION.read_body_or(body, refuse_unreadable)?;
    let outcome = object.required("responseType").one_of(&[
        ("ENTERED", Entered),
        ("REJECTED", Rejected),
        ("RESEND", Resend),
    ])?;
    if let Some(info) = object.optional("authenticationInfo") {
        let info = AUTHENTICATION_INFO.read(info)?;
        info.required("authentication").one_of(&AUTHENTICATION_TYPES)?;
        check_authentication_value(info.required("authenticationValue"))?;
    }
    Ok(outcome)
}

const U2F_VALUE: Schema<2> = Schema::open(2, ["pinValue", "counter"]);

/// Checks a one-time password, the content of a QR code, or the PIN of a key with its counter.
fn check_authentication_value(value: Value<'_, '_>) -> Result<(), SyncError> {
    let is_secret =
        |text: &str| (1..=64).contains(&text.chars().count()) && !text.contains(char::is_whitespace);
    if value.kind() != Kind::Object {
        return value.matching(SECRET_RULE, is_secret).map(|_| ());
    }
    let object = U2F_VALUE.read(value)?;
    object.required("pinValue").matching(SECRET_RULE, is_secret)?;
    object.required("counter").matching(INTEGER_RULE, is_integer).map(|_| ())
}

const INTEGER_RULE: &str = "a whole number above 0, no leading zeros";
const SECRET_RULE: &str = "1 to 64 characters without blanks";
/// The schema has no limit, but a counter needs one.
const INTEGER_DIGITS_MAX: usize = 19;

fn is_integer(text: &str) -> bool {
    are_digits(text, 1, INTEGER_DIGITS_MAX) && !text.starts_with('0')
}

/// Whether a text is any whole number, including numbers that the schema does not allow.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

const QUERY: [&str; 4] = ["authenticationType", "retriesLeft", "amount", "currency"];

/// Reads and checks the query of `GET /authorizations/{ID}`, without its question mark. If a parameter occurs more than
/// once, the first occurrence is used. Parameters that are not in the schema are ignored.
///
/// Errors, with status 400:
/// - 3102 for a missing parameter
/// - 3101 if the number of retries is not a number
/// - 3100 for any other value that is not allowed
pub fn parse_authorization_query(query: &str) -> Result<AuthorizationQuery<'_>, SyncError> {
    let mut values = [const { Cow::Borrowed("") }; QUERY.len()];
    for (name, value) in QUERY.iter().zip(&mut values) {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let Some((_, found)) = pairs.find(|(key, _)| key == name) else {
            let detail = format!("/query must have required property '{name}'");
            return Err(SyncError::new(ErrorCode::MISSING_ELEMENT, &detail));
        };
        *value =
            decode_segment(found).ok_or_else(|| refuse_parameter(name, "is not percent-encoded UTF-8"))?;
    }
    let [authentication_type, retries_left, amount, currency] = values;
    let not_allowed = |name, allowed: &str| refuse_parameter(name, &format!("{NOT_ALLOWED}: {allowed}"));
    let mismatch = |name, rule| refuse_parameter(name, &format!("must match pattern: {rule}"));
    let known = AUTHENTICATION_TYPES[..2].iter().find(|(name, _)| *name == authentication_type);
    let (_, authentication_type) =
        *known.ok_or_else(|| not_allowed("authenticationType", &names(&AUTHENTICATION_TYPES[..2])))?;
    if !is_number(&retries_left) {
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, "/query/retriesLeft must be integer"));
    }
    if !is_integer(&retries_left) {
        return Err(mismatch("retriesLeft", INTEGER_RULE));
    }
    if let Some(rule) = amount_violation(&amount) {
        return Err(mismatch("amount", rule));
    }
    let currency = Currency::parse(&currency).ok_or_else(|| not_allowed("currency", CURRENCIES))?;
    Ok(AuthorizationQuery { authentication_type, retries_left, money: QuotedMoney { currency, amount } })
}

fn refuse_parameter(name: &str, violation: &str) -> SyncError {
    SyncError::new(ErrorCode::VALIDATION, &format!("/query/{name} {violation}"))
}
