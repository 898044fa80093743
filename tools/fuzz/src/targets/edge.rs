//! Messages of DFSPs: request lines, headers, paths, and the contents of bodies.

use http::request::Parts;
use upesi_delivery::Request;
use upesi_delivery::relayed::ErrorInformation;
use upesi_fspiop::body::{parse_authorization_query, refusals};
use upesi_fspiop::headers::{Block, HeaderRules, check_headers, check_no_accept, check_parties};
use upesi_fspiop::{
    Message, Method, PathId, Resource, Route, Segments, SyncError, Unroutable, check_party_path, fingerprint,
    ilp, uri,
};
use upesi_gateway::{GatewayConfig, TrustEveryone, read_request};
use upesi_http::server::PROXY_HEADER_BYTES_MAX;
use upesi_http::{Bytes, ProxyHeader, Target as Address, header_block};
use upesi_transfers::into_command;
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::{Refusals, assert_can_be_told, assert_valid_refusal, chosen};

/// The arrival time of requests.
pub(super) const NOW: &str = "2031-04-01T12:00:00.000Z";

/// The first bytes of a connection that a load balancer forwards.
pub(crate) fn proxy_header(input: &[u8]) {
    let mut length = 0;
    while let Ok(ProxyHeader::Needs(bytes)) = ProxyHeader::read(&input[..length]) {
        assert!(bytes > 0, "at {length}");
        length += bytes;
        assert!(length <= PROXY_HEADER_BYTES_MAX, "the header is read without end");
        if length > input.len() {
            return;
        }
    }
    if let Ok(ProxyHeader::Whole(source)) = ProxyHeader::read(&input[..length]) {
        assert_eq!(ProxyHeader::read(&input[..length]), Ok(ProxyHeader::Whole(source)));
        let more = [&input[..length], b"\n"].concat();
        assert!(
            ProxyHeader::read(&more).is_err(),
            "the header has the declared length, and further bytes do not belong to it"
        );
    }
}

/// A whole request as it comes over the wire, read as the gateway reads it.
pub(crate) fn http_request(input: &[u8]) {
    let Some((parts, body)) = split(input) else { return };
    let sent = Bytes::copy_from_slice(body);
    let request = match read(&parts, sent.clone()) {
        Err(error) => return assert_valid_refusal(&error),
        Ok(request) => request,
    };
    assert_eq!(request.body, sent, "the body is kept byte for byte");
    header_block::from_block(&request.headers).expect("the kept headers can be sent again");
    assert_eq!(&*request.path(), parts.uri.path(), "the path is written as it was received");
    match into_command(request.clone()) {
        Err(error) => assert_ne!(request.resource(), Resource::Transfers, "{error}"),
        Ok((_, payload)) => assert_eq!(payload.body, sent),
    }
}

pub(super) fn read(parts: &Parts, body: Bytes) -> Result<Request, SyncError> {
    let now = Timestamp::parse_iso(NOW).expect("a valid instant");
    read_request(parts, body, &GatewayConfig::default(), &TrustEveryone, || now.into())
}

/// A whole request about anything except transfers, read until it would be forwarded.
pub(crate) fn messages(input: &[u8]) {
    let Some((parts, body)) = split(input) else { return };
    let route = match Route::resolve(Method::parse(parts.method.as_str()), parts.uri.path()) {
        Ok(route) => route,
        Err(unroutable) => return assert_valid_refusal(&unroutable.to_error()),
    };
    Message::read(route.operation, body).err().iter().for_each(assert_valid_refusal);
    if let Segments::Party(segments) = route.segments {
        match segments.check(true) {
            Err(error) => assert_valid_refusal(&error),
            Ok(party) => {
                let mut path = String::new();
                uri::write_party_path(route.resource(), &party, false, &mut path);
                let again = Route::resolve(Some(Method::Get), &path);
                assert_eq!(again.map(|again| again.segments), Ok(route.segments), "{path:?}");
                check_party_path(&party).err().iter().for_each(assert_valid_refusal);
            }
        }
    }
    // The answer of an oracle, or of a DFSP that rejects.
    ErrorInformation::read(body).iter().for_each(assert_can_be_told);
}

