use super::*;

fn refusal<T: std::fmt::Debug>(
    body: &'static str,
    read: impl FnOnce(&Fields<'_>) -> Result<T, ApiError>,
) -> String {
    let body = JsonBody(Bytes::from_static(body.as_bytes()));
    let error = body.fields().and_then(|fields| read(&fields)).unwrap_err();
    assert_eq!((error.status.as_u16(), error.code.number()), (400, 3101));
    error.description.strip_prefix("Malformed syntax - ").unwrap().to_owned()
}

#[test]
fn bodies_are_json_objects() {
    for (body, expected) in [
        ("", "the body is not JSON: EOF while parsing a value at line 1 column 0"),
        ("{\"name\":", "the body is not JSON: EOF while parsing a value at line 1 column 8"),
        ("[]", "the body must be a JSON object"),
        ("\"text\"", "the body must be a JSON object"),
        ("null", "the body must be a JSON object"),
    ] {
        assert_eq!(refusal(body, |_| Ok(())), expected, "{body}");
    }
}

#[test]
fn refusals_name_the_field_and_the_rule() {
    for (body, expected) in [
        (r"{}", "\"f\" is required"),
        (r#"{"f":null}"#, "\"f\" is required"),
        (r#"{"f":7}"#, "\"f\" must be a string"),
        (r#"{"f":""}"#, "\"f\" is not allowed to be empty"),
        (r#"{"f":"a"}"#, "\"f\" length must be at least 2 characters long"),
        (r#"{"f":"éééé"}"#, "\"f\" length must be less than or equal to 3 characters long"),
        (r#"{"f":"abc","g":1}"#, "\"g\" is not allowed"),
    ] {
        let read = |fields: &Fields<'_>| {
            fields.required("f")?.text_of(2, 3)?;
            fields.only(&["f"])
        };
        assert_eq!(refusal(body, read), expected, "{body}");
    }
}

#[test]
fn numbers_are_read_digit_by_digit() {
    for (body, expected) in [
        (r#"{"f":99999999999999.9999}"#, "99999999999999.9999"),
        (r#"{"f":"99999999999999.9999"}"#, "99999999999999.9999"),
        (r#"{"f":-0.0001}"#, "-0.0001"),
        (r#"{"f":5000.00}"#, "5000"),
        (r#"{"f":"007.50"}"#, "7.5"),
    ] {
        let json = JsonBody(Bytes::from_static(body.as_bytes()));
        let amount = json.fields().unwrap().required("f").unwrap().decimal().unwrap();
        assert_eq!(amount.to_string(), expected, "{body}");
    }
    for (body, expected) in [
        (r#"{"f":1e3}"#, "\"f\" must be a number in plain decimal digits"),
        (r#"{"f":"ten"}"#, "\"f\" must be a number in plain decimal digits"),
        (r#"{"f":true}"#, "\"f\" must be a number in plain decimal digits"),
        (r#"{"f":{}}"#, "\"f\" must be a number in plain decimal digits"),
        (r#"{"f":0.00001}"#, "\"f\" must have no more than 4 decimal places"),
        (r#"{"f":100000000000000}"#, "\"f\" must have no more than 14 digits before the decimal point"),
    ] {
        assert_eq!(refusal(body, |fields| fields.required("f")?.decimal()), expected, "{body}");
    }
}

#[test]
fn flags_objects_arrays_and_names_have_their_sentences() {
    let refused = |body, read: fn(&Field<'_>) -> Result<(), ApiError>| {
        refusal(body, |fields| read(&fields.required("f")?))
    };
    assert_eq!(refused(r#"{"f":1}"#, |f| f.flag().map(drop)), "\"f\" must be a boolean");
    assert_eq!(refused(r#"{"f":1}"#, |f| f.object().map(drop)), "\"f\" must be of type object");
    assert_eq!(refused(r#"{"f":{}}"#, |f| f.array(1).map(drop)), "\"f\" must be an array");
    assert_eq!(
        refused(r#"{"f":[1,2]}"#, |f| f.array(1).map(drop)),
        "\"f\" must contain less than or equal to 1 items"
    );
    assert_eq!(refused(r#"{"f":[1]}"#, |f| f.array(1)?[0].text().map(drop)), "\"f[0]\" must be a string");
    assert_eq!(
        refused(r#"{"f":{"g":1}}"#, |f| f.object()?.required("g")?.text().map(drop)),
        "\"f.g\" must be a string"
    );
    assert_eq!(refused(r#"{"f":{"g":1}}"#, |f| f.object()?.required("h").map(drop)), "\"f.h\" is required");
    assert_eq!(
        refused(r#"{"f":"c"}"#, |f| f.one_of(["a", "b"].iter(), |name| name).map(drop)),
        "\"f\" must be one of [a, b]"
    );
    assert!(
        refused(r#"{"f":"kes"}"#, |f| f.currency().map(drop)).starts_with("\"f\" must be one of [AED, AFN")
    );
    assert_eq!(
        refused(r#"{"f":"7"}"#, |f| f.transfer_id().map(drop)),
        "\"f\" must be a valid GUID or ULID in its usual case"
    );
    assert_eq!(
        refused(r#"{"f":"bänk"}"#, |f| f.participant_name().map(drop)),
        "\"f\" must consist of printable ASCII characters"
    );
}

#[test]
fn content_types_of_json_are_known() {
    for (content_type, expected) in [
        ("application/json", true),
        ("application/JSON; charset=utf-8", true),
        ("application/vnd.interoperability.transfers+json;version=1.0", true),
        ("text/plain", false),
        ("application/xml", false),
        ("", false),
    ] {
        assert_eq!(is_json(content_type), expected, "{content_type}");
    }
}
