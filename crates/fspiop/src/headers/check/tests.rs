use super::*;
use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const DATE: &str = "Tue, 01 Apr 2031 12:00:00 GMT";

struct Headers(Vec<(String, Vec<u8>)>);

impl HeaderLookup for Headers {
    fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_slice())
    }
}

/// A complete set with changes: `-name` removes a header, `name=value` sets it. `@` in a value stands for the media
/// type without its version.
fn headers(changes: &[&str]) -> Headers {
    let complete = [
        ("accept", MEDIA),
        ("content-type", MEDIA),
        ("date", DATE),
        ("fspiop-source", "greenbank"),
        ("fspiop-destination", "bluewallet"),
    ];
    let mut set: Vec<(String, Vec<u8>)> =
        complete.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    for change in changes {
        let (name, value) = match change.strip_prefix('-') {
            Some(name) => (name, None),
            None => change.split_once('=').map(|(name, value)| (name, Some(value))).unwrap(),
        };
        set.retain(|(key, _)| key != name);
        if let Some(value) = value {
            let value = value.replace('@', "application/vnd.interoperability.transfers+json");
            set.push((name.into(), value.into()));
        }
    }
    Headers(set)
}

/// Checks the headers for a hub named Hub.
fn check_parties_of(resource: Resource, headers: &Headers) -> Result<Parties, SyncError> {
    check_parties(resource, headers, &FspId::parse("Hub").unwrap())
}

fn check(method: Method, changes: &[&str]) -> Result<CheckedHeaders, SyncError> {
    check_headers(method, Resource::Transfers, &headers(changes), &HeaderRules::default())
}

const ACCEPT_UNSUPPORTED: &str = "Unacceptable version requested - The Client requested an unsupported version, see extension list for supported version(s).";
const CONTENT_UNSUPPORTED: &str = "Unacceptable version requested - Client supplied a protocol version which is not supported by the server";

