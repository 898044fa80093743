//! Paths of hub messages, and the URL templates that DFSPs register as their callback endpoints.

use alloc::string::String;

use crate::Resource;

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

/// Names under which templates call the id of the one thing a message is about.
const ID_NAMES: [&str; 4] = ["transferId", "commitRequestId", "id", "ID"];

/// Appends `template` to `out` with every placeholder for the message's id (`{{transferId}}`, `{{ commitRequestId }}`,
/// `{{id}}`, `{{ID}}`, two braces or three) replaced by `id`.
///
/// Errors: an unclosed or unknown placeholder; `out` then holds the part before it.
pub fn fill_template(template: &str, id: &str, out: &mut String) -> Result<(), TemplateError> {
    let mut rest = template;
    while let Some(open) = rest.find("{{") {
        let (before, placeholder) = rest.split_at(open);
        out.push_str(before);
        let (braces, close) = if placeholder.starts_with("{{{") { (3, "}}}") } else { (2, "}}") };
        let Some(length) = placeholder[braces..].find(close) else {
            return Err(TemplateError::Unclosed { at: template.len() - placeholder.len() });
        };
        let name = placeholder[braces..braces + length].trim();
        if !ID_NAMES.contains(&name) {
            return Err(TemplateError::Unknown { name: String::from(name) });
        }
        out.push_str(id);
        rest = &placeholder[braces + length + close.len()..];
    }
    out.push_str(rest);
    Ok(())
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
