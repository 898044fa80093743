//! A device that shows the codes of a second factor (RFC 6238), written without the hub's code.

use aws_lc_rs::hmac;

/// Duration of a code's interval, in milliseconds.
pub const CODE_INTERVAL_MS: i64 = 30_000;

/// A device with the secret of one user.
pub struct Device {
    key: hmac::Key,
}

impl Device {
    /// Creates a device from the secret in the form that users type.
    pub fn new(secret: &str) -> Self {
        let digit = |letter: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|one| *one == letter);
        let bits: String =
            secret.bytes().map(|letter| format!("{:05b}", digit(letter).expect("base32"))).collect();
        let byte = |at: usize| u8::from_str_radix(&bits[at * 8..at * 8 + 8], 2).expect("eight bits");
        let bytes: Vec<u8> = (0..bits.len() / 8).map(byte).collect();
        assert_eq!(bytes.len(), 20, "{secret}");
        Self { key: hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &bytes) }
    }

    /// The code at this time.
    pub fn code_at(&self, ms: i64) -> String {
        let tag = hmac::sign(&self.key, &(ms / CODE_INTERVAL_MS).to_be_bytes());
        let at = usize::from(tag.as_ref()[19] & 15);
        let bytes = tag.as_ref()[at..at + 4].try_into().expect("four bytes");
        format!("{:06}", (u32::from_be_bytes(bytes) & 0x7fff_ffff) % 1_000_000)
    }
}
