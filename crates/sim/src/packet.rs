//! ILP packets in the form that DFSPs of the FSPIOP API v1 put into `ilpPacket`.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

const PAYMENT: u8 = 0x01;

/// A payment packet, base64url: the amount in the currency's smallest unit, the payee's ILP address, and the
/// transaction object (JSON) as base64url text. Hubs treat the whole as opaque.
pub fn payment_packet(minor_units: u64, payee: &str, party: &str, transaction: &str) -> String {
    let account = format!("g.{payee}.msisdn.{party}");
    let data = URL_SAFE_NO_PAD.encode(transaction);
    let mut body = minor_units.to_be_bytes().to_vec();
    push_with_length(&mut body, account.as_bytes());
    push_with_length(&mut body, data.as_bytes());
    body.push(0);
    let mut packet = vec![PAYMENT];
    push_with_length(&mut packet, &body);
    URL_SAFE_NO_PAD.encode(packet)
}

/// One byte of length below 128, else 0x80 plus the number of length bytes, then the length, big-endian.
fn push_with_length(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len() as u64;
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let all = length.to_be_bytes();
        let significant = &all[length.leading_zeros() as usize / 8..];
        out.push(0x80 | significant.len() as u8);
        out.extend_from_slice(significant);
    }
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_equals_the_published_worked_example() {
        let transaction = concat!(
            r#"{"amount":{"amount":"12.5","currency":"USD"},"expiration":"2030-01-01T00:00:00.000Z","#,
            r#""payee":{"partyIdInfo":{"fspId":"greenbank","partyIdType":"MSISDN","partyIdentifier":"26097"}},"#,
            r#""quoteId":"6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11"}"#
        );
        assert_eq!(transaction.len(), 229);
        let packet = payment_packet(1250, "greenbank", "26097", transaction);
        assert!(
            packet.starts_with("AYIBVwAAAAAAAATiGGcuZ3JlZW5iYW5rLm1zaXNkbi4yNjA5N4IBMmV5SmhiVzkxYm5RaU9u")
        );
        assert!(packet.ends_with("WVRkaU1URWlmUQA"));
    }
}
