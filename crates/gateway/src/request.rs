//! Reads head and body into a typed request, or into the error that is answered at once.

mod headers;

use bytes::Bytes;
use http::request::Parts;
use upesi_delivery::Request;
use upesi_engine::ReplyTo;
use upesi_fspiop::body::{check_completed_timestamp, completed_timestamp_fault, parse_authorization_query};
use upesi_fspiop::headers::{check_headers, check_parties};
use upesi_fspiop::{Message, Method, Resource, Route, SyncError, Unroutable};
use upesi_types::Present;

pub(crate) use self::headers::{Lookup, refuse_encoded};
use self::headers::{beside_headers, refuse_repeated};
use super::authenticator::Authenticator;
use crate::config::GatewayConfig;

/// Reads a whole request, head and body, with the gateway's rules. Calls `present` only if a check needs it.
///
/// Errors: the answer that the sender gets at once.
pub fn read_request(
    parts: &Parts,
    body: Bytes,
    config: &GatewayConfig,
    authenticator: &dyn Authenticator,
    present: impl FnOnce() -> Present,
) -> Result<Request, SyncError> {
    let route = Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path());
    let proof = SenderProof { authenticator, is_known: false };
    read(route.map_err(Unroutable::to_error)?, parts, body, config, proof, present)
}

/// Verification of a request's sender.
#[derive(Clone, Copy)]
pub(crate) struct SenderProof<'a> {
    pub(crate) authenticator: &'a dyn Authenticator,
    /// Whether a certificate, a token or a gateway has already authenticated the sender.
    pub(crate) is_known: bool,
}

/// Checks a request in a fixed order and returns the first failure. The order: repeated headers, the form of the
/// headers, the sender's proof, the body, the path and the query, the parties, the time of completion.
pub(crate) fn read(
    Route { operation, segments }: Route<'_>,
    parts: &Parts,
    body: Bytes,
    config: &GatewayConfig,
    proof: SenderProof<'_>,
    present: impl FnOnce() -> Present,
) -> Result<Request, SyncError> {
    if !operation.is_served() {
        return Err(SyncError::not_implemented());
    }
    let (method, resource) = (operation.method(), operation.resource());
    let headers = Lookup(&parts.headers);
    refuse_repeated(&parts.headers)?;
    refuse_encoded(&parts.headers)?;
    let checked = check_headers(method, resource, &headers, &config.headers)?;
    proof.authenticator.authenticate(operation, parts, &body, proof.is_known)?;
    let mut message = Message::read(operation, &body)?;
    if config.rejects_finer_amounts {
        message.reject_finer_amounts(operation, &body)?;
    }
    let ids = segments.check(resource, config.extended_party_id_types)?;
    if (resource, method) == (Resource::Authorizations, Method::Get) {
        parse_authorization_query(parts.uri.query().unwrap_or_default())?;
    }
    let parties = check_parties(resource, &headers, &config.hub_name)?;
    check_completion(&mut message, config, parties.proxied, present)?;
    let query = parts.uri.query().map(Into::into);
    let (headers, body) = beside_headers(&parts.headers, body);
    let (version, reply_to) = (checked.content_type, ReplyTo::Dfsp);
    Ok(Request { operation, ids, query, parties, version, message, headers, body, reply_to })
}

