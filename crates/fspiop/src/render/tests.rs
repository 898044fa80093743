use super::*;
use crate::body::{parse_bulk_fulfil, parse_bulk_transfer, parse_error_body, parse_fulfil, parse_prepare};
use crate::decode_octets;
use alloc::string::ToString;
use upesi_types::{Amount, Currency};

fn rendered(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

fn completed() -> Option<Timestamp> {
    Timestamp::parse_iso("2031-04-01T12:00:01.000Z")
}

#[test]
fn transfer_states_are_written_byte_for_byte() {
    let fulfilment = decode_octets("BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY").unwrap();
    let none = Extensions::default();
    let items = Extensions { items: Some(r#"[{"key":"a","value":"b"}]"#), cause: None };
    let cause = Extensions { items: None, cause: Some("4001: Payer FSP insufficient liquidity") };
    let both = Extensions { cause: Some("3303: Transfer expired"), ..items };
    for (text, expected) in [
        (
            rendered(|out| write_transfer_state(out, completed(), "COMMITTED", Some(&fulfilment), none)),
            r#"{"completedTimestamp":"2031-04-01T12:00:01.000Z","fulfilment":"BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY","transferState":"COMMITTED"}"#,
        ),
        (
            rendered(|out| write_transfer_state(out, completed(), "COMMITTED", None, none)),
            r#"{"completedTimestamp":"2031-04-01T12:00:01.000Z","transferState":"COMMITTED"}"#,
        ),
        (
            rendered(|out| write_transfer_state(out, None, "RESERVED", None, none)),
            r#"{"transferState":"RESERVED"}"#,
        ),
        (
            rendered(|out| write_transfer_state(out, completed(), "ABORTED", None, cause)),
            r#"{"completedTimestamp":"2031-04-01T12:00:01.000Z","extensionList":{"extension":[{"key":"cause","value":"4001: Payer FSP insufficient liquidity"}]},"transferState":"ABORTED"}"#,
        ),
        (
            rendered(|out| write_transfer_state(out, None, "ABORTED", None, both)),
            r#"{"extensionList":{"extension":[{"key":"a","value":"b"},{"key":"cause","value":"3303: Transfer expired"}]},"transferState":"ABORTED"}"#,
        ),
        (
            rendered(|out| write_transfer_state(out, None, "COMMITTED", None, items)),
            r#"{"extensionList":{"extension":[{"key":"a","value":"b"}]},"transferState":"COMMITTED"}"#,
        ),
    ] {
        assert_eq!(text, expected);
        assert!(parse_fulfil(text.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn cause_is_added_to_a_full_extension_list() {
    for count in [14, 15, 16] {
        let item = |index| format!(r#"{{"key":"k{index}","value":"{{\"key\":\"no item\"}}"}}"#);
        let items: Vec<String> = (0..count).map(item).collect();
        let items = format!("[{}]", items.join(","));
        let extensions = Extensions { items: Some(&items), cause: Some("3303: Transfer expired") };
        let text = rendered(|out| write_transfer_state(out, None, "ABORTED", None, extensions));
        let read = parse_fulfil(text.as_bytes()).unwrap().extensions.unwrap();
        let kept = read.matches(r#"{"key":"k"#).count();
        assert_eq!(kept, count.min(15), "{text}");
        assert!(read.ends_with(r#",{"key":"cause","value":"3303: Transfer expired"}]"#), "{text}");
    }
}

#[test]
fn errors_are_written_byte_for_byte() {
    let text = rendered(|out| write_error(out, ErrorCode::TRANSFER_EXPIRED, "Transfer expired"));
    assert_eq!(text, r#"{"errorInformation":{"errorCode":"3303","errorDescription":"Transfer expired"}}"#);
    let long = "é".repeat(200);
    let text = rendered(|out| write_error(out, ErrorCode::VALIDATION, &long));
    assert_eq!(parse_error_body(text.as_bytes()).unwrap().description, "é".repeat(128));
}

#[test]
fn texts_are_escaped_as_json() {
    let mut every = String::from("\u{7f}\u{80}\u{2028}é€😀/");
    every.extend((0..128_u8).map(char::from));
    for text in ["", "plain", "\"", "\\", "\n\r\t\u{8}\u{c}\u{0}", "a\"b\\c", every.as_str()] {
        let json = rendered(|out| ByteWriter(out).text(text));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
    assert_eq!(rendered(|out| ByteWriter(out).text("a\"\n\u{1}é")), r#""a\"\n\u0001é""#);
}

#[test]
fn causes_are_truncated_to_128_characters() {
    assert_eq!(cause_text(ErrorCode::TRANSFER_EXPIRED, "Transfer expired"), "3303: Transfer expired");
    assert_eq!(cause_text(ErrorCode::VALIDATION, &"é".repeat(200)).chars().count(), 128);
}

#[test]
fn written_prepare_can_be_parsed() {
    let condition = decode_octets("GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM").unwrap();
    let prepare = Prepare {
        transfer_id: TransferId::parse("5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d").unwrap(),
        payer: FspId::parse("greenbank").unwrap(),
        payee: FspId::parse("blue\"wallet").unwrap(),
        money: Money {
            amount: Amount::parse_wire("125.5").unwrap(),
            currency: Currency::parse("KES").unwrap(),
        },
        ilp_packet: "AYICexampleilppacket0123",
        condition: &condition,
        expiration: completed().unwrap(),
    };
    let text = rendered(|out| write_prepare(out, &prepare));
    assert!(text.starts_with(r#"{"amount":{"amount":"125.5","currency":"KES"},"condition":"GRz"#), "{text}");
    let read = parse_prepare(text.as_bytes()).unwrap();
    assert_eq!(
        (read.transfer_id, read.payer, read.payee),
        (prepare.transfer_id, prepare.payer, prepare.payee)
    );
    assert_eq!((read.currency, read.amount), (prepare.money.currency, Ok(prepare.money.amount)));
    assert_eq!((read.condition, read.expiration), (Some(condition), prepare.expiration));
    assert_eq!(read.ilp_packet, prepare.ilp_packet);
    assert_eq!(read.extensions, None);
}

#[test]
fn bulk_transfers_are_written_byte_for_byte() {
    let id = |digit: char| TransferId::parse(&format!("a8323bc6-c228-4df2-ae82-e5a997baf89{digit}")).unwrap();
    let extensions = Some(r#"[{"key":"a","value":"b"}]"#);
    let request = BulkRequest {
        id: &id('0').to_string(),
        quote: id('1'),
        payer: FspId::parse("bluebank").unwrap(),
        payee: FspId::parse("greenbank").unwrap(),
        expires_at: completed().unwrap(),
        extensions,
    };
    let item = BulkRequestItem {
        id: id('2'),
        amount: Ok(Amount::parse_wire("10.25").unwrap()),
        currency: Currency::parse("KES").unwrap(),
        ilp_packet: "AYICexampleilppacket0123",
        condition: decode_octets("fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs").unwrap(),
        extensions: None,
    };
    let other = BulkRequestItem { id: id('3'), amount: Err("1234567890123456.78"), extensions, ..item };
    let text = rendered(|out| write_bulk_request(out, &request, [item, other]));
    let expected = r#"{"bulkQuoteId":"a8323bc6-c228-4df2-ae82-e5a997baf891","bulkTransferId":"a8323bc6-c228-4df2-ae82-e5a997baf890","expiration":"2031-04-01T12:00:01.000Z","extensionList":{"extension":[{"key":"a","value":"b"}]},"individualTransfers":[{"condition":"fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs","ilpPacket":"AYICexampleilppacket0123","transferAmount":{"amount":"10.25","currency":"KES"},"transferId":"a8323bc6-c228-4df2-ae82-e5a997baf892"},{"condition":"fH9pAYDQbmoZLPbvv3CSW2RfjU4jvM4ApG_fqGnR7Xs","extensionList":{"extension":[{"key":"a","value":"b"}]},"ilpPacket":"AYICexampleilppacket0123","transferAmount":{"amount":"1234567890123456.78","currency":"KES"},"transferId":"a8323bc6-c228-4df2-ae82-e5a997baf893"}],"payeeFsp":"greenbank","payerFsp":"bluebank"}"#;
    assert_eq!(text, expected);
    let read = parse_bulk_transfer(text.as_bytes()).unwrap();
    assert_eq!((read.items.len(), read.items[0].1.amount.clone()), (2, Ok(item.amount.unwrap())));

    let fulfilment = decode_octets("UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA").unwrap();
    let state = BulkState { state: "COMPLETED", completed_at: completed(), extensions };
    let outcomes = [
        (id('2'), BulkItemOutcome::Fulfilled { fulfilment: &fulfilment, extensions }),
        (id('3'), BulkItemOutcome::Failed { code: ErrorCode::TRANSFER_EXPIRED, description: "late".into() }),
        (id('4'), BulkItemOutcome::Open),
    ];
    let text = rendered(|out| write_bulk_state(out, &state, outcomes));
    let expected = r#"{"bulkTransferState":"COMPLETED","completedTimestamp":"2031-04-01T12:00:01.000Z","extensionList":{"extension":[{"key":"a","value":"b"}]},"individualTransferResults":[{"extensionList":{"extension":[{"key":"a","value":"b"}]},"fulfilment":"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA","transferId":"a8323bc6-c228-4df2-ae82-e5a997baf892"},{"errorInformation":{"errorCode":"3303","errorDescription":"late"},"transferId":"a8323bc6-c228-4df2-ae82-e5a997baf893"},{"transferId":"a8323bc6-c228-4df2-ae82-e5a997baf894"}]}"#;
    assert_eq!(text, expected);
    assert_eq!(parse_bulk_fulfil(text.as_bytes()).unwrap().results.len(), 3);
    let state = BulkState { state: "PENDING", completed_at: None, extensions: None };
    assert_eq!(rendered(|out| write_bulk_state(out, &state, [])), r#"{"bulkTransferState":"PENDING"}"#);
}

#[test]
fn version_errors_list_the_accepted_versions() {
    let write = |versions: &[Version]| {
        rendered(|out| write_version_error(out, ErrorCode::UNACCEPTABLE_VERSION, "No", versions))
    };
    assert_eq!(
        write(&[Version::V1_0, Version::V2_0]),
        r#"{"errorInformation":{"errorCode":"3001","errorDescription":"No","extensionList":{"extension":[{"key":"1","value":"0"},{"key":"2","value":"0"}]}}}"#
    );
    assert_eq!(write(&[]), r#"{"errorInformation":{"errorCode":"3001","errorDescription":"No"}}"#);
    assert_eq!(ErrorCode::VALIDATION.to_string(), "3100");
}

#[test]
fn answers_about_participants_are_written_byte_for_byte() {
    let shop =
        PartyEntry { kind: "MSISDN", identifier: "26097", sub_id: Some("shop-7"), fsp: Some("greenbank") };
    let mail = PartyEntry { kind: "EMAIL", identifier: "a\"b@c.de", sub_id: None, fsp: Some("bluebank") };
    let usd = Currency::parse("USD");
    let unknown = Some((ErrorCode::PARTY_NOT_FOUND, "Party not found"));
    for (text, expected) in [
        (rendered(|out| write_fsp_id(out, "greenbank")), r#"{"fspId":"greenbank"}"#),
        (
            rendered(|out| write_party_list(out, usd, [shop])),
            r#"{"currency":"USD","partyList":[{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"26097","partySubIdOrType":"shop-7"}]}"#,
        ),
        (
            rendered(|out| write_party_list(out, None, [mail])),
            r#"{"partyList":[{"fspId":"bluebank","partyIdType":"EMAIL","partyIdentifier":"a\"b@c.de"}]}"#,
        ),
        (rendered(|out| write_party_list(out, None, [])), r#"{"partyList":[]}"#),
        (
            rendered(|out| {
                let party = PartyEntry { fsp: None, ..mail };
                write_batch_result(out, None, [BatchResult { party, error: unknown }]);
            }),
            r#"{"partyList":[{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found"},"partyId":{"partyIdType":"EMAIL","partyIdentifier":"a\"b@c.de"}}]}"#,
        ),
        (
            rendered(|out| {
                let results =
                    [BatchResult { party: shop, error: None }, BatchResult { party: mail, error: unknown }];
                write_batch_result(out, usd, results);
            }),
            r#"{"currency":"USD","partyList":[{"partyId":{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"26097","partySubIdOrType":"shop-7"}},{"errorInformation":{"errorCode":"3204","errorDescription":"Party not found"},"partyId":{"fspId":"bluebank","partyIdType":"EMAIL","partyIdentifier":"a\"b@c.de"}}]}"#,
        ),
    ] {
        assert_eq!(text, expected);
        // Another serializer that sorts members produces the same bytes.
        let sorted = serde_json::from_str::<serde_json::Value>(&text).unwrap().to_string();
        assert_eq!(text, sorted);
    }
}
