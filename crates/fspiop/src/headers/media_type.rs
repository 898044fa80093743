//! Parses and writes the media types of `Content-Type` and `Accept` (FSPIOP API v1.1 §3.3.4).
//!
//! ```text
//! content-type = base "." resource "+json" [SP] ";" [SP] "version=" 1*DIGIT "." 1*DIGIT
//! accept       = one *( OWS "," OWS one )
//! one          = base "." resource "+json" [ [SP] ";" [SP] "version=" 1*DIGIT [ "." 1*DIGIT ] ]
//! ```

use alloc::vec::Vec;
use core::fmt::Write;

use crate::byte_writer::ByteWriter;
use crate::version::parse_number;
use crate::{Resource, Version, Versions};

const BASE: &str = "application/vnd.interoperability.";

/// The result of judging a media type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MediaTypeResult<T> {
    Accepted(T),
    /// Well-formed, but with a version that the hub does not support.
    Unsupported,
    Malformed,
}

/// The numbers after `version=`. The minor number is absent in `version=1`.
struct VersionText<'a> {
    major: &'a str,
    minor: Option<&'a str>,
}

/// Splits `base.resource+json;version=…`. The outer `None` means malformed; the inner `None` means that no version is
/// requested.
fn split(value: &str, resource: Resource) -> Option<Option<VersionText<'_>>> {
    let rest = value.strip_prefix(BASE)?.strip_prefix(resource.as_str())?.strip_prefix("+json")?;
    if rest.is_empty() {
        return Some(None);
    }
    let rest = rest.strip_prefix(' ').unwrap_or(rest).strip_prefix(';')?;
    let version = rest.strip_prefix(' ').unwrap_or(rest).strip_prefix("version=")?;
    let (major, minor) = match version.split_once('.') {
        Some((major, minor)) => (major, Some(minor)),
        None => (version, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && minor.is_none_or(is_number)).then_some(Some(VersionText { major, minor }))
}

fn to_version(major: &str, minor: &str) -> Option<Version> {
    Some(Version::new(parse_number(major)?, parse_number(minor)?))
}

/// Judges a `Content-Type`. Major and minor version are required.
pub(crate) fn judge_content_type(
    value: &str,
    resource: Resource,
    versions: &Versions,
) -> MediaTypeResult<Version> {
    match split(value, resource) {
        Some(Some(VersionText { major, minor: Some(minor) })) => match to_version(major, minor) {
            Some(version) if versions.accepts(version) => MediaTypeResult::Accepted(version),
            _ => MediaTypeResult::Unsupported,
        },
        _ => MediaTypeResult::Malformed,
    }
}

/// The elements of an `Accept` without surrounding white space. Several lines form one list (RFC 9110 §5.3).
fn elements<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = &'a str> {
    let texts = lines.map(|line| core::str::from_utf8(line).unwrap_or_default());
    texts.flat_map(|text| text.split(',')).map(|element| element.trim_matches([' ', '\t']))
}

/// Whether an `Accept` allows any media type.
pub(crate) fn accepts_anything<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let essence = |element: &'a str| element.split(';').next().unwrap_or_default().trim_end();
    elements(lines).any(|element| essence(element) == "*/*")
}

/// Judges an `Accept`. One supported element is sufficient, and one malformed element makes it malformed. An element
/// without a version allows any version.
pub(crate) fn judge_accept<'a>(
    lines: impl Iterator<Item = &'a [u8]>,
    resource: Resource,
    versions: &Versions,
) -> MediaTypeResult<()> {
    let mut verdict = MediaTypeResult::Unsupported;
    for element in elements(lines) {
        let supported = match split(element, resource) {
            None => return MediaTypeResult::Malformed,
            Some(None) => true,
            Some(Some(VersionText { major, minor: None })) => {
                parse_number(major).is_some_and(|major| versions.accepts_major(major))
            }
            Some(Some(VersionText { major, minor: Some(minor) })) => {
                to_version(major, minor).is_some_and(|version| versions.accepts(version))
            }
        };
        if supported {
            verdict = MediaTypeResult::Accepted(());
        }
    }
    verdict
}

/// Appends the `Content-Type` of a message that the hub creates:
/// `application/vnd.interoperability.transfers+json;version=1.1`.
pub fn write_content_type(out: &mut Vec<u8>, resource: Resource, version: Version) {
    let _ = write!(ByteWriter(out), "{BASE}{}+json;version={version}", resource.as_str());
}

/// Appends the `Accept` of a message that the hub creates. It names only the major version.
pub(crate) fn write_accept(out: &mut Vec<u8>, resource: Resource, version: Version) {
    let _ = write!(ByteWriter(out), "{BASE}{}+json;version={}", resource.as_str(), version.major);
}

#[cfg(test)]
mod tests {
    use super::MediaTypeResult::{Accepted, Malformed, Unsupported};
    use super::*;

    const TRANSFERS: &str = "application/vnd.interoperability.transfers+json";