/// Head and body, parsed by the parser under the server's. The server's own loop is the target `connection`.
pub(super) fn split(input: &[u8]) -> Option<(Parts, &[u8])> {
    let mut headers = [httparse::EMPTY_HEADER; upesi_http::server::HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(length) = head.parse(input).ok()? else { return None };
    let mut request = http::Request::builder().method(head.method?).uri(head.path?);
    for header in head.headers.iter() {
        request = request.header(header.name, header.value);
    }
    Some((request.body(()).ok()?.into_parts().0, &input[length..]))
}

/// A header block. It is checked for requests of all methods, for the resource that it names and for any other.
pub(crate) fn headers(input: &[u8]) {
    let (rules, mut judged) = (HeaderRules::default(), Refusals::default());
    let any = chosen(Resource::ALL, input);
    let hub = FspId::parse("Hub").expect("a name");
    for resource in [Some(any), named(input).filter(|resource| *resource != any)].into_iter().flatten() {
        for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
            judged.judge(check_headers(method, resource, &Block(input), &rules).err());
        }
        judged.judge(check_parties(resource, &Block(input), &hub).err());
    }
    judged.judge(check_no_accept(&Block(input)).err());
    let names = Block(input).iter().count();
    assert!(names <= input.len());
    if let Ok(map) = header_block::from_block(&Bytes::copy_from_slice(input)) {
        let mut written = Vec::new();
        header_block::to_block(&map, &mut written);
        let read =
            header_block::from_block(&Bytes::from(written.clone())).expect("a written block can be read");
        let mut again = Vec::new();
        header_block::to_block(&read, &mut again);
        assert_eq!(written, again);
    }
}

/// The resource of the first media type in a block.
fn named(block: &[u8]) -> Option<Resource> {
    const BEFORE: &[u8] = b"interoperability.";
    let at = block.windows(BEFORE.len()).position(|bytes| bytes == BEFORE)? + BEFORE.len();
    let name = block[at..].split(|byte| *byte == b'+').next()?;
    Resource::parse(std::str::from_utf8(name).ok()?)
}

/// Paths of requests, templates of endpoints, addresses.
pub(crate) fn routes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    for method in [None, Some(Method::Get), Some(Method::Post), Some(Method::Put), Some(Method::Delete)] {
        Route::resolve(method, text).err().map(Unroutable::to_error).iter().for_each(assert_valid_refusal);
    }
    for resource in Resource::ALL.iter().copied() {
        match PathId::read(resource, text) {
            Err(error) => assert_valid_refusal(&error),
            Ok(id) => assert_eq!(id.to_string(), text),
        }
    }
    let mut joined = String::new();
    uri::append_to_base("http://dfsp", text, Some(text), &mut joined);
    assert!(joined.starts_with("http://dfsp"));
    if let Ok(address) = Address::parse(text) {
        assert!(address.into_uri().path().starts_with('/'), "{text:?}");
    }
}

/// One body, read as the body of every kind of request, and as an error about one resource.
pub(crate) fn bodies(input: &[u8]) {
    let mut judged = Refusals::default();
    refusals(input, &[chosen(Resource::ALL, input)]).for_each(|refusal| judged.judge(refusal));
    if let Ok(query) = std::str::from_utf8(input) {
        judged.judge(parse_authorization_query(query).err());
    }
    assert_eq!(
        fingerprint(&[b"\n ", input].concat()),
        fingerprint(input),
        "white space does not change the fingerprint"
    );
}

/// Numbers, times, names.
pub(crate) fn amounts(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(amount) = Amount::parse_wire(text) {
        assert!(amount >= Amount::ZERO);
        assert_eq!(Amount::parse_wire(&amount.to_string()), Ok(amount), "{text}");
    }
    if let Ok(amount) = Amount::parse_decimal(text) {
        assert_eq!(Amount::parse_decimal(&amount.to_string()), Ok(amount), "{text}");
    }
    if let Some(id) = TransferId::parse(text) {
        assert_eq!(TransferId::parse(&id.to_string()), Some(id));
        assert_eq!(TransferId::from_bytes(&id.to_bytes()), Some(id));
    }
    // Times beyond the last representable one are replaced by it.
    let counted = |at: &Timestamp| at.as_ns() < i64::MAX;
    if let Some(at) = Timestamp::parse_iso(text).filter(counted) {
        assert_eq!(Timestamp::parse_iso(&at.to_string()).map(Timestamp::as_ms), Some(at.as_ms()), "{text}");
    }
    if let Some(at) = Timestamp::parse_http_date(text).filter(counted) {
        assert_eq!(Timestamp::parse_http_date(&at.http_date().to_string()), Some(at), "{text}");
    }
    if let Some(currency) = Currency::parse(text) {
        assert_eq!(currency.as_str(), text);
    }
    if let Some(name) = FspId::parse(text) {
        assert_eq!(FspId::parse(name.as_str()), Some(name));
    }
}

/// A packet as in a body, and a transaction for a packet.
pub(crate) fn ilp_packet(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _refused_or_decoded = ilp::decode_transaction(text);
    let packet = ilp::encode_packet_v1(input.len() as u64, "g.dfsp", text);
    assert_eq!(ilp::decode_transaction(&packet).as_deref(), Ok(text));
}