#[test]
fn every_rejection_has_its_status_code_and_text() {
    use Method::{Delete, Get, Patch, Post, Put};
    for (method, changes, status, code, description) in [
        // x-client-id
        (
            Post,
            &["x-client-id=other"][..],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header: it must be the x-client-id",
        ),
        (
            Post,
            &["x-client-id=greenbank", "-fspiop-source"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header: it must be the x-client-id",
        ),
        (
            Get,
            &["x-client-id="],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header: it must be the x-client-id",
        ),
        (
            Post,
            &["x-client-id=greenbank", "fspiop-proxy=other"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-proxy header: it must be the x-client-id, and not the source",
        ),
        (
            Post,
            &["x-client-id=greenbank", "fspiop-proxy=greenbank"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-proxy header: it must be the x-client-id, and not the source",
        ),
        // accept
        (
            Get,
            &["-accept"],
            400,
            3102,
            "Missing mandatory element - Accept is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Delete,
            &["-accept"],
            400,
            3102,
            "Missing mandatory element - Accept is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Post,
            &["-accept"],
            400,
            3102,
            "Missing mandatory element - /header must have required property 'accept': application/vnd.interoperability.transfers+json",
        ),
        (
            Post,
            &["accept=*/*"],
            400,
            3101,
            "Malformed syntax - Invalid accept header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Post,
            &["accept=application/json"],
            400,
            3101,
            "Malformed syntax - Invalid accept header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Put,
            &["accept=application/json"],
            400,
            3101,
            "Malformed syntax - Invalid accept header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Get,
            &["accept=é"],
            400,
            3101,
            "Malformed syntax - Invalid accept header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (Post, &["accept=@;version=3"], 406, 3001, ACCEPT_UNSUPPORTED),
        // date
        (Post, &["-date"], 400, 3102, "Missing mandatory element - Missing required date header"),
        (Put, &["-date"], 400, 3102, "Missing mandatory element - Missing required date header"),
        (
            Post,
            &["date=2031-04-01T12:00:00.000Z"],
            400,
            3101,
            "Malformed syntax - Invalid date header: write it like Tue, 01 Apr 2031 10:00:00 GMT",
        ),
        (
            Post,
            &["date=Mon, 01 Apr 2031 12:00:00 GMT"],
            400,
            3101,
            "Malformed syntax - Invalid date header: write it like Tue, 01 Apr 2031 10:00:00 GMT",
        ),
        (
            Post,
            &["date="],
            400,
            3101,
            "Malformed syntax - Invalid date header: write it like Tue, 01 Apr 2031 10:00:00 GMT",
        ),
        // content-type
        (
            Post,
            &["-content-type"],
            400,
            3102,
            "Missing mandatory element - Content-type is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Put,
            &["-content-type"],
            400,
            3102,
            "Missing mandatory element - Content-type is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Patch,
            &["-content-type"],
            400,
            3102,
            "Missing mandatory element - Content-type is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Get,
            &["-content-type"],
            400,
            3102,
            "Missing mandatory element - Content-type is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Post,
            &["content-type=application/json"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Post,
            &["content-type=text/xml"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Get,
            &["content-type=@"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Put,
            &["content-type=@;version=1"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Put,
            &["content-type=@;version=1.1;charset=utf-8"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Post,
            &["content-type=application/vnd.interoperability.iso20022.transfers+json;version=2.0"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header: this hub does not speak ISO 20022",
        ),
        (
            Get,
            &["accept=@;version=1.1,application/vnd.interoperability.iso20022.transfers+json;version=2.0"],
            400,
            3101,
            "Malformed syntax - Invalid accept header: this hub does not speak ISO 20022",
        ),
        (Post, &["content-type=@;version=3.0"], 406, 3001, CONTENT_UNSUPPORTED),
        (Get, &["content-type=@;version=1.7"], 406, 3001, CONTENT_UNSUPPORTED),
        // order
        (
            Post,
            &["x-client-id=other", "-accept", "-date", "-content-type"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header: it must be the x-client-id",
        ),
        (
            Get,
            &["-accept", "-date", "content-type=x"],
            400,
            3102,
            "Missing mandatory element - Accept is required: application/vnd.interoperability.transfers+json;version=1.1",
        ),
        (
            Post,
            &["-date", "-content-type"],
            400,
            3102,
            "Missing mandatory element - Missing required date header",
        ),
    ] {
        let error = check(method, changes).expect_err(description);
        let got = (error.status, error.code.number(), error.description.as_str());
        assert_eq!(got, (status, code, description), "{method:?} {changes:?}");
        assert_eq!(error.supported_versions.is_some(), status == 406, "{method:?} {changes:?}");
    }
}

#[test]
fn a_version_error_lists_the_accepted_versions_in_their_order() {
    let body = check(Method::Post, &["content-type=@;version=3.0"]).unwrap_err().to_body();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"errorInformation":{"errorCode":"3001","errorDescription":"Unacceptable version requested - Client supplied a protocol version which is not supported by the server","extensionList":{"extension":[{"key":"1","value":"0"},{"key":"1","value":"1"},{"key":"2","value":"0"}]}}}"#
    );
    let body = check(Method::Post, &["-date"]).unwrap_err().to_body();
    assert_eq!(
        String::from_utf8(body).unwrap(),
        r#"{"errorInformation":{"errorCode":"3102","errorDescription":"Missing mandatory element - Missing required date header"}}"#
    );
}

#[test]
fn complete_and_sparse_requests_pass() {
    use Method::{Get, Patch, Post, Put};
    for (method, changes, version) in [
        (Post, &[][..], Some(Version::V1_1)),
        (Post, &["content-type=@; version=1.0"], Some(Version::V1_0)),
        (Post, &["accept=@"], Some(Version::V1_1)),
        (Post, &["accept=@;version=3,@;version=1.1"], Some(Version::V1_1)),
        (Post, &["x-client-id=greenbank"], Some(Version::V1_1)),
        (Post, &["x-client-id=proxy", "fspiop-proxy=proxy"], Some(Version::V1_1)),
        (Post, &["fspiop-proxy=proxy"], Some(Version::V1_1)),
        (Post, &["-fspiop-source"], Some(Version::V1_1)),
        (Get, &[], Some(Version::V1_1)),
        (Put, &["-accept"], Some(Version::V1_1)),
        (Patch, &["-accept"], Some(Version::V1_1)),
    ] {
        let checked = check(method, changes).unwrap();
        assert_eq!(checked.content_type, version, "{method:?} {changes:?}");
        assert_eq!(checked.date.http_date().to_string(), DATE);
    }
}

#[test]
fn configured_versions_restrict_accepted_versions() {
    let versions = Versions { accepted: [Version::V1_1].into(), ..Versions::default() };
    let rules = HeaderRules { versions, ..HeaderRules::default() };
    let post = |changes: &[&str]| {
        check_headers(Method::Post, Resource::Transfers, &headers(changes), &rules).map_err(|e| e.status)
    };
    assert!(post(&["accept=@;version=1"]).is_ok());
    assert_eq!(post(&["accept=@;version=2"]), Err(406));
    assert_eq!(post(&["content-type=@;version=1.0"]), Err(406));
}

#[test]
fn source_and_destination_are_checked_after_the_body() {
    let read = |changes: &[&str]| {
        check_parties_of(Resource::Transfers, &headers(changes))
            .map_err(|error| (error.code.number(), error.description))
    };
    let parties = read(&[]).unwrap();
    assert_eq!(parties.source.as_str(), "greenbank");
    assert_eq!(parties.destination.unwrap().as_str(), "bluewallet");
    assert!(!parties.proxied);
    assert_eq!(read(&["-fspiop-destination"]).unwrap().destination, None);
    assert!(read(&["fspiop-proxy=p"]).unwrap().proxied);
    let long = "fspiop-source=123456789012345678901234567890123";
    let accented = alloc::format!("fspiop-source={}", "é".repeat(32));
    for (change, code, description) in [
        (
            "-fspiop-source",
            3102,
            "Missing mandatory element - /header must have required property 'fspiop-source'",
        ),
        (
            "fspiop-source=",
            3100,
            "Generic validation error - /header/fspiop-source must NOT have fewer than 1 characters",
        ),
        (
            long,
            3100,
            "Generic validation error - /header/fspiop-source must NOT have more than 32 characters",
        ),
        (
            accented.as_str(),
            3100,
            "Generic validation error - /header/fspiop-source must match pattern: 1 to 32 printable ASCII characters",
        ),
        (
            "fspiop-destination=",
            3100,
            "Generic validation error - /header/fspiop-destination must NOT have fewer than 1 characters",
        ),
    ] {
        assert_eq!(read(&[change]), Err((code, description.into())), "{change}");
    }
}

/// The same complete set for another family.
fn headers_of(resource: Resource, changes: &[&str]) -> Headers {
    let mut set = headers(changes);
    for (name, value) in &mut set.0 {
        if matches!(name.as_str(), "accept" | "content-type") {
            let text = String::from_utf8(value.clone()).unwrap();
            *value = text.replace("transfers", resource.as_str()).into();
        }
    }
    set
}

fn refusal_of(method: Method, resource: Resource, changes: &[&str]) -> Option<(u16, u16, String)> {
    let result = check_headers(method, resource, &headers_of(resource, changes), &HeaderRules::default());
    result.err().map(|error| (error.status, error.code.number(), error.description))
}

/// A text followed by the required media type, with its version if there is space.
fn wanting(text: &str, resource: Resource) -> String {
    let bare = alloc::format!("{text}: application/vnd.interoperability.{}+json", resource.as_str());
    let is_new = resource.since() > Version::V1_1;
    let version = if is_new { "2.0" } else { "1.1" };
    let whole = alloc::format!("{bare};version={version}");
    [whole, bare].into_iter().find(|text| text.len() <= 128).unwrap_or_else(|| text.to_owned())
}

#[test]
fn rejected_media_type_names_the_accepted_ones_if_they_fit() {
    let media_type = "application/vnd.interoperability";
    for (resource, change, expected) in [
        (
            Resource::FxQuotes,
            "accept=*/*",
            alloc::format!("Invalid accept header: {media_type}.fxQuotes+json;version=2.0"),
        ),
        (
            Resource::TransactionRequests,
            "accept=*/*",
            alloc::format!("Invalid accept header: {media_type}.transactionRequests+json;version=1.1"),
        ),
        (
            Resource::Participants,
            "-accept",
            alloc::format!("/header must have required property 'accept': {media_type}.participants+json"),
        ),
        // The text has no space for a media type, and media types are not truncated.
        (Resource::TransactionRequests, "-accept", "/header must have required property 'accept'".to_owned()),
    ] {
        let (_, _, description) = refusal_of(Method::Post, resource, &[change]).unwrap();
        assert!(description.ends_with(&expected), "{description}");
    }
}

#[test]
fn every_family_has_its_own_media_type() {
    for &resource in Resource::ALL {
        for method in [Method::Get, Method::Post, Method::Put, Method::Delete] {
            assert_eq!(refusal_of(method, resource, &[]), None, "{method:?} {resource:?}");
            let other = headers_of(Resource::BulkTransfers, &[]);
            if resource != Resource::BulkTransfers {
                let error = check_headers(method, resource, &other, &HeaderRules::default()).unwrap_err();
                assert_eq!((error.status, error.code), (400, ErrorCode::MALFORMED_SYNTAX), "{resource:?}");
            }
        }
        // The date is also checked for bulk quotes and FX quotes, although other hubs accept invalid dates there.
        let refusal = refusal_of(Method::Post, resource, &["date=tomorrow"]);
        let text = "Malformed syntax - Invalid date header: write it like Tue, 01 Apr 2031 10:00:00 GMT";
        assert_eq!(refusal, Some((400, 3101, text.into())));
    }
}

#[test]
fn every_family_has_the_versions_of_the_hub() {
    for &resource in Resource::ALL {
        for version in ["1.0", "1.1", "2.0"] {
            let content_type = alloc::format!("content-type=@;version={version}");
            let accept = alloc::format!("accept=@;version={version}");
            let major = alloc::format!("accept=@;version={}", &version[..1]);
            for change in [&content_type, &accept, &major] {
                assert_eq!(refusal_of(Method::Post, resource, &[change]), None, "{resource:?} {change}");
            }
        }
        for (change, text) in [
            ("content-type=@;version=3.0", CONTENT_UNSUPPORTED),
            ("accept=@;version=3.0", ACCEPT_UNSUPPORTED),
            ("accept=@;version=3", ACCEPT_UNSUPPORTED),
        ] {
            let refusal = Some((406, 3001, text.to_string()));
            assert_eq!(refusal_of(Method::Post, resource, &[change]), refusal, "{resource:?} {change}");
        }
        let headers = headers_of(resource, &["content-type=@;version=3.0"]);
        let error = check_headers(Method::Post, resource, &headers, &HeaderRules::default()).unwrap_err();
        let listed = [Version::V1_0, Version::V1_1, Version::V2_0].to_vec();
        assert_eq!(error.supported_versions, Some(listed), "{resource:?}");
    }
}

#[test]
fn a_missing_accept_has_the_text_of_its_method() {
    let on_post = "Missing mandatory element - /header must have required property 'accept'";
    let on_others = "Missing mandatory element - Accept is required";
    for (method, text) in [
        (Method::Post, Some(on_post)),
        (Method::Get, Some(on_others)),
        (Method::Delete, Some(on_others)),
        (Method::Put, None),
    ] {
        for resource in [Resource::Participants, Resource::Quotes, Resource::Authorizations] {
            let refusal = text.map(|text| (400, 3102, wanting(text, resource)));
            assert_eq!(refusal_of(method, resource, &["-accept"]), refusal, "{method:?} {resource:?}");
        }
    }
}

#[test]
fn a_content_type_is_required_of_every_request_unless_the_scheme_tolerates_its_absence() {
    let tolerant = HeaderRules { content_type_required: false, ..HeaderRules::default() };
    for (method, tolerated) in
        [(Method::Get, true), (Method::Delete, true), (Method::Post, false), (Method::Put, false)]
    {
        for &resource in Resource::ALL {
            let missing = wanting("Missing mandatory element - Content-type is required", resource);
            let refusal = refusal_of(method, resource, &["-content-type"]);
            assert_eq!(refusal, Some((400, 3102, missing)), "{method:?} {resource:?}");
            let headers = headers_of(resource, &["-content-type"]);
            let checked = check_headers(method, resource, &headers, &tolerant);
            assert_eq!(checked.is_ok(), tolerated, "{method:?} {resource:?}");
            // If it is present, it must be valid.
            let headers = headers_of(resource, &["content-type=application/json"]);
            for rules in [&tolerant, &HeaderRules::default()] {
                let error = check_headers(method, resource, &headers, rules).unwrap_err();
                assert_eq!(
                    error.description,
                    wanting("Malformed syntax - Invalid content-type header", resource)
                );
            }
        }
    }
}

#[test]
fn callbacks_of_quoting_must_not_have_accept() {
    for resource in [Resource::Quotes, Resource::BulkQuotes, Resource::FxQuotes] {
        for accept in ["accept=@;version=1", "accept=application/json", "accept=@;version=9"] {
            let headers = headers_of(resource, &[accept]);
            // The hub does not reject the request immediately, but sends an error callback.
            assert!(
                check_headers(Method::Put, resource, &headers, &HeaderRules::default()).is_ok(),
                "{accept}"
            );
            let error = check_no_accept(&headers).unwrap_err();
            assert_eq!(error.code, ErrorCode::VALIDATION);
            assert!(error.description.contains("accept"), "{}", error.description);
        }
        for accept in ["-accept", "accept=*/*", "accept=application/json, text/plain, */*"] {
            assert_eq!(check_no_accept(&headers_of(resource, &[accept])), Ok(()), "{accept}");
        }
        assert!(refusal_of(Method::Get, resource, &["accept=*/*"]).is_some());
    }
    // In other messages it is checked if it is present, but HTTP libraries send `*/*` by default.
    for method in [Method::Put, Method::Patch] {
        for accept in ["accept=*/*", "accept=application/json, text/plain, */*"] {
            assert_eq!(refusal_of(method, Resource::Parties, &[accept]), None, "{method:?} {accept}");
        }
    }
    for method in [Method::Get, Method::Post, Method::Delete] {
        assert!(refusal_of(method, Resource::Parties, &["accept=*/*"]).is_some(), "{method:?}");
    }
    let refusal = refusal_of(Method::Put, Resource::Parties, &["accept=application/json"]);
    let text = wanting("Malformed syntax - Invalid accept header", Resource::Parties);
    assert_eq!(refusal, Some((400, 3101, text)));
}

#[test]
fn media_types_other_than_json_have_their_own_text_in_payment_requests() {
    for (content_type, text) in [
        ("application/xml", "Unsupported Media Type"),
        ("text/plain; charset=utf-8", "Unsupported Media Type"),
        ("", "Unsupported Media Type"),
        ("application/json", "Invalid content-type header"),
        ("application/json ; charset=utf-8", "Invalid content-type header"),
        ("application/vnd.interoperability.quotes+json;version=1.0", "Invalid content-type header"),
        ("@;version=1", "Invalid content-type header"),
    ] {
        let change = alloc::format!("content-type={content_type}");
        for resource in [Resource::TransactionRequests, Resource::Authorizations] {
            let text = wanting(&alloc::format!("Malformed syntax - {text}"), resource);
            let refusal = Some((400, 3101, text));
            assert_eq!(refusal_of(Method::Put, resource, &[&change]), refusal, "{content_type}");
        }
        let text = wanting("Malformed syntax - Invalid content-type header", Resource::Parties);
        let refusal = Some((400, 3101, text));
        assert_eq!(refusal_of(Method::Put, Resource::Parties, &[&change]), refusal, "{content_type}");
    }
}

#[test]
fn forwarded_requests_must_name_a_destination() {
    for &resource in Resource::ALL {
        let required = matches!(
            resource,
            Resource::Quotes
                | Resource::BulkQuotes
                | Resource::FxQuotes
                | Resource::TransactionRequests
                | Resource::Authorizations
        );
        let result = check_parties_of(resource, &headers(&["-fspiop-destination"]));
        let text = "Missing mandatory element - /header must have required property 'fspiop-destination'";
        match result {
            Ok(parties) => assert_eq!((parties.destination, required), (None, false), "{resource:?}"),
            Err(error) => {
                assert_eq!((error.code.number(), error.description.as_str()), (3102, text));
                assert!(required, "{resource:?}");
            }
        }
        // The source is checked first.
        let error =
            check_parties_of(resource, &headers(&["-fspiop-destination", "-fspiop-source"])).unwrap_err();
        assert!(error.description.ends_with("'fspiop-source'"));
    }
}

#[test]
fn the_hub_is_neither_a_source_nor_a_destination() {
    for &resource in Resource::ALL {
        for name in ["Hub", "hub", "HUB"] {
            let source = format!("fspiop-source={name}");
            let error = check_parties_of(resource, &headers(&[&source])).unwrap_err();
            let text = format!("Malformed syntax - invalid fspiop-source header: '{name}' is the hub");
            assert_eq!(
                (error.status, error.code.number(), error.description),
                (400, 3101, text),
                "{resource:?}"
            );
            let destination = format!("fspiop-destination={name}");
            assert_eq!(
                check_parties_of(resource, &headers(&[&destination])),
                check_parties_of(resource, &headers(&["-fspiop-destination"])),
                "{resource:?}"
            );
        }
    }
}
