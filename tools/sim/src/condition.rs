//! Conditions and fulfilments: the payee must reveal the preimage of the condition to commit a transfer.
//!
//! Transfers that the simulators originate carry `condition = SHA-256(preimage)` with `preimage = HMAC-SHA-256(secret,
//! transfer id)`. So every simulator with the same secret can compute the preimage of every such transfer. Transfers
//! after a quote carry the condition of the packet that the payee created. From the packet, the payee can compute the
//! fulfilment again.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use upesi_fspiop::ilp;
use upesi_types::TransferId;

/// Characters of 32 bytes in base64url without padding.
pub const TEXT_BYTES: usize = 43;

/// A condition or a fulfilment as on the wire.
pub type Text = [u8; TEXT_BYTES];

/// Fixed pairs that public test tools send with every transfer: (condition, fulfilment).
const WELL_KNOWN: [(&Text, &Text); 2] = [
    (b"GRzLaTP7DJ9t4P-a_BA0WA9wzzlsugf00-Tn6kESAfM", b"UNlJ98hZTY_dsw0cAqw4i_UN3v4utt7CZFB4yfLbVFA"),
    (b"GIxd5xcohkmnnXolpTv_OxwpyaH__Oiq49JTvCo8pyA", b"V-IalzIzy-zxy0SrlY1Ku2OE9aS4KgGZ0W-Zq5_BeC0"),
];

/// The secret that payers and payees share.
#[derive(Clone)]
pub struct Secret {
    /// Both key blocks are hashed already, so that a preimage costs two compressions.
    keyed: Hmac<Sha256>,
    /// For transactions in packets, where the key is the base64 text of the secret.
    packets: Hmac<Sha256>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Secret {
    /// Prepares a secret of any length.
    pub fn new(key: &[u8]) -> Self {
        let keyed = |key: &[u8]| {
            Hmac::new_from_slice(key).unwrap_or_else(|_| unreachable!("an HMAC takes keys of any length"))
        };
        Self { keyed: keyed(key), packets: keyed(STANDARD.encode(key).as_bytes()) }
    }

    fn hmac(&self, message: &[u8]) -> [u8; 32] {
        self.keyed.clone().chain_update(message).finalize().into_bytes().into()
    }

    fn preimage(&self, id: &TransferId) -> [u8; 32] {
        self.hmac(&id.to_bytes())
    }

    /// The condition of a transfer that this simulator originates.
    pub fn condition(&self, id: &TransferId) -> Text {
        encode(&Sha256::digest(self.preimage(id)).into())
    }

    /// The fulfilment of a transfer that this simulator originated.
    pub fn fulfilment(&self, id: &TransferId) -> Text {
        encode(&self.preimage(id))
    }

    /// The fulfilment that answers `condition`, if this DFSP knows it: a computed one, or one of the well-known pairs.
    pub fn answer(&self, id: &TransferId, condition: &[u8]) -> Option<Text> {
        let preimage = self.preimage(id);
        if encode(&Sha256::digest(preimage).into())[..] == *condition {
            return Some(encode(&preimage));
        }
        WELL_KNOWN.iter().find(|(known, _)| known[..] == *condition).map(|(_, fulfilment)| **fulfilment)
    }

    /// The fulfilment of a transaction object in a packet: a keyed hash of its base64 text.
    pub(crate) fn fulfilment_of_transaction(&self, transaction: &str) -> [u8; 32] {
        let text = STANDARD.encode(transaction);
        self.packets.clone().chain_update(text.as_bytes()).finalize().into_bytes().into()
    }

    /// The fulfilment that answers `condition`, computed from the transaction in the packet, if this DFSP quoted it.
    pub(crate) fn answer_packet(&self, packet: &[u8], condition: &[u8]) -> Option<Text> {
        let transaction = ilp::decode_transaction(std::str::from_utf8(packet).ok()?).ok()?;
        let fulfilment = self.fulfilment_of_transaction(&transaction);
        (encode(&ilp::condition_of(&fulfilment))[..] == *condition).then(|| encode(&fulfilment))
    }
}

/// The condition that a fulfilment from the wire answers; `None` if it does not have 32 bytes.
pub(crate) fn condition_of(fulfilment: &[u8]) -> Option<Text> {
    let preimage = upesi_fspiop::decode_octets(std::str::from_utf8(fulfilment).ok()?)?;
    Some(encode(&Sha256::digest(preimage).into()))
}

/// A fulfilment that answers no condition in use.
pub(crate) fn wrong_fulfilment(right: &Text) -> Text {
    let mut wrong = *right;
    wrong[0] = if wrong[0] == b'A' { b'B' } else { b'A' };
    wrong
}

pub(crate) fn encode(bytes: &[u8; 32]) -> Text {
    let mut text = [0_u8; TEXT_BYTES];
    // Cannot fail: 32 bytes take exactly 43 characters.
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
    debug_assert_eq!(written, Ok(TEXT_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TransferId {
        TransferId::parse(text).unwrap()
    }

    #[test]
    fn hmac_equals_rfc_4231() {
        let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let jefe = Secret::new(b"Jefe").hmac(b"what do ya want for nothing?");
        assert_eq!(hex(jefe), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = Secret::new(&[0xaa; 131]).hmac(b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn fulfilment_of_a_transaction_equals_mojaloops_library() {
        for (secret, transaction) in [("", "{}"), ("shared", r#"{"a":"ü"}"#)] {
            let fulfilment = Secret::new(secret.as_bytes()).fulfilment_of_transaction(transaction);
            assert_eq!(fulfilment, ilp::fulfilment_v4(secret.as_bytes(), transaction));
        }
        for packet in [&b""[..], b"AYIC", b"\xff", b"!"] {
            assert_eq!(Secret::new(b"shared").answer_packet(packet, &[b'A'; 43]), None);
        }
    }

    #[test]
    fn only_own_and_well_known_conditions_are_answered() {
        let secret = Secret::new(b"shared");
        let (one, other) = (id("5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d"), id("01ARZ3NDEKTSV4RRFFQ69G5FAV"));
        assert_eq!(secret.answer(&one, &secret.condition(&one)), Some(secret.fulfilment(&one)));
        assert_eq!(secret.answer(&other, &secret.condition(&one)), None);
        assert_eq!(Secret::new(b"another").answer(&one, &secret.condition(&one)), None);
        assert_eq!(secret.answer(&one, b"short"), None);
        for (condition, fulfilment) in WELL_KNOWN {
            assert_eq!(secret.answer(&one, condition), Some(*fulfilment));
            assert_eq!(condition_of(fulfilment), Some(*condition));
        }
        assert_ne!(wrong_fulfilment(&secret.fulfilment(&one)), secret.fulfilment(&one));
    }
}
