use super::*;

fn check(kind: &str, id: &str, sub_id: Option<&str>) -> Result<(), (u16, alloc::string::String)> {
    let checked = PartySegments { kind, id, sub_id }.check(false);
    checked.map(|_| ()).map_err(|error| {
        assert_eq!(error.status, 400);
        (error.code.number(), error.description)
    })
}

#[test]
fn types_are_those_of_the_api() {
    for &kind in PartyIdType::ALL {
        assert_eq!(PartyIdType::parse(kind.as_str()), Some(kind));
        let segments = PartySegments { kind: kind.as_str(), id: "1", sub_id: None };
        assert!(segments.check(true).is_ok(), "{kind}");
        assert_eq!(segments.check(false).is_ok(), !kind.is_extended(), "{kind}");
    }
    for kind in ["msisdn", "NONE", "", "MSISDN%20", "CONSENT"] {
        let text = "Generic validation error - /path/Type must be equal to one of the allowed values: MSISDN, EMAIL, PERSONAL_ID, BUSINESS, DEVICE…";
        assert_eq!(check(kind, "{", None), Err((3100, text.into())), "{kind}");
    }
}

#[test]
fn ids_of_a_path_have_1_to_128_characters_and_lead_nowhere_else() {
    let long = "%C3%A9".repeat(128);
    for id in
        ["26097", "+26097", "%2B26097", "a%40b.cd", "123456%2F78%2F1", "caf%C3%A9", "...", "a..b", &long]
    {
        assert_eq!(check("ALIAS", id, Some(id)), Ok(()), "{id}");
    }
    for (id, violation) in [
        (&*alloc::format!("{long}x"), "must NOT have more than 128 characters"),
        ("a%20b", "must match pattern: no blanks and no braces"),
        ("a%0Ab", "must match pattern: no blanks and no braces"),
        ("a%C2%A0b", "must match pattern: no blanks and no braces"),
        ("a{b", "must match pattern: no blanks and no braces"),
        ("%7D", "must match pattern: no blanks and no braces"),
        ("caf\u{e9}", "must be ASCII, percent-encoded where it is not"),
        ("a b", "must be ASCII, percent-encoded where it is not"),
        ("%", "is not percent-encoded UTF-8"),
        ("%C3", "is not percent-encoded UTF-8"),
        ("%2e%2E", "must NOT have dot segments"),
        ("..%2Fadmin", "must NOT have dot segments"),
        ("a%2F.%2Fb", "must NOT have dot segments"),
        ("a%5C..", "must NOT have dot segments"),
    ] {
        let text = |name| alloc::format!("Generic validation error - /path/{name} {violation}");
        assert_eq!(check("ALIAS", id, Some("%00")), Err((3100, text("ID"))), "{id}");
        if !violation.contains("pattern") {
            assert_eq!(check("ALIAS", "1", Some(id)), Err((3100, text("SubId"))), "{id}");
        }
    }
    for sub_id in ["error", "err%6Fr"] {
        let text = "Generic validation error - /path/SubId must NOT be 'error'";
        assert_eq!(check("ALIAS", "1", Some(sub_id)), Err((3100, text.into())));
    }
}

#[test]
fn a_sub_id_may_be_any_text_of_1_to_128_characters() {
    let long = "%7B".repeat(128);
    for sub_id in
        ["DRIVING%20LICENCE", "a%20%7Bb%7D", "{till}", "%3Ctill%3E", "a%5Cb", "%60", "%C2%A07", "%20", &long]
    {
        assert_eq!(check("BUSINESS", "1", Some(sub_id)), Ok(()), "{sub_id}");
        let path = PartyPath { kind: PartyIdType::Business, id: "1", sub_id: Some(sub_id) };
        assert_eq!(check_party_path(&path), Ok(()), "{sub_id}");
    }
    for (sub_id, violation) in [
        (&*alloc::format!("{long}x"), "must NOT have more than 128 characters"),
        ("a%0Ab", "must NOT have control characters"),
        ("%00", "must NOT have control characters"),
        ("%7F", "must NOT have control characters"),
        ("%2e%2e", "must NOT have dot segments"),
    ] {
        let text = alloc::format!("Generic validation error - /path/SubId {violation}");
        assert_eq!(check("BUSINESS", "1", Some(sub_id)), Err((3100, text)), "{sub_id}");
    }
    for sub_id in ["", "a\tb", &"x".repeat(129)] {
        let error = check_party_id(PartyIdType::Business, "1", Some(sub_id)).unwrap_err();
        assert_eq!(error.description, "Malformed syntax - invalid party sub-identifier", "{sub_id}");
    }
    // The rule of ids is stricter, as scheme practice has it.
    assert!(check("BUSINESS", "a%20b", None).is_err());
}