/// Rejects an implausible `completedTimestamp`. An answer to a bulk transfer passes with this fault marked: the ledger
/// rejects the bulk transfer and releases its money.
fn check_completion(
    message: &mut Message,
    config: &GatewayConfig,
    is_proxied: bool,
    present: impl FnOnce() -> Present,
) -> Result<(), SyncError> {
    let (lag_ms, age_s_max) = (config.completed_timestamp_lag_ms, config.completed_timestamp_age_s_max);
    let completed = match message {
        Message::Fulfil(fulfil) => fulfil.completed_timestamp,
        Message::FxTransferFulfil(fulfil) => fulfil.completed_timestamp,
        Message::BulkFulfil(fulfil) => {
            let completed = fulfil.completed_timestamp;
            if completed.is_some() {
                fulfil.fault = completed_timestamp_fault(completed, present(), lag_ms, age_s_max, is_proxied);
            }
            return Ok(());
        }
        _ => None,
    };
    match completed {
        None => Ok(()),
        completed => check_completed_timestamp(completed, present(), lag_ms, age_s_max, is_proxied),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use upesi_fspiop::headers::HeaderRules;
    use upesi_fspiop::{Operation, fingerprint};
    use upesi_ledger::command::{BulkCommand, FulfilState, Fulfilment};
    use upesi_ledger::{Command, Refusal, ResourceId};
    use upesi_types::{Amount, AmountError, ErrorCode, FspId, Timestamp, TransferId};

    use super::*;
    use crate::authenticator::TrustEveryone;

    const ID: &str = "5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d";
    const PREPARE: &str = r#"{"transferId":"5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d","payerFsp":"greenbank","payeeFsp":"bluewallet",
"amount":{"currency":"KES","amount":"125.5"},"ilpPacket":"AYICexample","condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s",
"expiration":"2031-04-01T12:00:30.000Z","extensionList":{"extension":[{"key":"k","value":"v"}]}}"#;
    const FULFIL: &str =
        r#"{"fulfilment":"BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY","transferState":"RESERVED"}"#;
    const ERROR: &str = r#"{"errorInformation":{"errorCode":"5104","errorDescription":"frozen"}}"#;

    /// Headers that are valid for every request about transfers, with changes: a value replaces, `None` removes.
    fn parts(version: &str, changes: &[(&'static str, Option<&'static [u8]>)]) -> Parts {
        let (mut parts, ()) = http::Request::new(()).into_parts();
        let media = format!("application/vnd.interoperability.transfers+json;version={version}");
        let media = HeaderValue::from_str(&media).unwrap();
        parts.headers.insert("content-type", media.clone());
        parts.headers.insert("accept", media);
        parts.headers.insert("date", HeaderValue::from_static("Tue, 01 Apr 2031 12:00:00 GMT"));
        parts.headers.insert("fspiop-source", HeaderValue::from_static("greenbank"));
        parts.headers.insert("fspiop-destination", HeaderValue::from_static("bluewallet"));
        for &(name, value) in changes {
            match value {
                Some(value) => {
                    let value = HeaderValue::from_bytes(value).unwrap();
                    parts.headers.insert(HeaderName::from_static(name), value);
                }
                None => {
                    parts.headers.remove(name);
                }
            }
        }
        parts
    }

    fn now() -> Timestamp {
        Timestamp::parse_iso("2031-04-01T12:00:00.000Z").unwrap()
    }

    fn put(id: &str) -> String {
        format!("PUT /transfers/{id}")
    }

    /// The command of a request.
    fn read(line: &str, parts: &Parts, body: &str) -> Result<Command, SyncError> {
        read_by(line, parts, body, &GatewayConfig::default(), &TrustEveryone)
    }

    fn read_by(
        line: &str,
        parts: &Parts,
        body: &str,
        config: &GatewayConfig,
        authenticator: &dyn Authenticator,
    ) -> Result<Command, SyncError> {
        let (method, path) = line.split_once(' ').unwrap();
        let mut parts = parts.clone();
        (parts.method, parts.uri) = (method.parse().unwrap(), path.parse().unwrap());
        let body = Bytes::copy_from_slice(body.as_bytes());
        let request = read_request(&parts, body.clone(), config, authenticator, || now().into())?;
        let (command, payload) = upesi_transfers::into_command(request)?;
        assert_eq!(payload.body, body);
        Ok(command)
    }

    fn refused(line: &str, parts: &Parts, body: &str) -> (u16, u16) {
        let error = read(line, parts, body).expect_err("the request was taken");
        (error.status, error.code.number())
    }

    fn name(text: &str) -> FspId {
        FspId::parse(text).unwrap()
    }

    #[test]
    fn prepare_command_has_the_content_of_the_body() {
        let Ok(Command::Prepare(prepare)) = read("POST /transfers", &parts("1.1", &[]), PREPARE) else {
            panic!("no prepare")
        };
        assert_eq!(prepare.id, TransferId::parse(ID).unwrap());
        assert_eq!(
            (prepare.source, prepare.payer, prepare.payee),
            (name("greenbank"), name("greenbank"), name("bluewallet"))
        );
        assert_eq!(prepare.destination, Some(name("bluewallet")));
        assert_eq!(prepare.amount, Ok(Amount::parse_wire("125.5").unwrap()));
        assert_eq!(prepare.currency.to_string(), "KES");
        assert!(prepare.condition.is_some());
        assert_eq!(prepare.expires_at, Timestamp::parse_iso("2031-04-01T12:00:30.000Z").unwrap());
        assert_eq!(prepare.fingerprint, fingerprint(PREPARE.as_bytes()));
        assert_eq!(prepare.extensions.as_deref(), Some(r#"[{"key":"k","value":"v"}]"#));
    }

    #[test]
    fn requests_that_the_ledger_rejects_by_callback_reach_it() {
        let body = PREPARE
            .replace("125.5", "1234567890123456.78")
            .replace(
                "zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s",
                "zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51t",
            )
            .replace("greenbank", "bluewallet");
        let Ok(Command::Prepare(prepare)) = read("POST /transfers", &parts("1.0", &[]), &body) else {
            panic!("no prepare")
        };
        let unfit = prepare.amount.unwrap_err();
        assert_eq!((unfit.error, &*unfit.text), (AmountError::Precision, "1234567890123456.78"));
        assert_eq!(prepare.condition, None);
        assert_eq!((prepare.source, prepare.payer), (name("greenbank"), name("bluewallet")));
    }

    #[test]
    fn amounts_finer_than_the_currency_are_unfit_if_the_scheme_requires_it() {
        let rejects = GatewayConfig { rejects_finer_amounts: true, ..GatewayConfig::default() };
        for (config, amount, expected) in [
            (&GatewayConfig::default(), "125.505", None),
            (&rejects, "125.5", None),
            (&rejects, "125.505", Some(AmountError::Finer)),
        ] {
            let (body, parts) = (PREPARE.replace("125.5", amount), parts("1.0", &[]));
            let read = read_by("POST /transfers", &parts, &body, config, &TrustEveryone);
            let Ok(Command::Prepare(prepare)) = read else { panic!("no prepare") };
            assert_eq!(prepare.amount.err().map(|unfit| unfit.error), expected, "{amount}");
        }
    }

    #[test]
    fn fulfil_command_has_state_version_and_preimage() {
        for (state, expected) in [
            ("RECEIVED", FulfilState::Received),
            ("RESERVED", FulfilState::Reserved),
            ("COMMITTED", FulfilState::Committed),
            ("ABORTED", FulfilState::Aborted),
        ] {
            for (version, may_reserve) in [("1.0", false), ("1.1", true), ("2.0", true)] {
                let body = FULFIL.replace("RESERVED", state);
                let Ok(Command::Fulfil(fulfil)) = read(&put(ID), &parts(version, &[]), &body) else {
                    panic!("no fulfil")
                };
                assert_eq!((fulfil.state, fulfil.may_reserve), (expected, may_reserve));
                assert_eq!(fulfil.transfer, TransferId::parse(ID).unwrap().into());
                assert_eq!(fulfil.destination, Some(name("bluewallet")));
                assert_eq!(fulfil.fulfilment, Fulfilment::Preimage(std::array::from_fn(|at| at as u8 + 7)));
                assert_eq!(fulfil.fingerprint, fingerprint(body.as_bytes()));
            }
        }
        let bare = read(
            &put("no-id"),
            &parts("1.1", &[("fspiop-destination", None)]),
            r#"{"transferState":"COMMITTED"}"#,
        );
        let Ok(Command::Fulfil(fulfil)) = bare else { panic!("no fulfil") };
        assert_eq!(fulfil.transfer, ResourceId::Text("no-id".into()));
        assert_eq!((fulfil.fulfilment, fulfil.destination), (Fulfilment::Missing, None));
    }

    #[test]
    fn abort_command_may_have_any_error_code() {
        for code in [5104_u16, 7000, 9999] {
            let body = ERROR.replace("5104", &code.to_string());
            let Ok(Command::Abort(abort)) = read(&(put(ID) + "/error"), &parts("1.1", &[]), &body) else {
                panic!("no abort")
            };
            assert_eq!(abort.code, ErrorCode::from_number(code).unwrap());
            assert_eq!(&*abort.description, "frozen");
            assert_eq!(abort.source, name("greenbank"));
            assert_eq!(abort.fingerprint, fingerprint(body.as_bytes()));
        }
    }

    #[test]
    fn a_get_needs_no_body_and_a_content_type_unless_its_absence_is_tolerated() {
        let Ok(Command::Get(get)) = read(&format!("GET /transfers/{ID}"), &parts("1.1", &[]), "ignored")
        else {
            panic!("no get")
        };
        let bare = parts("1.1", &[("content-type", None)]);
        assert_eq!(refused(&format!("GET /transfers/{ID}"), &bare, ""), (400, 3102));
        let headers = HeaderRules { content_type_required: false, ..HeaderRules::default() };
        let line = format!("GET /transfers/{ID}");
        let tolerant = GatewayConfig { headers, ..GatewayConfig::default() };
        assert!(read_by(&line, &bare, "", &tolerant, &TrustEveryone).is_ok());
        assert_eq!((get.transfer, get.source), (TransferId::parse(ID).unwrap().into(), name("greenbank")));
    }

    #[test]
    fn patch_is_rejected() {
        assert_eq!(refused(&format!("PATCH /transfers/{ID}"), &parts("1.1", &[]), FULFIL), (501, 2002));
    }

    /// Each line adds a mistake, from the last check to the first. The earliest check always determines the error.
    #[test]
    fn first_failure_determines_the_answer() {
        let stale = FULFIL.replace(
            r#""transferState""#,
            r#""completedTimestamp":"2031-04-01T11:00:00.000Z","transferState""#,
        );
        let long_id = "x".repeat(129);
        let mut changes: Vec<(&'static str, Option<&'static [u8]>)> = Vec::new();
        let step = |id: &str, changes: &[_], body: &str| {
            read(&put(id), &parts("1.1", changes), body).unwrap_err().description
        };
        let mut seen = vec![step(ID, &changes, &stale)];
        changes.push(("fspiop-source", Some(b"caf\xe9")));
        seen.push(step(ID, &changes, &stale));
        seen.push(step(&long_id, &changes, &stale));
        seen.push(step(&long_id, &changes, "[]"));
        changes.push(("content-type", None));
        seen.push(step(&long_id, &changes, "[]"));
        changes.push(("date", None));
        seen.push(step(&long_id, &changes, "[]"));
        changes.push(("accept", Some(b"application/json")));
        seen.push(step(&long_id, &changes, "[]"));
        changes.push(("x-client-id", Some(b"other")));
        seen.push(step(&long_id, &changes, "[]"));
        let expected = [
            "exceeded the maximum timeout duration",
            "/header/fspiop-source",
            "/path/ID",
            "/requestBody must be object",
            "Content-type is required",
            "Missing required date header",
            "Invalid accept header",
            "Invalid fspiop-source header",
        ];
        for (seen, expected) in seen.iter().zip(expected) {
            assert!(seen.contains(expected), "{seen} instead of {expected}");
        }
        assert_eq!(seen.len(), expected.len());
        let mut spoiled = parts("1.1", &changes);
        spoiled.headers.append("date", HeaderValue::from_static("x"));
        spoiled.headers.append("date", HeaderValue::from_static("y"));
        let error = read(&put(&long_id), &spoiled, "[]").unwrap_err();
        assert!(error.description.contains("/header/date must occur only once"), "{error}");
    }

    #[test]
    fn completed_timestamps_are_compared_with_the_clock() {
        let body = |time: &str| {
            FULFIL.replace(r#""transferState""#, &format!(r#""completedTimestamp":"{time}","transferState""#))
        };
        for (time, taken) in [
            ("2031-04-01T12:00:00.200Z", true),
            ("2031-04-01T12:00:00.201Z", false),
            ("2031-04-01T11:55:00.000Z", true),
            ("2031-04-01T11:54:59.999Z", false),
            ("2031-04-01T15:00:00.000+03:00", true),
        ] {
            let answer = read(&put(ID), &parts("1.1", &[]), &body(time));
            assert_eq!(answer.is_ok(), taken, "{time}");
            let proxied = parts("1.1", &[("fspiop-proxy", Some(b"bridge"))]);
            assert!(read(&put(ID), &proxied, &body(time)).is_ok(), "{time}");
        }
    }

    /// If the hub rejected such an answer to a bulk transfer at once, the money would stay reserved until the deadline.
    #[test]
    fn answer_to_a_bulk_transfer_with_an_impossible_time_reaches_the_ledger_with_its_fault() {
        let media: Option<&[u8]> = Some(b"application/vnd.interoperability.bulkTransfers+json;version=1.1");
        let changes = [("content-type", media), ("accept", media)];
        for (time, proxied, fault) in [
            ("2031-04-01T12:00:00.200Z", false, None),
            ("2031-04-01T12:00:00.201Z", false, Some(Refusal::CompletedInFuture)),
            ("2031-04-01T12:00:00.201Z", true, None),
            ("2031-04-01T11:55:00.000Z", false, None),
            ("2031-04-01T11:54:59.999Z", false, Some(Refusal::CompletedLongAgo)),
        ] {
            let body = format!(r#"{{"bulkTransferState":"COMPLETED","completedTimestamp":"{time}"}}"#);
            let proxy: &[(&str, Option<&[u8]>)] = &[("fspiop-proxy", Some(b"bridge"))];
            let changes = [&changes[..], if proxied { proxy } else { &[] }].concat();
            let command = read(&format!("PUT /bulkTransfers/{ID}"), &parts("1.1", &changes), &body);
            let Ok(Command::Bulk(BulkCommand::Fulfil(fulfil))) = command else { panic!("{command:?}") };
            assert_eq!(fulfil.fault, fault, "{time}");
        }
    }

    /// Rejects every request, to show when it is called.
    struct RefuseEveryone;

    impl Authenticator for RefuseEveryone {
        fn authenticate(&self, _: Operation, _: &Parts, body: &[u8], _: bool) -> Result<(), SyncError> {
            Err(SyncError::new(ErrorCode::INVALID_SIGNATURE, &format!("{} bytes", body.len())))
        }
    }

    #[test]
    fn sender_is_verified_between_headers_and_body() {
        let ask = |parts: &Parts| {
            let config = GatewayConfig::default();
            read_by("POST /transfers", parts, "[]", &config, &RefuseEveryone).unwrap_err()
        };
        let error = ask(&parts("1.1", &[]));
        assert_eq!((error.status, &*error.description), (400, "Invalid signature - 2 bytes"));
        assert_eq!(ask(&parts("1.1", &[("date", None)])).code, ErrorCode::MISSING_ELEMENT);
    }

    #[test]
    fn header_values_need_not_be_text() {
        for (header, code) in [
            ("accept", 3101),
            ("date", 3101),
            ("content-type", 3101),
            ("fspiop-source", 3100),
            ("fspiop-destination", 3100),
        ] {
            let spoiled = parts("1.1", &[(header, Some(b"\xff\xfe"))]);
            assert_eq!(refused("POST /transfers", &spoiled, PREPARE), (400, code), "{header}");
        }
        assert!(read("POST /transfers", &parts("1.1", &[("x-own", Some(b"\xff\xfe"))]), PREPARE).is_ok());
    }
}
