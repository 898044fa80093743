//! What a DFSP's base URL expands into: one endpoint per type, with the placeholders that hubs fill in.

/// Type, and path behind the base URL. Types whose callers append the path themselves have the base alone.
const TEMPLATES: &[(&str, &str)] = &[
    ("FSPIOP_CALLBACK_URL_TRANSFER_POST", "/transfers"),
    ("FSPIOP_CALLBACK_URL_TRANSFER_PUT", "/transfers/{{transferId}}"),
    ("FSPIOP_CALLBACK_URL_TRANSFER_ERROR", "/transfers/{{transferId}}/error"),
    ("FSPIOP_CALLBACK_URL_QUOTES", ""),
    ("FSPIOP_CALLBACK_URL_PARTIES_GET", "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    (
        "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_GET",
        "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    ("FSPIOP_CALLBACK_URL_PARTIES_PUT", "/parties/{{partyIdType}}/{{partyIdentifier}}"),
    (
        "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT",
        "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    ("FSPIOP_CALLBACK_URL_PARTIES_PUT_ERROR", "/parties/{{partyIdType}}/{{partyIdentifier}}/error"),
    (
        "FSPIOP_CALLBACK_URL_PARTIES_SUB_ID_PUT_ERROR",
        "/parties/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error",
    ),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_PUT", "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_PUT_ERROR", "/participants/{{partyIdType}}/{{partyIdentifier}}/error"),
    (
        "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT",
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    (
        "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_PUT_ERROR",
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}/error",
    ),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_DELETE", "/participants/{{partyIdType}}/{{partyIdentifier}}"),
    (
        "FSPIOP_CALLBACK_URL_PARTICIPANT_SUB_ID_DELETE",
        "/participants/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}",
    ),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT", "/participants/{{requestId}}"),
    ("FSPIOP_CALLBACK_URL_PARTICIPANT_BATCH_PUT_ERROR", "/participants/{{requestId}}/error"),
    ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_POST", "/bulkTransfers"),
    ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_PUT", "/bulkTransfers/{{id}}"),
    ("FSPIOP_CALLBACK_URL_BULK_TRANSFER_ERROR", "/bulkTransfers/{{id}}/error"),
    ("FSPIOP_CALLBACK_URL_BULK_QUOTES", ""),
    ("FSPIOP_CALLBACK_URL_FX_QUOTES", ""),
    ("FSPIOP_CALLBACK_URL_FX_TRANSFER_POST", "/fxTransfers"),
    ("FSPIOP_CALLBACK_URL_FX_TRANSFER_PUT", "/fxTransfers/{{commitRequestId}}"),
    ("FSPIOP_CALLBACK_URL_FX_TRANSFER_ERROR", "/fxTransfers/{{commitRequestId}}/error"),
    ("FSPIOP_CALLBACK_URL_AUTHORIZATIONS", ""),
    ("FSPIOP_CALLBACK_URL_TRX_REQ_SERVICE", ""),
    ("FSPIOP_CALLBACK_URL_SERVICES", ""),
];

/// The endpoints of a DFSP that serves everything below one base URL.
pub fn expand(base_url: &str) -> impl Iterator<Item = (String, String)> {
    let base = base_url.trim_end_matches('/').to_owned();
    TEMPLATES.iter().map(move |(kind, path)| ((*kind).to_owned(), format!("{base}{path}")))
}

/// A template with a letter in place of each `{{placeholder}}`, so that it can be checked as a URL.
pub fn without_placeholders(template: &str) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        text.push_str(before);
        text.push('x');
        rest = after.split_once("}}").map_or("", |(_, behind)| behind);
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use upesi_ledger::EndpointType;

    #[test]
    fn every_template_is_of_a_known_type_and_a_url() {
        for (kind, url) in expand("http://127.0.0.1:5000/greenbank/") {
            assert!(EndpointType::parse(&kind).is_some_and(EndpointType::is_url), "{kind}");
            assert!(url.starts_with("http://127.0.0.1:5000/greenbank"), "{url}");
            let plain = without_placeholders(&url);
            assert!(upesi_http::Target::parse(&plain).is_ok() && !plain.contains('{'), "{plain}");
        }
        let put = expand("http://a").find(|(kind, _)| kind.ends_with("TRANSFER_PUT"));
        assert_eq!(put.unwrap().1, "http://a/transfers/{{transferId}}");
    }
}