#[test]
fn a_party_is_known_by_its_decoded_ids() {
    let segments = PartySegments { kind: "EMAIL", id: "a%40b.cd", sub_id: Some("shop%2f7") };
    let party = segments.check(false).unwrap();
    assert_eq!((party.kind, party.id, party.sub_id), (PartyIdType::Email, "a%40b.cd", Some("shop%2f7")));
    assert_eq!((&*party.id_text(), party.sub_id_text().as_deref()), ("a@b.cd", Some("shop/7")));
}

#[test]
fn the_second_look_is_stricter() {
    use PartyIdType::{Alias, Email, Iban, Msisdn};
    let digits = "1".repeat(30);
    for (kind, id, passes) in [
        (Msisdn, "26097", true),
        (Msisdn, "+26097", true),
        (Msisdn, "%2B26097", true),
        (Msisdn, "1", true),
        (Msisdn, &digits, true),
        (Msisdn, &*alloc::format!("{digits}1"), false),
        (Msisdn, "+", false),
        (Msisdn, "++1", false),
        (Msisdn, "26-097", false),
        (Msisdn, "error", false),
        (Email, "a@b.cd", true),
        (Email, "first.last%2Bpay@mail.example.org", true),
        (Email, "a@b", false),
        (Email, "@b.cd", false),
        (Email, "a@", false),
        (Email, "a.b.cd", false),
        (Email, "a..b@c.de", false),
        (Email, "a@-b.cd", false),
        (Email, "a@b..cd", false),
        (Email, "a%2C@b.cd", false),
        (Iban, "GB82WEST12345698765432", true),
        (Iban, "gb82west12345698765432", true),
        (Iban, "NO9386011117947", true),
        (Iban, "GB82", false),
        (Iban, "8282WEST12345698765432", false),
        (Iban, "GBXXWEST12345698765432", false),
        (Iban, "GB82WEST1234569876543-", false),
        (Alias, "any-thing_goes!", true),
        (Alias, "a%3Cb", false),
        (Alias, "a%3Eb", false),
        (Alias, "a%60b", false),
        (Alias, "a%5Cb", false),
        (Alias, "a%00b", false),
        (Alias, "a%7Fb", false),
    ] {
        for sub_id in [None, Some("shop-7")] {
            let result = check_party_path(&PartyPath { kind, id, sub_id });
            assert_eq!(result.is_ok(), passes, "{kind} {id}: {result:?}");
            if let Err(error) = result {
                assert_eq!(error.code, ErrorCode::MALFORMED_SYNTAX);
            }
        }
    }
    let party = PartyPath { kind: Msisdn, id: "1", sub_id: Some("a%00b") };
    let error = check_party_path(&party).unwrap_err();
    assert_eq!(error.description, "Malformed syntax - invalid party sub-identifier");
}

#[test]
fn ids_of_paths_are_decoded_and_checked() {
    const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";
    for (segment, quoting, others) in [
        (ID, Some(ID), Some(ID)),
        ("%36f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11", Some(ID), Some(ID)),
        (
            "01ARZ3NDEKTSV4RRFFQ69G5FAV",
            Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
            Some("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ),
        ("6F3FF9D4-2F0B-4BB2-9D3A-0F3F1C6A7B11", None, Some("6F3FF9D4-2F0B-4BB2-9D3A-0F3F1C6A7B11")),
        ("any%20text", None, Some("any text")),
        ("a%00b", None, None),
        ("a%0d%0ax-evil:%201", None, None),
        ("%2e%2e", None, None),
        ("%", None, None),
        (&*"x".repeat(129), None, None),
    ] {
        for resource in [Resource::Quotes, Resource::BulkQuotes, Resource::FxQuotes] {
            assert_eq!(check_path_id(resource, segment).ok().as_deref(), quoting, "{segment}");
        }
        for resource in [Resource::TransactionRequests, Resource::Authorizations] {
            assert_eq!(check_path_id(resource, segment).ok().as_deref(), others, "{segment}");
        }
    }
    let error = check_path_id(Resource::Quotes, "x").unwrap_err();
    assert!(error.description.starts_with(
        "Generic validation error - /path/ID must match pattern: a UUID in lower case, or a ULID"
    ));
}
