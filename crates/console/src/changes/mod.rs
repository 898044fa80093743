//! Changes by forms: a form, a preview of the effect, and the change itself. Each change is a request to an operation
//! of the API, so the console has no permission and no rule of its own.

mod fields;
mod form;
mod kind;
mod request;

pub use form::{show, submit};
pub use kind::Kind;

use crate::page::{ChangeLink, PageCall};

/// Whether the caller may make a change of this kind, perhaps about a participant.
pub fn may(page: &PageCall, kind: Kind, about: Option<&str>) -> bool {
    page.check_change(kind.operation(), about).is_ok()
}

/// The links to forms that the caller may use, about a participant or about none.
pub fn links(page: &PageCall, about: Option<&str>, forms: &[(Kind, &[(&str, &str)])]) -> Vec<ChangeLink> {
    let forms = forms.iter().filter(|(kind, _)| may(page, *kind, about));
    forms
        .map(|(kind, subject)| ChangeLink {
            href: kind.url(subject),
            label: kind.title(page.words),
            note: None,
        })
        .collect()
}
