//! Endpoint types: the purposes of a DFSP's callback URLs and addresses.

use crate::base::show::shown_as_word;
use crate::base::stored::stored_by_number;

/// A kind of endpoint, from the fixed catalogue that schemes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointType(u8);

impl EndpointType {
    /// `POST /transfers` to a payee.
    pub const TRANSFER_POST: Self = Self(0);
    /// `PUT` and `PATCH /transfers/{ID}`.
    pub const TRANSFER_PUT: Self = Self(1);
    /// `PUT /transfers/{ID}/error`.
    pub const TRANSFER_ERROR: Self = Self(2);
    /// `PUT /participants/{Type}/{ID}`.
    pub const PARTICIPANT_PUT: Self = Self(11);
    /// `PUT /participants/{Type}/{ID}/error`.
    pub const PARTICIPANT_PUT_ERROR: Self = Self(12);
    /// `PUT /participants/{Type}/{ID}/{SubId}`.
    pub const PARTICIPANT_SUB_ID_PUT: Self = Self(13);
    /// `PUT /participants/{Type}/{ID}/{SubId}/error`.
    pub const PARTICIPANT_SUB_ID_PUT_ERROR: Self = Self(14);
    /// `DELETE /participants/{Type}/{ID}`.
    pub const PARTICIPANT_DELETE: Self = Self(15);
    /// `DELETE /participants/{Type}/{ID}/{SubId}`.
    pub const PARTICIPANT_SUB_ID_DELETE: Self = Self(16);
    /// `PUT /participants/{ID}`, the result of a batch request.
    pub const PARTICIPANT_BATCH_PUT: Self = Self(17);
    /// `PUT /participants/{ID}/error`.
    pub const PARTICIPANT_BATCH_PUT_ERROR: Self = Self(18);
    /// `GET /parties/{Type}/{ID}`.
    pub const PARTIES_GET: Self = Self(19);
    /// `GET /parties/{Type}/{ID}/{SubId}`.
    pub const PARTIES_SUB_ID_GET: Self = Self(20);
    /// `PUT /parties/{Type}/{ID}`.
    pub const PARTIES_PUT: Self = Self(21);
    /// `PUT /parties/{Type}/{ID}/{SubId}`.
    pub const PARTIES_SUB_ID_PUT: Self = Self(22);
    /// `PUT /parties/{Type}/{ID}/error`.
    pub const PARTIES_PUT_ERROR: Self = Self(23);
    pub const PARTIES_SUB_ID_PUT_ERROR: Self = Self(24);
    /// Base URL for fxQuotes.
    pub const FX_QUOTES: Self = Self(3);
    /// `POST /fxTransfers` to an FXP.
    pub const FX_TRANSFER_POST: Self = Self(4);
    /// `PUT` and `PATCH /fxTransfers/{ID}`.
    pub const FX_TRANSFER_PUT: Self = Self(5);
    /// `PUT /fxTransfers/{ID}/error`.
    pub const FX_TRANSFER_ERROR: Self = Self(6);
    /// `POST /bulkTransfers` to a payee.
    pub const BULK_TRANSFER_POST: Self = Self(7);
    /// `PUT /bulkTransfers/{ID}`.
    pub const BULK_TRANSFER_PUT: Self = Self(8);
    /// `PUT /bulkTransfers/{ID}/error`.
    pub const BULK_TRANSFER_ERROR: Self = Self(9);
    /// Base URL for bulkQuotes.
    pub const BULK_QUOTES: Self = Self(10);
    /// Base URL for quotes.
    pub const QUOTES: Self = Self(25);
    /// Base URL for authorizations.
    pub const AUTHORIZATIONS: Self = Self(26);
    /// Base URL for transactionRequests.
    pub const TRX_REQ_SERVICE: Self = Self(27);

    /// Base URL for services.
    pub const SERVICES: Self = Self(62);

