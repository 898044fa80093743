use super::*;
use crate::{decode_octets, encode_octets};
use alloc::string::ToString;

const TRANSACTION: &str = r#"{"amount":{"amount":"12.5","currency":"USD"},"expiration":"2030-01-01T00:00:00.000Z","payee":{"partyIdInfo":{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"26097"}},"quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11"}"#;
const SECRET: &[u8] = b"worked-example-secret";

const FULFILMENT_V4: &str = "-fcT-Kg4v1399VKeIKs7CCgndX3Vn_EWfaRahghA7Ys";
const CONDITION_V4: &str = "OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0";
const PACKET_V4: &str = "DIIBeQAAAAAAAATiMjAzMDAxMDEwMDAwMDAwMDA5qZ8ZVext3aTw-IFyYKjnIWNkOKqmuH5hWPxgKGWyfQpnLm1vamFsb29wggEyZXlKaGJXOTFiblFpT25zaVlXMXZkVzUwSWpvaU1USXVOU0lzSW1OMWNuSmxibU41SWpvaVZWTkVJbjBzSW1WNGNHbHlZWFJwYjI0aU9pSXlNRE13TFRBeExUQXhWREF3T2pBd09qQXdMakF3TUZvaUxDSndZWGxsWlNJNmV5SndZWEowZVVsa1NXNW1ieUk2ZXlKbWMzQkpaQ0k2SW1keVpXVnVZbUZ1YXlJc0luQmhjblI1U1dSVWVYQmxJam9pVFZOSlUwUk9JaXdpY0dGeWRIbEpaR1Z1ZEdsbWFXVnlJam9pTWpZd09UY2lmWDBzSW5GMWIzUmxTV1FpT2lJMlpqTm1aamxrTkMweVpqQmlMVFJpWWpJdE9XUXpZUzB3WmpObU1XTTJZVGRpTVRFaWZR";
const FULFILMENT_V1: &str = "Bj0DR6oOvMhn56Ntf0aT3kClnF9CvMFlI0ieVwT--vI";
const CONDITION_V1: &str = "LbTDqu8FEDWEafl94lFBmNTVesEZTx7qrXI8qv-v1eY";
const PACKET_V1: &str = "AYIBVwAAAAAAAATiGGcuZ3JlZW5iYW5rLm1zaXNkbi4yNjA5N4IBMmV5SmhiVzkxYm5RaU9uc2lZVzF2ZFc1MElqb2lNVEl1TlNJc0ltTjFjbkpsYm1ONUlqb2lWVk5FSW4wc0ltVjRjR2x5WVhScGIyNGlPaUl5TURNd0xUQXhMVEF4VkRBd09qQXdPakF3TGpBd01Gb2lMQ0p3WVhsbFpTSTZleUp3WVhKMGVVbGtTVzVtYnlJNmV5Sm1jM0JKWkNJNkltZHlaV1Z1WW1GdWF5SXNJbkJoY25SNVNXUlVlWEJsSWpvaVRWTkpVMFJPSWl3aWNHRnlkSGxKWkdWdWRHbG1hV1Z5SWpvaU1qWXdPVGNpZlgwc0luRjFiM1JsU1dRaU9pSTJaak5tWmpsa05DMHlaakJpTFRSaVlqSXRPV1F6WVMwd1pqTm1NV00yWVRkaU1URWlmUQA";

fn text_of(octets: &[u8; 32]) -> String {
    String::from_utf8(encode_octets(octets).to_vec()).unwrap()
}

#[test]
fn the_worked_example_of_v4_comes_out() {
    let fulfilment = fulfilment_v4(SECRET, TRANSACTION);
    assert_eq!(text_of(&fulfilment), FULFILMENT_V4);
    let condition = condition_of(&fulfilment);
    assert_eq!(text_of(&condition), CONDITION_V4);
    let expiry = Timestamp::parse_iso("2030-01-01T00:00:00.000Z").unwrap();
    assert_eq!(encode_packet_v4(1250, expiry, &condition, TRANSACTION), PACKET_V4);
}

#[test]
fn the_worked_example_of_v1_comes_out() {
    let packet = encode_packet_v1(1250, "g.greenbank.msisdn.26097", TRANSACTION);
    assert_eq!(packet, PACKET_V1);
    let fulfilment = fulfilment_v1(SECRET, &packet);
    assert_eq!(text_of(&fulfilment), FULFILMENT_V1);
    assert_eq!(text_of(&condition_of(&fulfilment)), CONDITION_V1);
}

#[test]
fn both_kinds_show_their_transaction() {
    for packet in [PACKET_V4, PACKET_V1] {
        assert_eq!(decode_transaction(packet).as_deref(), Ok(TRANSACTION));
        assert_eq!(decode_transaction(&(packet.to_string() + "==")).as_deref(), Ok(TRANSACTION));
    }
}

#[test]
fn pairs_in_public_use_match() {
    for (fulfilment, condition) in [
        ("UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA", "GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM"),
        ("V-IalzIzy-zxy0SrlY1Ku2OE9aS4KgGZ0W-Zq5_BeC0", "GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA"),
    ] {
        assert_eq!(text_of(&condition_of(&decode_octets(fulfilment).unwrap())), condition);
    }
}

#[test]
fn every_length_survives_its_prefix() {
    for length in [0, 1, 96, 127, 128, 255, 256, 20_000, 70_000] {
        let json = "j".repeat(length);
        let packet = encode_packet_v4(1, Timestamp::EPOCH, &[7; 32], &json);
        assert_eq!(decode_transaction(&packet), Ok(json.clone()), "{length}");
        let packet = encode_packet_v1(1, "g.a", &json);
        assert_eq!(decode_transaction(&packet), Ok(json), "{length}");
    }
}

#[test]
fn broken_packets_are_told_apart() {
    let packet = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let with_data = |data: &[u8]| {
        let mut body = [0_u8; 8].to_vec();
        push_prefixed(&mut body, b"g.a");
        push_prefixed(&mut body, data);
        body.push(0);
        envelope(TYPE_V1, &body)
    };
    for (text, error) in [
        ("".to_string(), IlpError::CutShort),
        ("*".to_string(), IlpError::PacketEncoding),
        ("AYIBg+==".to_string(), IlpError::PacketEncoding),
        (packet(&[0x02, 0]), IlpError::UnknownType(2)),
        (packet(&[0x01]), IlpError::CutShort),
        (packet(&[0x01, 0x80]), IlpError::CutShort),
        (packet(&[0x01, 0x05, 1, 2]), IlpError::CutShort),
        (packet(&[0x01, 0x88, 255, 255, 255, 255, 255, 255, 255, 255]), IlpError::CutShort),
        (packet(&[0x01, 0x89, 255, 255, 255, 255, 255, 255, 255, 255, 255]), IlpError::CutShort),
        (packet(&[0x0c, 0x02, 1, 2]), IlpError::CutShort),
        (with_data(b"+not url+"), IlpError::DataEncoding),
        (with_data(b"_w"), IlpError::DataEncoding),
    ] {
        assert_eq!(decode_transaction(&text), Err(error), "{text}");
    }
    for length in 0..PACKET_V1.len() - 2 {
        assert!(decode_transaction(&PACKET_V1[..length]).is_err(), "{length}");
    }
}
