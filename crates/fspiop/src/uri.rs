//! Writes paths of messages, and fills the URL templates that DFSPs register as their callback endpoints.

use alloc::string::String;

pub use crate::percent::{decode_segment, encode_component, encode_segment};
use crate::{PartyIdType, PartyPath, Resource};

/// The reason why a template cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{{` without `}}` after it.
    #[error("the template has {{{{ without }}}} at byte {at}")]
    Unclosed {
        /// Offset of the placeholder.
        at: usize,
    },
    /// A placeholder that this endpoint type does not support.
    #[error("the template has an unknown placeholder '{name}'")]
    Unknown {
        /// The name between the braces.
        name: String,
    },
}

/// The values for placeholders, by name.
pub trait TemplateValues {
    /// The text for a placeholder, percent-encoded if necessary. `None` for an unknown name.
    fn value(&self, name: &str) -> Option<&str>;
}

/// The id of a message's object, under all names that templates use for it.
impl TemplateValues for str {
    fn value(&self, name: &str) -> Option<&str> {
        ["transferId", "commitRequestId", "bulkTransferId", "requestId", "id", "ID"]
            .contains(&name)
            .then_some(self)
    }
}

/// The values for an endpoint that come from a message's path: the parts of a party's path, or one id.
#[derive(Clone, Copy, Debug)]
pub struct PathValues<'a> {
    subject: Subject<'a>,
    receiver: &'a str,
}

#[derive(Clone, Copy, Debug)]
enum Subject<'a> {
    Party { kind: &'a str, id: &'a str, sub_id: &'a str },
    Thing(&'a str),
}

impl<'a> PathValues<'a> {
    /// The values of a path that [`write_path`] or [`write_party_path`] wrote, for this receiver.
    pub fn of(path: &'a str, receiver: &'a str) -> Self {
        let mut segments = path.trim_start_matches('/').split('/').skip(1);
        let first = segments.next().unwrap_or_default();
        let subject = match segments.next() {
            Some(id) if PartyIdType::parse(first).is_some() => {
                // The last segment `error` belongs to an error about a party without a sub id; a sub id cannot be
                // `error`.
                let sub_id = segments.next().filter(|segment| *segment != "error").unwrap_or_default();
                Subject::Party { kind: first, id, sub_id }
            }
            _ => Subject::Thing(first),
        };
        Self { subject, receiver }
    }
}

/// For a party: `{{partyIdType}}`, `{{partyIdentifier}}` and `{{partySubIdOrType}}`, or `{{Type}}`, `{{ID}}` and
/// `{{SubId}}`. A missing sub id is empty. For any other object: the names of its id. `{{fsp}}` is the receiver.
impl TemplateValues for PathValues<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        match (name, self.subject) {
            ("fsp", _) => Some(self.receiver),
            (_, Subject::Thing(id)) => id.value(name),
            ("partyIdType" | "Type", Subject::Party { kind, .. }) => Some(kind),
            ("partyIdentifier" | "ID", Subject::Party { id, .. }) => Some(id),
            ("partySubIdOrType" | "SubId", Subject::Party { sub_id, .. }) => Some(sub_id),
            _ => None,
        }
    }
}

/// Appends `template` to `out` and replaces every placeholder (`{{transferId}}`, `{{ partyIdentifier }}`, two braces or
/// three) with its value, which is an id or comes from [`PathValues`].
///
/// Errors: an unclosed or unknown placeholder; `out` then contains the part before it.
pub fn fill_template(
    template: &str,
    values: &(impl TemplateValues + ?Sized),
    out: &mut String,
) -> Result<(), TemplateError> {
    let mut rest = template;
    while let Some(open) = rest.find("{{") {
        let (before, placeholder) = rest.split_at(open);
        out.push_str(before);
        let (braces, close) = if placeholder.starts_with("{{{") { (3, "}}}") } else { (2, "}}") };
        let Some(length) = placeholder[braces..].find(close) else {
            return Err(TemplateError::Unclosed { at: template.len() - placeholder.len() });
        };
        let name = placeholder[braces..braces + length].trim();
        let value = values.value(name).ok_or_else(|| TemplateError::Unknown { name: String::from(name) })?;
        out.push_str(value);
        rest = &placeholder[braces + length + close.len()..];
    }
    out.push_str(rest);
    Ok(())
}

/// Appends the URL of a message to a DFSP that registered only the base URL of its API, as for quotes. The URL consists
/// of the base without trailing slashes, the path from [`write_path`], and the query with its question mark, if any.
pub fn append_to_base(base: &str, path: &str, query: Option<&str>, out: &mut String) {
    out.push_str(base.trim_end_matches('/'));
    out.push_str(path);
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
}

/// Appends the path of `FSPIOP-URI`: `/transfers`, `/transfers/{id}` or `/transfers/{id}/error`. It never contains the
/// path of the receiver's own base URL.
pub fn write_path(resource: Resource, id: Option<&str>, error: bool, out: &mut String) {
    out.push('/');
    out.push_str(resource.as_str());
    if let Some(id) = id {
        out.push('/');
        out.push_str(id);
    }
    if error {
        out.push_str("/error");
    }
}