    /// Reads a name of the catalogue.
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.iter().position(|known| *known == name).map(|index| Self(index as u8))
    }

    /// Finds the type with a stored number. Numbers are stable, because names are only added at the end.
    pub fn from_number(number: u8) -> Option<Self> {
        (usize::from(number) < NAMES.len()).then_some(Self(number))
    }

    /// The stored number.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The type's name in the catalogue.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }

    /// The whole catalogue.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..NAMES.len() as u8).map(Self)
    }

    /// Whether the value is a URL, not an e-mail address or a topic.
    pub fn is_url(self) -> bool {
        self.name().contains("_URL")
    }

    /// Whether this hub sends messages to the endpoint. Other URLs are stored for parts of the API that the hub does
    /// not implement.
    pub fn is_called(self) -> bool {
        CALLED.contains(&self)
    }

    /// The endpoint types of a DFSP that serves everything below one base URL, with the path of each.
    pub fn usual_paths() -> impl Iterator<Item = (Self, &'static str)> {
        USUAL_PATHS.into_iter()
    }

    /// The path below a base URL. `None` for types that such a DFSP does not have.
    pub fn usual_path(self) -> Option<&'static str> {
        USUAL_PATHS.iter().find(|(kind, _)| *kind == self).map(|(_, path)| *path)
    }
}

const CALLED: [EndpointType; 27] = [
    EndpointType::TRANSFER_POST,
    EndpointType::TRANSFER_PUT,
    EndpointType::TRANSFER_ERROR,
    EndpointType::PARTICIPANT_PUT,
    EndpointType::PARTICIPANT_PUT_ERROR,
    EndpointType::PARTICIPANT_SUB_ID_PUT,
    EndpointType::PARTICIPANT_SUB_ID_PUT_ERROR,
    EndpointType::PARTICIPANT_BATCH_PUT,
    EndpointType::PARTICIPANT_BATCH_PUT_ERROR,
    EndpointType::PARTIES_GET,
    EndpointType::PARTIES_SUB_ID_GET,
    EndpointType::PARTIES_PUT,
    EndpointType::PARTIES_SUB_ID_PUT,
    EndpointType::PARTIES_PUT_ERROR,
    EndpointType::PARTIES_SUB_ID_PUT_ERROR,
    EndpointType::FX_QUOTES,
    EndpointType::FX_TRANSFER_POST,
    EndpointType::FX_TRANSFER_PUT,
    EndpointType::FX_TRANSFER_ERROR,
    EndpointType::BULK_TRANSFER_POST,
    EndpointType::BULK_TRANSFER_PUT,
    EndpointType::BULK_TRANSFER_ERROR,
    EndpointType::BULK_QUOTES,
    EndpointType::QUOTES,
    EndpointType::AUTHORIZATIONS,
    EndpointType::TRX_REQ_SERVICE,
    EndpointType::SERVICES,
];

