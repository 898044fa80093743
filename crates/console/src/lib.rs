#![doc = include_str!("../README.md")]

mod assets;
mod changes;
mod next;
mod page;
mod pages;
mod show;
pub mod story;
mod table;
mod words;

use upesi_admin::{PageTable, Pages};
use upesi_types::text::url_part;

pub use page::CONTENT_POLICY;
use page::{LOGIN, LOGIN_AGAIN, LOGOUT, ROOT, Section};
pub use words::{ENGLISH, Words};

/// The pages of the console, for the admin port.
pub const PAGES: Pages = Pages { root: ROOT, login: LOGIN, add, error: page::error_page };

/// The path of the page after a login by the identity provider with this label.
pub fn login_return_path(label: &str) -> String {
    format!("{LOGIN}/return/{}", url_part(label))
}

/// The link for a user of an identity provider to log in again, and then to come back to a page of the console. For
/// actions that need a recent login, if [`upesi_admin::Caller::login_provider`] names a provider. Other users type a
/// code instead.
pub fn login_again_url(next: &str) -> String {
    page::url(LOGIN_AGAIN, &[(upesi_admin::NEXT, next)])
}

/// Each page has the guard of the operation whose data it shows.
fn add(table: PageTable) -> PageTable {
    let like = |section: Section| section.operation().unwrap_or("/enums");
    table
        .file("/console/assets/{file}", assets::get)
        .login(LOGIN, pages::login::show)
        .login_form(LOGIN, pages::login::submit)
        .login("/console/login/with/{provider}", pages::provider_login::begin)
        .login(LOGIN_AGAIN, pages::provider_login::again)
        .login("/console/login/return/{provider}", pages::provider_login::finish)
        .common_form(LOGOUT, pages::login::end)
        .common(ROOT, pages::overview::show)
        .common("/console/changes/{kind}", changes::show)
        .common_form("/console/changes/{kind}", changes::submit)
        .page("/console/participants", like(Section::Participants), pages::participants::list)
        .page("/console/participants/{name}", "/participants/{name}", pages::participants::show)
        .page("/console/funds", like(Section::Funds), pages::funds::show)
        .page("/console/transfers", like(Section::Transfers), pages::transfers::list)
        .form("/console/transfers", like(Section::Transfers), pages::transfers::search)
        .page("/console/transfers/{id}", "/transfers/{id}", pages::transfer::show)
        .page("/console/callbacks", like(Section::Callbacks), pages::callbacks::show)
        .page("/console/settlement", like(Section::Settlement), pages::settlement::list)
        .page("/console/windows/{id}", "/v2/settlementWindows/{id}", pages::settlement::window)
        .page("/console/settlements/{id}", "/v2/settlements/{id}", pages::settlement::settlement)
        .page("/console/connections", like(Section::Connections), pages::connections::show)
        .page("/console/directory", like(Section::Directory), pages::directory::show)
        .page("/console/operators", like(Section::Operators), pages::operators::show)
        .page("/console/approvals", like(Section::Approvals), pages::approvals::show)
        .page("/console/audit", like(Section::Audit), pages::audit::show)
        .page("/console/system", like(Section::System), pages::system::show)
}