/// Appends the path of a message about a party: `/parties/{Type}/{ID}[/{SubId}][/error]`.
pub fn write_party_path(resource: Resource, party: &PartyPath<'_>, error: bool, out: &mut String) {
    write_path(resource, Some(party.kind.as_str()), false, out);
    out.push('/');
    out.push_str(party.id);
    if let Some(sub_id) = party.sub_id {
        out.push('/');
        out.push_str(sub_id);
    }
    if error {
        out.push_str("/error");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str) -> Result<String, TemplateError> {
        let mut out = String::new();
        fill_template(template, "X-1", &mut out).map(|()| out)
    }

    #[test]
    fn placeholders_are_filled() {
        for (template, filled) in [
            ("http://dfsp/transfers", "http://dfsp/transfers"),
            ("http://dfsp/transfers/{{transferId}}", "http://dfsp/transfers/X-1"),
            ("http://dfsp/transfers/{{transferId}}/error", "http://dfsp/transfers/X-1/error"),
            ("http://dfsp/{{ transferId }}", "http://dfsp/X-1"),
            ("http://dfsp/{{{transferId}}}", "http://dfsp/X-1"),
            ("http://dfsp/{{ID}}", "http://dfsp/X-1"),
            ("http://dfsp/{{id}}", "http://dfsp/X-1"),
            ("http://dfsp/{{commitRequestId}}?again={{ID}}", "http://dfsp/X-1?again=X-1"),
            ("http://dfsp/{single}", "http://dfsp/{single}"),
            ("", ""),
        ] {
            assert_eq!(fill(template).as_deref(), Ok(filled), "{template}");
        }
    }

    #[test]
    fn broken_templates_are_refused() {
        for (template, error) in [
            ("http://dfsp/{{transferId", TemplateError::Unclosed { at: 12 }),
            ("http://dfsp/{{{transferId}}", TemplateError::Unclosed { at: 12 }),
            ("{{ID}}/{{", TemplateError::Unclosed { at: 7 }),
            ("{{partyId}}", TemplateError::Unknown { name: "partyId".into() }),
            ("{{}}", TemplateError::Unknown { name: "".into() }),
            ("{{é", TemplateError::Unclosed { at: 0 }),
        ] {
            assert_eq!(fill(template), Err(error), "{template}");
        }
    }

    #[test]
    fn endpoints_of_lookup_take_the_parts_of_the_path() {
        const TEMPLATE: &str =
            "http://dfsp/{{fsp}}/{{partyIdType}}/{{ partyIdentifier }}/{{{partySubIdOrType}}}";
        for (path, url) in [
            ("/parties/MSISDN/%2B26097", "http://dfsp/bluebank/MSISDN/%2B26097/"),
            ("/parties/MSISDN/26097/error", "http://dfsp/bluebank/MSISDN/26097/"),
            ("/parties/BUSINESS/1/shop-7", "http://dfsp/bluebank/BUSINESS/1/shop-7"),
            ("/participants/BUSINESS/1/shop-7/error", "http://dfsp/bluebank/BUSINESS/1/shop-7"),
            ("/participants/ALIAS/error", "http://dfsp/bluebank/ALIAS/error/"),
        ] {
            let mut out = String::new();
            fill_template(TEMPLATE, &PathValues::of(path, "bluebank"), &mut out).unwrap();
            assert_eq!(out, url, "{path}");
        }
        for (template, path) in [
            ("http://dfsp/{{requestId}}", "/participants/X-1"),
            ("http://dfsp/{{requestId}}", "/participants/X-1/error"),
            ("http://dfsp/{{ID}}", "/quotes/X-1/error"),
            ("http://dfsp/{{transferId}}", "/transfers/X-1"),
            ("http://dfsp/{{ID}}", "/parties/MSISDN/X-1/error"),
        ] {
            let mut out = String::new();
            fill_template(template, &PathValues::of(path, "bluebank"), &mut out).unwrap();
            assert_eq!(out, "http://dfsp/X-1", "{path}");
        }
        let unknown = TemplateError::Unknown { name: "transferId".into() };
        let values = PathValues::of("/parties/MSISDN/1", "bluebank");
        assert_eq!(fill_template("{{transferId}}", &values, &mut String::new()), Err(unknown));
    }

    #[test]
    fn bases_are_joined_with_one_slash() {
        for (base, query, url) in [
            ("http://dfsp", None, "http://dfsp/quotes/x"),
            ("http://dfsp/", None, "http://dfsp/quotes/x"),
            ("http://dfsp/v1//", None, "http://dfsp/v1/quotes/x"),
            ("http://dfsp/v1", Some("a=1&b=%20"), "http://dfsp/v1/quotes/x?a=1&b=%20"),
            ("http://dfsp", Some(""), "http://dfsp/quotes/x?"),
        ] {
            let mut out = String::new();
            append_to_base(base, "/quotes/x", query, &mut out);
            assert_eq!(out, url);
        }
    }

    #[test]
    fn paths_about_parties_keep_their_encoding() {
        let plain = PartyPath { kind: PartyIdType::Msisdn, id: "%2B26097", sub_id: None };
        let sub = PartyPath { sub_id: Some("shop%2F7"), ..plain };
        for (party, error, path) in [
            (plain, false, "/parties/MSISDN/%2B26097"),
            (plain, true, "/parties/MSISDN/%2B26097/error"),
            (sub, false, "/parties/MSISDN/%2B26097/shop%2F7"),
            (sub, true, "/parties/MSISDN/%2B26097/shop%2F7/error"),
        ] {
            let mut out = String::new();
            write_party_path(Resource::Parties, &party, error, &mut out);
            assert_eq!(out, path);
        }
    }

    #[test]
    fn paths_begin_at_the_resource() {
        for (id, error, path) in [
            (None, false, "/transfers"),
            (Some("a"), false, "/transfers/a"),
            (Some("a"), true, "/transfers/a/error"),
        ] {
            let mut out = String::new();
            write_path(Resource::Transfers, id, error, &mut out);
            assert_eq!(out, path);
        }
    }
}