/// The paths of endpoints below a DFSP's base URL, with the placeholders that hubs fill in. If clients append the path
/// themselves, the type has an empty path.
const USUAL_PATHS: [(EndpointType, &str); 29] = [
    (EndpointType::TRANSFER_POST, "/transfers"),
    (EndpointType::TRANSFER_PUT, "/transfers/{{transferId}}"),
    (EndpointType::TRANSFER_ERROR, "/transfers/{{transferId}}/error"),
    (EndpointType::QUOTES, ""),
    (EndpointType::PARTIES_GET, "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    (EndpointType::PARTIES_SUB_ID_GET, "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}"),
    (EndpointType::PARTIES_PUT, "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    (EndpointType::PARTIES_SUB_ID_PUT, "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}"),
    (EndpointType::PARTIES_PUT_ERROR, "/parties/{{partyIdType}}/{{partyIdentifier}}/error"),
    (
        EndpointType::PARTIES_SUB_ID_PUT_ERROR,
        "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error",
    ),
    (EndpointType::PARTICIPANT_PUT, "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    (EndpointType::PARTICIPANT_PUT_ERROR, "/participants/{{partyIdType}}/{{partyIdentifier}}/error"),
    (
        EndpointType::PARTICIPANT_SUB_ID_PUT,
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    (
        EndpointType::PARTICIPANT_SUB_ID_PUT_ERROR,
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error",
    ),
    (EndpointType::PARTICIPANT_DELETE, "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    (
        EndpointType::PARTICIPANT_SUB_ID_DELETE,
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    (EndpointType::PARTICIPANT_BATCH_PUT, "/participants/{{requestId}}"),
    (EndpointType::PARTICIPANT_BATCH_PUT_ERROR, "/participants/{{requestId}}/error"),
    (EndpointType::BULK_TRANSFER_POST, "/bulkTransfers"),
    (EndpointType::BULK_TRANSFER_PUT, "/bulkTransfers/{{id}}"),
    (EndpointType::BULK_TRANSFER_ERROR, "/bulkTransfers/{{id}}/error"),
    (EndpointType::BULK_QUOTES, ""),
    (EndpointType::FX_QUOTES, ""),
    (EndpointType::FX_TRANSFER_POST, "/fxTransfers"),
    (EndpointType::FX_TRANSFER_PUT, "/fxTransfers/{{commitRequestId}}"),
    (EndpointType::FX_TRANSFER_ERROR, "/fxTransfers/{{commitRequestId}}/error"),
    (EndpointType::AUTHORIZATIONS, ""),
    (EndpointType::TRX_REQ_SERVICE, ""),
    (EndpointType::SERVICES, ""),
];

/// Append only: the index is the stored number.
const NAMES: [&str; 63] = [
    "FSPIOP_CALLBACK_URL_TRANSFER_POST",
    "FSPIOP_CALLBACK_URL_TRANSFER_PUT",
    "FSPIOP_CALLBACK_URL_TRANSFER_ERROR",
    "FSPIOP_CALLBACK_URL_FX_QUOTES",
    "FSPIOP_CALLBACK_URL_FX_TRANSFER_POST",
    "FSPIOP_CALLBACK_URL_FX_TRANSFER_PUT",
    "FSPIOP_CALLBACK_URL_FX_TRANSFER_ERROR",
    "FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST",
    "FSPIOP_CALLBACK_URL_BULK_TRANSFER_PUT",
    "FSPIOP_CALLBACK_URL_BULK_TRANSFER_ERROR",
    "FSPIOP_CALLBACK_URL_BULK_QUOTES",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_PUT",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT_ERROR",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_DELETE",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_DELETE",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT",
    "FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT_ERROR",
    "FSPIOP_CALLBACK_URL_PARTIES_GET",
    "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_GET",
    "FSPIOP_CALLBACK_URL_PARTIES_PUT",
    "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT",
    "FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR",
    "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT_ERROR",
    "FSPIOP_CALLBACK_URL_QUOTES",
    "FSPIOP_CALLBACK_URL_AUTHORIZATIONS",
    "FSPIOP_CALLBACK_URL_TRX_REQ_SERVICE",
    "NET_DEBIT_CAP_THRESHOLD_BREACH_EMAIL",
    "NET_DEBIT_CAP_ADJUSTMENT_EMAIL",
    "SETTLEMENT_TRANSFER_POSITION_CHANGE_EMAIL",
    "ALARM_NOTIFICATION_URL",
    "ALARM_NOTIFICATION_TOPIC",
    "TP_CB_URL_TRANSACTION_REQUEST_GET",
    "TP_CB_URL_TRANSACTION_REQUEST_POST",
    "TP_CB_URL_TRANSACTION_REQUEST_PUT",
    "TP_CB_URL_TRANSACTION_REQUEST_PUT_ERROR",
    "TP_CB_URL_TRANSACTION_REQUEST_PATCH",
    "TP_CB_URL_TRANSACTION_REQUEST_AUTH_POST",
    "TP_CB_URL_TRANSACTION_REQUEST_AUTH_PUT",
    "TP_CB_URL_TRANSACTION_REQUEST_AUTH_PUT_ERROR",
    "TP_CB_URL_TRANSACTION_REQUEST_VERIFY_POST",
    "TP_CB_URL_TRANSACTION_REQUEST_VERIFY_PUT",
    "TP_CB_URL_TRANSACTION_REQUEST_VERIFY_PUT_ERROR",
    "TP_CB_URL_CONSENT_REQUEST_POST",
    "TP_CB_URL_CONSENT_REQUEST_PUT",
    "TP_CB_URL_CONSENT_REQUEST_PUT_ERROR",
    "TP_CB_URL_CONSENT_REQUEST_PATCH",
    "TP_CB_URL_CREATE_CREDENTIAL_POST",
    "TP_CB_URL_CONSENT_POST",
    "TP_CB_URL_CONSENT_GET",
    "TP_CB_URL_CONSENT_PUT",
    "TP_CB_URL_CONSENT_PATCH",
    "TP_CB_URL_CONSENT_PUT_ERROR",
    "TP_CB_URL_CONSENT_GENERATE_CHALLENGE_POST",
    "TP_CB_URL_CONSENT_GENERATE_CHALLENGE_PUT_ERROR",
    "TP_CB_URL_ACCOUNTS_GET",
    "TP_CB_URL_ACCOUNTS_PUT",
    "TP_CB_URL_ACCOUNTS_PUT_ERROR",
    "TP_CB_URL_SERVICES_GET",
    "TP_CB_URL_SERVICES_PUT",
    "TP_CB_URL_SERVICES_PUT_ERROR",
    "FSPIOP_CALLBACK_URL_SERVICES",
];

stored_by_number! {
    EndpointType: u8, "unknown endpoint type";
}

shown_as_word!(EndpointType: name);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn names_are_unique_and_constants_point_at_theirs() {
        for kind in EndpointType::all() {
            assert_eq!(EndpointType::parse(kind.name()), Some(kind));
            assert_eq!(EndpointType::from_number(kind.number()), Some(kind));
        }
        for (kind, name) in [
            (EndpointType::TRANSFER_POST, "TRANSFER_POST"),
            (EndpointType::TRANSFER_PUT, "TRANSFER_PUT"),
            (EndpointType::TRANSFER_ERROR, "TRANSFER_ERROR"),
            (EndpointType::PARTICIPANT_PUT, "PARTICIPANT_PUT"),
            (EndpointType::PARTICIPANT_PUT_ERROR, "PARTICIPANT_PUT_ERROR"),
            (EndpointType::PARTICIPANT_SUB_ID_PUT, "PARTICIPANT_SUB_ID_PUT"),
            (EndpointType::PARTICIPANT_SUB_ID_PUT_ERROR, "PARTICIPANT_SUB_ID_PUT_ERROR"),
            (EndpointType::PARTICIPANT_BATCH_PUT, "PARTICIPANT_BATCH_PUT"),
            (EndpointType::PARTICIPANT_BATCH_PUT_ERROR, "PARTICIPANT_BATCH_PUT_ERROR"),
            (EndpointType::PARTIES_GET, "PARTIES_GET"),
            (EndpointType::PARTIES_SUB_ID_GET, "PARTIES_SUB_ID_GET"),
            (EndpointType::PARTIES_PUT, "PARTIES_PUT"),
            (EndpointType::PARTIES_SUB_ID_PUT, "PARTIES_SUB_ID_PUT"),
            (EndpointType::PARTIES_PUT_ERROR, "PARTIES_PUT_ERROR"),
            (EndpointType::PARTIES_SUB_ID_PUT_ERROR, "PARTIES_SUB_ID_PUT_ERROR"),
            (EndpointType::FX_QUOTES, "FX_QUOTES"),
            (EndpointType::FX_TRANSFER_POST, "FX_TRANSFER_POST"),
            (EndpointType::FX_TRANSFER_PUT, "FX_TRANSFER_PUT"),
            (EndpointType::FX_TRANSFER_ERROR, "FX_TRANSFER_ERROR"),
            (EndpointType::BULK_TRANSFER_POST, "BULK_TRANSFER_POST"),
            (EndpointType::BULK_TRANSFER_PUT, "BULK_TRANSFER_PUT"),
            (EndpointType::BULK_TRANSFER_ERROR, "BULK_TRANSFER_ERROR"),
            (EndpointType::BULK_QUOTES, "BULK_QUOTES"),
            (EndpointType::QUOTES, "QUOTES"),
            (EndpointType::AUTHORIZATIONS, "AUTHORIZATIONS"),
            (EndpointType::TRX_REQ_SERVICE, "TRX_REQ_SERVICE"),
            (EndpointType::SERVICES, "SERVICES"),
        ] {
            assert_eq!(kind.name(), format!("FSPIOP_CALLBACK_URL_{name}"));
            assert!(kind.is_called(), "{name}");
        }
        assert_eq!(EndpointType::all().filter(|kind| kind.is_called()).count(), CALLED.len());
        assert_eq!(EndpointType::parse("FSPIOP_CALLBACK_URL_NOTHING"), None);
    }
}
