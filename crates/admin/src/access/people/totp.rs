//! Codes of a second factor by time: RFC 6238 with SHA-1, six digits and 30 seconds, as all authenticator apps have it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use upesi_types::Timestamp;

use super::sealing::Seed;

/// Milliseconds that a code is shown for.
const STEP_MS: i64 = 30_000;
/// Digits of a code.
const DIGITS: u32 = 6;
/// The alphabet of RFC 4648 §6.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The interval of a code that is right at this moment: that of now, the one before or the one after. If several have
/// the same code, it is the latest.
pub(crate) fn step_of(seed: &Seed, code: &str, now: Timestamp) -> Option<u64> {
    if code.len() != DIGITS as usize {
        return None;
    }
    let now = u64::try_from(now.as_ms().div_euclid(STEP_MS)).ok()?;
    let is_right =
        |step: &u64| verify_slices_are_equal(code_at(seed, *step).as_bytes(), code.as_bytes()).is_ok();
    (now.saturating_sub(1)..=now + 1).rev().find(is_right)
}

/// The code of an interval.
fn code_at(seed: &Seed, step: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, seed.bytes());
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let offset = usize::from(bytes[bytes.len() - 1] & 0x0f);
    let number = bytes[offset..offset + 4].iter().fold(0, |number: u32, byte| number << 8 | u32::from(*byte));
    format!("{:06}", (number & 0x7fff_ffff) % 10_u32.pow(DIGITS))
}

/// The secret as people type it into an app.
pub(crate) fn base32(seed: &Seed) -> String {
    // 20 bytes are 32 letters without a rest.
    let letter = |index: usize| {
        let bit = index * 5;
        let pair = seed.bytes()[bit / 8..].iter().copied().chain([0]).take(2);
        let pair = pair.fold(0_u16, |pair, byte| pair << 8 | u16::from(byte));
        char::from(BASE32[usize::from(pair >> (11 - bit % 8)) & 31])
    };
    (0..seed.bytes().len() * 8 / 5).map(letter).collect()
}

/// The secret as apps read it from a picture.
pub(crate) fn uri(seed: &Seed, operator: &str) -> String {
    let operator = operator.replace('@', "%40");
    format!("otpauth://totp/Upesi:{operator}?secret={}&issuer=Upesi", base32(seed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6238, appendix B, of which codes of six digits are the end; its last moment is beyond the hub's time.
    #[test]
    fn codes_are_those_of_the_standard() {
        let seed = Seed::of(*b"12345678901234567890");
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
        ] {
            let now = Timestamp::from_ms(second * 1_000);
            let step = u64::try_from(second / 30).unwrap();
            assert_eq!(step_of(&seed, code, now), Some(step), "{second}");
            for (after_ms, expected) in
                [(-60_000, None), (-30_000, Some(step)), (30_000, Some(step)), (60_000, None)]
            {
                assert_eq!(step_of(&seed, code, now.plus_ms(after_ms)), expected, "{second} {after_ms}");
            }
            for wrong in ["", "00000", "28708", &format!("0{code}"), &format!("{code} "), "28７08"] {
                assert_eq!(step_of(&seed, wrong, now), None, "{wrong}");
            }
        }
    }

    /// RFC 4648 has the alphabet; the text is the well-known one of this secret.
    #[test]
    fn the_secret_is_written_as_apps_take_it() {
        let seed = Seed::of(*b"12345678901234567890");
        assert_eq!(base32(&seed), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        let expected =
            "otpauth://totp/Upesi:amina%40bank?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Upesi";
        assert_eq!(uri(&seed, "amina@bank"), expected);
    }
}
