//! The canonical encoding of a public key for storage and comparison: an X.509 `SubjectPublicKeyInfo` in DER.

/// The algorithm identifier of RSA keys, with its empty parameters.
pub(crate) const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The algorithm identifier of keys on P-256.
pub(crate) const P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub(crate) const SEQUENCE: u8 = 0x30;

/// An RSA key, from its modulus and exponent as big-endian numbers.
pub(crate) fn of_rsa(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let key = element(SEQUENCE, &[number(modulus), number(exponent)].concat());
    element(SEQUENCE, &[RSA, &bits(&key)].concat())
}

/// A key on P-256, from its point.
pub(crate) fn of_p256(point: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[P256, &bits(point)].concat())
}

/// A number without its leading zeros.
pub(crate) fn significant(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|byte| **byte == 0).count()..]
}

/// A number that is not negative.
fn number(value: &[u8]) -> Vec<u8> {
    let value = significant(value);
    let sign: &[u8] = if value.first().is_none_or(|first| first & 0x80 != 0) { &[0] } else { &[] };
    element(INTEGER, &[sign, value].concat())
}

/// A bit string of whole bytes.
pub(crate) fn bits(bytes: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], bytes].concat())
}

pub(crate) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let bytes = length.to_be_bytes();
    let bytes = significant(&bytes);
    let mut all = vec![tag];
    match length {
        0..=0x7f => all.push(length as u8),
        _ => {
            all.push(0x80 | bytes.len() as u8);
            all.extend_from_slice(bytes);
        }
    }
    all.extend_from_slice(content);
    all
}
