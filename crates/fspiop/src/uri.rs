//! Paths of hub messages, and the URL templates that DFSPs register as their callback endpoints.

use alloc::string::String;

pub use crate::percent::{decode_segment, encode_segment};
use crate::{PartyPath, Resource};

/// Why a template cannot be filled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// `{{` without `}}` after it.
    #[error("the template has {{{{ without }}}} at byte {at}")]
    Unclosed {
        /// Where the placeholder begins.
        at: usize,
    },
    /// A placeholder that this kind of endpoint does not have.
    #[error("the template has an unknown placeholder '{name}'")]
    Unknown {
        /// The name between the braces.
        name: String,
    },
}

/// What a template may ask for, by the name between its braces.
pub trait TemplateValues {
    /// The text to put in, percent-encoded where it has to be; `None` for a name that there is nothing for.
    fn value(&self, name: &str) -> Option<&str>;
}

/// The id of the one thing that a message is about, under all the names that templates call it by.
impl TemplateValues for str {
    fn value(&self, name: &str) -> Option<&str> {
        ["transferId", "commitRequestId", "requestId", "id", "ID"].contains(&name).then_some(self)
    }
}

/// What the endpoints of account lookup may ask for.
#[derive(Clone, Copy, Debug)]
pub struct PartyValues<'a> {
    /// `{{partyIdType}}`, `{{partyIdentifier}}` and `{{partySubIdOrType}}`, also as `{{Type}}`, `{{ID}}` and `{{SubId}}`.
    /// A sub id that the message does not have is left empty.
    pub party: PartyPath<'a>,
    /// `{{fsp}}`: the participant that the message is for.
    pub receiver: &'a str,
}

impl TemplateValues for PartyValues<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        Some(match name {
            "partyIdType" | "Type" => self.party.kind.as_str(),
            "partyIdentifier" | "ID" => self.party.id,
            "partySubIdOrType" | "SubId" => self.party.sub_id.unwrap_or_default(),
            "fsp" => self.receiver,
            _ => return None,
        })
    }
}

/// Appends `template` to `out` with every placeholder (`{{transferId}}`, `{{ partyIdentifier }}`, two braces or three)
/// replaced by its value: an id, or [`PartyValues`].
///
/// Errors: an unclosed or unknown placeholder; `out` then holds the part before it.
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

/// Appends the URL of a message to a DFSP that registered only where its API begins, as for quotes: the base without its
/// trailing slashes, the path as [`write_path`] makes it, and the query with its question mark, if there is one.
pub fn append_to_base(base: &str, path: &str, query: Option<&str>, out: &mut String) {
    out.push_str(base.trim_end_matches('/'));
    out.push_str(path);
    if let Some(query) = query {
        out.push('?');
        out.push_str(query);
    }
}

/// Appends the path that `FSPIOP-URI` carries: `/transfers`, `/transfers/{id}` or `/transfers/{id}/error`. It never
/// holds the base path of the receiver's own URL.
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
