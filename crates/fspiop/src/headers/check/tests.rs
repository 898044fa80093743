use super::*;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";
const DATE: &str = "Tue, 01 Apr 2031 12:00:00 GMT";

struct Headers(Vec<(String, Vec<u8>)>);

impl HeaderLookup for Headers {
    fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice())
    }
}

/// A complete set, changed as the words say: `-name` takes a header away, `name=value` sets it. `@` in a value stands
/// for the media type without its version.
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

fn check(method: Method, changes: &[&str]) -> Result<CheckedHeaders, SyncError> {
    check_headers(method, Resource::Transfers, &headers(changes), &Versions::default())
}

const ACCEPT_UNSUPPORTED: &str = "Unacceptable version requested - The Client requested an unsupported version, see extension list for supported version(s).";
const CONTENT_UNSUPPORTED: &str = "Unacceptable version requested - Client supplied a protocol version which is not supported by the server";

#[test]
fn every_refusal_has_its_status_code_and_text() {
    use Method::{Delete, Get, Patch, Post, Put};
    for (method, changes, status, code, description) in [
        // x-client-id
        (
            Post,
            &["x-client-id=other"][..],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header",
        ),
        (
            Post,
            &["x-client-id=greenbank", "-fspiop-source"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header",
        ),
        (Get, &["x-client-id="], 400, 3100, "Generic validation error - Invalid fspiop-source header"),
        (
            Post,
            &["x-client-id=greenbank", "fspiop-proxy=other"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-proxy header",
        ),
        (
            Post,
            &["x-client-id=greenbank", "fspiop-proxy=greenbank"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-proxy header",
        ),
        // accept
        (Get, &["-accept"], 400, 3102, "Missing mandatory element - Accept is required"),
        (Delete, &["-accept"], 400, 3102, "Missing mandatory element - Accept is required"),
        (
            Post,
            &["-accept"],
            400,
            3102,
            "Missing mandatory element - /header must have required property 'accept'",
        ),
        (Post, &["accept=*/*"], 400, 3101, "Malformed syntax - Invalid accept header"),
        (Post, &["accept=application/json"], 400, 3101, "Malformed syntax - Invalid accept header"),
        (Put, &["accept=application/json"], 400, 3101, "Malformed syntax - Invalid accept header"),
        (Get, &["accept=é"], 400, 3101, "Malformed syntax - Invalid accept header"),
        (Post, &["accept=@;version=3"], 406, 3001, ACCEPT_UNSUPPORTED),
        // date
        (Post, &["-date"], 400, 3102, "Missing mandatory element - Missing required date header"),
        (Put, &["-date"], 400, 3102, "Missing mandatory element - Missing required date header"),
        (Post, &["date=2031-04-01T12:00:00.000Z"], 400, 3101, "Malformed syntax - Invalid date header"),
        (Post, &["date=Mon, 01 Apr 2031 12:00:00 GMT"], 400, 3101, "Malformed syntax - Invalid date header"),
        (Post, &["date="], 400, 3101, "Malformed syntax - Invalid date header"),
        // content-type
        (Post, &["-content-type"], 400, 3102, "Missing mandatory element - Content-type is required"),
        (Put, &["-content-type"], 400, 3102, "Missing mandatory element - Content-type is required"),
        (Patch, &["-content-type"], 400, 3102, "Missing mandatory element - Content-type is required"),
        (
            Post,
            &["content-type=application/json"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header",
        ),
        (Post, &["content-type=text/xml"], 400, 3101, "Malformed syntax - Invalid content-type header"),
        (Get, &["content-type=@"], 400, 3101, "Malformed syntax - Invalid content-type header"),
        (Put, &["content-type=@;version=1"], 400, 3101, "Malformed syntax - Invalid content-type header"),
        (
            Put,
            &["content-type=@;version=1.1;charset=utf-8"],
            400,
            3101,
            "Malformed syntax - Invalid content-type header",
        ),
        (Post, &["content-type=@;version=3.0"], 406, 3001, CONTENT_UNSUPPORTED),
        (Get, &["content-type=@;version=1.7"], 406, 3001, CONTENT_UNSUPPORTED),
        // order
        (
            Post,
            &["x-client-id=other", "-accept", "-date", "-content-type"],
            400,
            3100,
            "Generic validation error - Invalid fspiop-source header",
        ),
        (
            Get,
            &["-accept", "-date", "content-type=x"],
            400,
            3102,
            "Missing mandatory element - Accept is required",
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
        (Get, &["-content-type"], None),
        (Put, &["-accept"], Some(Version::V1_1)),
        (Patch, &["-accept"], Some(Version::V1_1)),
    ] {
        let checked = check(method, changes).unwrap();
        assert_eq!(checked.content_type, version, "{method:?} {changes:?}");
        assert_eq!(checked.date.http_date().to_string(), DATE);
    }
}

#[test]
fn a_hub_may_accept_fewer_versions() {
    let versions = Versions { accepted: [Version::V1_1].into(), ..Versions::default() };
    let post = |changes: &[&str]| {
        check_headers(Method::Post, Resource::Transfers, &headers(changes), &versions).map_err(|e| e.status)
    };
    assert!(post(&["accept=@;version=1"]).is_ok());
    assert_eq!(post(&["accept=@;version=2"]), Err(406));
    assert_eq!(post(&["content-type=@;version=1.0"]), Err(406));
}

#[test]
fn parties_are_read_after_the_body() {
    let read = |changes: &[&str]| {
        check_parties(Resource::Transfers, &headers(changes))
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
            "Generic validation error - /header/fspiop-source must match pattern \"^[ -~]{1,32}$\"",
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
