//! DER encodings that tokens do not provide.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
/// `rsaEncryption` with its NULL.
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// `id-ecPublicKey` on `secp256r1`.
const P256: &[u8] = &[
    0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    match content.len() {
        short @ 0..=0x7f => der.push(u8::try_from(short).unwrap_or(0)),
        long => {
            let bytes = long.to_be_bytes();
            let bytes = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            der.push(0x80 | u8::try_from(bytes.len()).unwrap_or(0));
            der.extend_from_slice(bytes);
        }
    }
    der.extend_from_slice(content);
    der
}

/// A positive number.
fn integer(number: &[u8]) -> Vec<u8> {
    let number = &number[number.iter().take_while(|byte| **byte == 0).count()..];
    match number.first() {
        Some(first) if *first < 0x80 => tagged(INTEGER, number),
        _ => tagged(INTEGER, &[&[0], number].concat()),
    }
}

fn spki(algorithm: &[u8], key: &[u8]) -> Vec<u8> {
    let key = tagged(BIT_STRING, &[&[0], key].concat());
    tagged(SEQUENCE, &[tagged(SEQUENCE, algorithm), key].concat())
}

/// The encoded public key of an RSA key.
pub(super) fn rsa_spki(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    spki(RSA, &tagged(SEQUENCE, &[integer(modulus), integer(exponent)].concat()))
}

/// The encoded public key of a point on P-256; `None` if the parameters are of another curve, or the point is invalid.
pub(super) fn p256_spki(parameters: &[u8], point: &[u8]) -> Option<Vec<u8>> {
    const POINT_BYTES: usize = 65;
    // The standard requires an OCTET STRING; some tokens omit its header.
    let point = point.strip_prefix(&[0x04, 0x41]).unwrap_or(point);
    let is_curve = P256.ends_with(parameters) && parameters.len() > 2;
    (is_curve && point.len() == POINT_BYTES).then(|| spki(P256, point))
}

/// Converts an ECDSA signature of two numbers of equal length to the form of TLS: a sequence of integers.
pub fn ecdsa_signature(fixed: &[u8]) -> Vec<u8> {
    let (r, s) = fixed.split_at(fixed.len() / 2);
    tagged(SEQUENCE, &[integer(r), integer(s)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_positive_and_minimal() {
        assert_eq!(integer(&[0, 0, 1]), [2, 1, 1]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(integer(&[0, 0]), [2, 1, 0]);
        assert_eq!(ecdsa_signature(&[0, 1, 0xff, 0xfe]), [0x30, 8, 2, 1, 1, 2, 3, 0, 0xff, 0xfe]);
    }

    #[test]
    fn lengths_are_minimal() {
        for (length, head) in
            [(0x7f, &[4, 0x7f][..]), (0x80, &[4, 0x81, 0x80]), (0x1234, &[4, 0x82, 0x12, 0x34])]
        {
            let der = tagged(4, &vec![7; length]);
            assert_eq!((&der[..head.len()], der.len()), (head, head.len() + length));
        }
    }
}