    #[test]
    fn content_types_follow_the_grammar() {
        let versions = Versions::default();
        for (tail, expected) in [
            (";version=1.0", Accepted(Version::V1_0)),
            (";version=1.1", Accepted(Version::V1_1)),
            ("; version=2.0", Accepted(Version::V2_0)),
            (" ;version=1.1", Accepted(Version::V1_1)),
            (" ; version=1.1", Accepted(Version::V1_1)),
            (";version=3.0", Unsupported),
            (";version=1.2", Unsupported),
            (";version=01.1", Unsupported),
            (";version=1.00", Unsupported),
            (";version=99999999999999999999.0", Unsupported),
            ("", Malformed),
            (";version=1", Malformed),
            (";version=1.", Malformed),
            (";version=.1", Malformed),
            (";version=1.1.1", Malformed),
            (";version=1.1;charset=utf-8", Malformed),
            (";charset=utf-8;version=1.1", Malformed),
            (";  version=1.1", Malformed),
            ("  ;version=1.1", Malformed),
            (";version=1.1 ", Malformed),
            (";Version=1.1", Malformed),
            (";version=+1.1", Malformed),
            (";version=one", Malformed),
        ] {
            let value = alloc::format!("{TRANSFERS}{tail}");
            assert_eq!(judge_content_type(&value, Resource::Transfers, &versions), expected, "{value}");
        }
        for value in [
            "application/json",
            "application/vnd.interoperability.quotes+json;version=1.1",
            "application/vnd.interoperability.iso20022.transfers+json;version=1.1",
            "application/vnd.interoperability.Transfers+json;version=1.1",
            "application/vnd.interoperability.transfers+xml;version=1.1",
            "Application/vnd.interoperability.transfers+json;version=1.1",
            " application/vnd.interoperability.transfers+json;version=1.1",
        ] {
            assert_eq!(judge_content_type(value, Resource::Transfers, &versions), Malformed, "{value}");
        }
    }

    #[test]
    fn accepts_follow_the_grammar() {
        let versions = Versions::default();
        // `@` stands for the media type without a version.
        for (pattern, expected) in [
            ("@", Accepted(())),
            ("@;version=1", Accepted(())),
            ("@;version=2", Accepted(())),
            ("@;version=1.0", Accepted(())),
            ("@; version=1.1", Accepted(())),
            ("@;version=2.0", Accepted(())),
            ("@;version=3,@;version=1.1", Accepted(())),
            ("@;version=3,@", Accepted(())),
            ("@;version=3", Unsupported),
            ("@;version=1.7", Unsupported),
            ("@;version=3,@;version=4.0", Unsupported),
            ("@;version=1.1, @;version=1.0", Accepted(())),
            ("@;version=1.1 ,@;version=1.0", Accepted(())),
            (" @;version=3 \t, \t@;version=1.0\t", Accepted(())),
            ("@;version=1.1, x", Malformed),
            ("@;version=1.1,", Malformed),
            ("@;version=1.1,*/*", Malformed),
            ("@;version=", Malformed),
            ("@;version=1.1;q=0.5", Malformed),
            ("*/*", Malformed),
            ("application/json", Malformed),
            ("", Malformed),
            ("application/vnd.interoperability.quotes+json;version=1.1", Malformed),
        ] {
            let value = pattern.replace('@', TRANSFERS);
            let judge = |lines: &[&str]| {
                judge_accept(lines.iter().map(|line| line.as_bytes()), Resource::Transfers, &versions)
            };
            assert_eq!(judge(&[&value]), expected, "{pattern}");
            // Several lines are one list.
            let lines: Vec<_> = value.split(',').collect();
            assert_eq!(judge(&lines), expected, "{pattern} in lines");
        }
    }

    #[test]
    fn wildcard_accept_has_one_element() {
        for (lines, expected) in [
            (&["*/*"][..], true),
            (&["application/json, text/plain, */*"], true),
            (&["application/json", " */* ;q=0.8"], true),
            (&["application/json"], false),
            (&["*/json"], false),
            (&[""], false),
            (&[], false),
        ] {
            assert_eq!(accepts_anything(lines.iter().map(|line| line.as_bytes())), expected, "{lines:?}");
        }
    }

    #[test]
    fn media_types_that_the_hub_writes_are_accepted() {
        let versions = Versions::default();
        for &resource in Resource::ALL {
            for &version in &versions.accepted {
                let (mut content_type, mut accept) = (Vec::new(), Vec::new());
                write_content_type(&mut content_type, resource, version);
                write_accept(&mut accept, resource, version);
                let content_type = core::str::from_utf8(&content_type).unwrap();
                let accept = core::str::from_utf8(&accept).unwrap();
                assert_eq!(judge_content_type(content_type, resource, &versions), Accepted(version));
                let accept = core::iter::once(accept.as_bytes());
                assert_eq!(judge_accept(accept, resource, &versions), Accepted(()));
            }
        }
    }
}
