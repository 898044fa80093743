//! The frame of every page: navigation, banner, time and record; and the headers of an answer.

use askama::Template;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::header::{
    ACCEPT_LANGUAGE, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use upesi_admin::reads::{Parameters, ReadCall};
use upesi_admin::{AdminContext, ApiError, PageOperations, Reach};
use upesi_engine::Clock as _;
use upesi_ledger::Ledger;
use upesi_types::Timestamp;
use upesi_types::text::{Escaped, escape, path, url_part};

use crate::assets::{ICON_URL, STYLE_URL};
use crate::show;
use crate::table::{Order, Table};
use crate::words::{Words, fill};

/// Pages load their style sheet and nothing else, run no script, and are in no frame.
pub const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'";

/// The path of the overview. The paths of all pages begin with it.
pub const ROOT: &str = "/console";
/// The path of the login page and its form.
pub const LOGIN: &str = "/console/login";
/// The path for a user of an identity provider to log in again.
pub const LOGIN_AGAIN: &str = "/console/login/again";
/// The path of the form that ends a session.
pub const LOGOUT: &str = "/console/logout";

/// A section of the navigation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    Overview,
    Participants,
    Funds,
    Transfers,
    Callbacks,
    Settlement,
    Connections,
    Directory,
    Approvals,
    Operators,
    Audit,
    System,
}

impl Section {
    const ALL: [Self; 12] = [
        Self::Overview,
        Self::Participants,
        Self::Funds,
        Self::Transfers,
        Self::Callbacks,
        Self::Settlement,
        Self::Connections,
        Self::Directory,
        Self::Approvals,
        Self::Operators,
        Self::Audit,
        Self::System,
    ];

    /// The path of its first page.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Overview => ROOT,
            Self::Participants => "/console/participants",
            Self::Funds => "/console/funds",
            Self::Transfers => "/console/transfers",
            Self::Callbacks => "/console/callbacks",
            Self::Settlement => "/console/settlement",
            Self::Connections => "/console/connections",
            Self::Directory => "/console/directory",
            Self::Approvals => "/console/approvals",
            Self::Operators => "/console/operators",
            Self::Audit => "/console/audit",
            Self::System => "/console/system",
        }
    }

    /// The operation whose data it shows, and therefore its permission; `None` for all authenticated callers.
    pub const fn operation(self) -> Option<&'static str> {
        match self {
            Self::Overview => None,
            Self::Participants | Self::Funds => Some("/positions"),
            Self::Transfers => Some("/transfers"),
            Self::Callbacks => Some("/lanes"),
            Self::Settlement => Some("/v2/settlementWindows"),
            Self::Connections => Some("/participants"),
            Self::Directory => Some("/directory"),
            Self::Approvals => Some("/approvals"),
            Self::Operators => Some("/operators"),
            Self::Audit => Some("/audit"),
            Self::System => Some("/log-level"),
        }
    }

    const fn label(self, words: &Words) -> &'static str {
        match self {
            Self::Overview => words.nav_overview,
            Self::Participants => words.nav_participants,
            Self::Funds => words.nav_funds,
            Self::Transfers => words.nav_transfers,
            Self::Callbacks => words.nav_callbacks,
            Self::Settlement => words.nav_settlement,
            Self::Connections => words.nav_connections,
            Self::Directory => words.nav_directory,
            Self::Approvals => words.nav_approvals,
            Self::Operators => words.nav_operators,
            Self::Audit => words.nav_audit,
            Self::System => words.nav_system,
        }
    }
}

/// A request for a page.
pub struct PageCall {
    pub call: ReadCall,
    pub context: AdminContext,
    pub parameters: Parameters,
    reach: Reach,
    path: String,
    /// Whether a page of another site has the link that the user followed.
    pub is_from_another_site: bool,
    pub words: &'static Words,
    /// The operations of the API, for changes.
    pub operations: PageOperations,
}

impl FromRequestParts<AdminContext> for PageCall {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, context: &AdminContext) -> Result<Self, ApiError> {
        let Ok(call) = ReadCall::from_request_parts(parts, context).await;
        let Ok(reach) = Reach::from_request_parts(parts, context).await;
        let Ok(operations) = PageOperations::from_request_parts(parts, context).await;
        let parameters = Parameters::from_request_parts(parts, context).await?;
        let path = parts.uri.path().to_owned();
        let site = parts.headers.get("sec-fetch-site");
        let is_from_another_site = site.is_some_and(|site| site == "cross-site" || site == "same-site");
        let (context, words) = (context.clone(), Words::of(parts.headers.get(ACCEPT_LANGUAGE)));
        Ok(Self { call, context, parameters, reach, path, is_from_another_site, words, operations })
    }
}

/// The moment of a page: the hub's time, and the last record of the journal that it shows.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub at: Timestamp,
    pub record: u64,
}

impl PageCall {
    /// Whether the caller may use the operation `GET path`.
    pub fn may(&self, path: &str) -> bool {
        self.reach.may(self.call.caller(), path, None)
    }

    /// Whether the caller may use the operation `GET path` about a participant.
    pub fn may_about(&self, path: &str, name: &str) -> bool {
        self.reach.may(self.call.caller(), path, Some(name))
    }

    /// Whether the caller may use an operation that changes something, perhaps about a participant.
    ///
    /// # Errors
    /// The caller may not.
    pub fn check_change(
        &self,
        operation: (Method, &'static str),
        about: Option<&str>,
    ) -> Result<(), ApiError> {
        self.reach.check_change(self.call.caller(), operation, about)
    }

    /// Queries the durable state, and notes its record.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Ledger) -> T + Send + 'static,
    ) -> Result<(Stamp, T), ApiError> {
        let at = self.call.ask(move |ledger| (ledger.last_seq(), question(ledger))).await?;
        let (record, answer) = at;
        Ok((Stamp { at: self.now(), record }, answer))
    }

    /// The value of a parameter for a field of a form; empty without one.
    pub fn field(&self, name: &str) -> String {
        escape(self.parameters.get(name).unwrap_or_default()).into_owned()
    }

    pub fn now(&self) -> Timestamp {
        self.context.engine.clock().now()
    }

    /// The URL of this page with these parameters instead of its own ones of the same name.
    pub fn url_with(&self, changes: &[(&str, &str)]) -> String {
        let mut query: Vec<_> = self
            .parameters
            .pairs()
            .filter(|(name, _)| *name != "csv" && !changes.iter().any(|(changed, _)| changed == name))
            .collect();
        query.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        url(&self.path, &query)
    }

    /// Prepares the tables of the page: their order, the links of their headings, and the links of their exports.
    fn prepare(&self, tables: &mut [&mut Table]) {
        for table in tables {
            let name = table.name;
            let parameter = format!("sort-{name}");
            let order = self.parameters.get(&parameter);
            table.sort(order);
            table.csv = Some(self.url_with(&[("csv", name)]));
            for column in &mut table.columns {
                let current = match order {
                    Some(order) if order == column.key => Order::Rising,
                    Some(order) if order.strip_prefix('-') == Some(column.key) => Order::Falling,
                    _ => Order::None,
                };
                let falling = format!("-{}", column.key);
                // The greatest numbers are usually wanted first.
                let is_falling_next = match current {
                    Order::None => column.is_number,
                    Order::Rising => true,
                    Order::Falling => false,
                };
                let next = if is_falling_next { falling.as_str() } else { column.key };
                let url = format!("{}#{name}", self.url_with(&[(parameter.as_str(), next)]));
                column.sort = (table.rows.len() > 1).then_some((url, current));
            }
        }
    }

    /// Prepares the tables, and answers with one of them as CSV if the request asks for it.
    pub fn export(&self, stamp: Stamp, tables: &mut [&mut Table]) -> Option<Response> {
        self.prepare(tables);
        let wanted = self.parameters.get("csv")?;
        let table = tables.iter().find(|table| table.name == wanted)?;
        let time: String =
            stamp.at.to_string().chars().filter(char::is_ascii_alphanumeric).take(15).collect();
        let name = format!("upesi-{}-{time}-record-{}.csv", table.name, stamp.record);
        let mut response = table.to_csv().into_response();
        protect(&mut response);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/csv; charset=utf-8; header=present"));
        if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
            headers.insert(CONTENT_DISPOSITION, disposition);
        }
        Some(response)
    }

    /// The frame of the page; without a stamp if the page shows no data of the ledger.
    pub fn frame(&self, section: Section, title: &str, stamp: impl Into<Option<Stamp>>) -> Frame {
        let may = |one: &Section| one.operation().is_none_or(|operation| self.may(operation));
        let link = |one: Section| NavigationLink {
            href: one.path(),
            label: one.label(self.words),
            is_current: one == section,
        };
        let mut frame = Frame::bare(title, self.words);
        frame.navigation = Section::ALL.into_iter().filter(may).map(link).collect();
        frame.can_search = self.may("/transfers");
        frame.stamp = stamp.into().map(|stamp| StampText::of(stamp, self.words));
        frame.operator = self.call.caller().operator().to_owned();
        frame.can_log_out = self.call.caller().has_session();
        frame.own = self.call.caller().participant().map(|name| participant_url(name.as_str()));
        frame.off = self.protections_off();
        frame.follower = self.follower();
        frame
    }

    /// The protections that are switched off. Callers that belong to a participant do not learn them.
    fn protections_off(&self) -> Vec<&'static str> {
        if self.call.caller().participant().is_some() {
            return Vec::new();
        }
        let (words, access, rest) = (self.words, &self.context.access, self.context.protections);
        [
            (access.is_required(), words.off_authentication),
            (access.is_by_two(), words.off_second_person),
            (rest.has_admin_tls, words.off_admin_tls),
            (rest.has_fspiop_tls, words.off_fspiop_tls),
            (rest.verifies_signatures, words.off_signatures),
        ]
        .into_iter()
        .filter_map(|(is_on, text)| (!is_on).then_some(text))
        .collect()
    }

    fn follower(&self) -> Option<String> {
        let followed = self.context.followed.as_ref()?();
        let age = show::duration(i64::try_from(followed.age_ms?).ok()?, self.words);
        Some(fill(self.words.follower_banner, &[("age", &age)]))
    }
}

/// A path with a query.
pub fn url(path: &str, query: &[(&str, &str)]) -> String {
    let mut url = path.to_owned();
    for (index, (name, value)) in query.iter().enumerate() {
        url.push(if index == 0 { '?' } else { '&' });
        url.push_str(&format!("{}={}", url_part(name), url_part(value)));
    }
    url
}

/// The page of a participant.
pub fn participant_url(name: &str) -> String {
    path(&["console", "participants", name])
}

/// The page of a transfer.
pub fn transfer_url(id: &str) -> String {
    path(&["console", "transfers", id])
}

/// A link of the navigation.
#[derive(Debug)]
pub struct NavigationLink {
    pub href: &'static str,
    pub label: &'static str,
    pub is_current: bool,
}

/// A link to a form that changes something.
#[derive(Debug)]
pub struct ChangeLink {
    pub href: String,
    pub label: &'static str,
    /// What distinguishes it from another link with the same label.
    pub note: Option<String>,
}

/// The text of a [`Stamp`].
#[derive(Debug)]
pub struct StampText {
    pub time: String,
    pub machine_time: String,
    pub record: String,
}

impl StampText {
    fn of(stamp: Stamp, words: &Words) -> Self {
        Self {
            time: show::second(stamp.at, words),
            machine_time: stamp.at.to_string(),
            record: show::number(stamp.record, words),
        }
    }
}

/// What every page has.
#[derive(Debug)]
pub struct Frame {
    pub words: &'static Words,
    pub title: String,
    pub navigation: Vec<NavigationLink>,
    pub can_search: bool,
    /// The text in the search box.
    pub sought: String,
    pub stamp: Option<StampText>,
    /// Changes of the object of the page, which the operator may make.
    pub changes: Vec<ChangeLink>,
    pub operator: String,
    pub can_log_out: bool,
    /// The page of the operator's own DFSP.
    pub own: Option<String>,
    /// The protections that are switched off.
    pub off: Vec<&'static str>,
    /// The age of a follower's data.
    pub follower: Option<String>,
    pub style: &'static str,
    pub icon: &'static str,
}

impl Frame {
    /// A frame without data and links, for callers who may not be authenticated.
    pub fn bare(title: &str, words: &'static Words) -> Self {
        Self {
            words,
            title: title.to_owned(),
            navigation: Vec::new(),
            can_search: false,
            sought: String::new(),
            stamp: None,
            changes: Vec::new(),
            operator: String::new(),
            can_log_out: false,
            own: None,
            off: Vec::new(),
            follower: None,
            style: &STYLE_URL,
            icon: &ICON_URL,
        }
    }
}

/// A page as an answer.
///
/// # Errors
/// The template fails, which is a bug.
pub fn html(page: &impl Template) -> Result<Response, ApiError> {
    let text = page.render().map_err(|error| ApiError::fault(&error.to_string()))?;
    let mut response = text.into_response();
    protect(&mut response);
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, html);
    Ok(response)
}

/// Leads the browser to a page. The target must be a valid path with a query.
pub fn see_other(target: &str) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, target)]).into_response();
    protect(&mut response);
    response
}

/// Sets the headers of every page and export.
fn protect(response: &mut Response<Body>) {
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // With `no-referrer`, browsers send `Origin: null` with the search form, which the admin port rejects.
        (REFERRER_POLICY, "same-origin"),
        // A page is gone when its tab is closed.
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: Frame,
    description: Escaped<'a>,
    name: &'static str,
    status: u16,
    explanation: &'static str,
}

/// The page of an error: what happened, why, and what to do.
pub fn error_page(error: &ApiError, languages: Option<&HeaderValue>) -> Response<Body> {
    let words = Words::of(languages);
    let (title, explanation) = match error.status() {
        StatusCode::UNAUTHORIZED => (words.error_login_title, words.error_login),
        StatusCode::FORBIDDEN => (words.error_forbidden_title, words.error_forbidden),
        StatusCode::SERVICE_UNAVAILABLE => (words.error_busy_title, words.error_busy),
        status if status.is_client_error() => (words.error_request_title, words.error_request),
        _ => (words.error_hub_title, words.error_hub),
    };
    let status = error.status().as_u16();
    let description = Escaped(error.description());
    let page =
        ErrorPage { frame: Frame::bare(title, words), description, name: error.name(), status, explanation };
    html(&page).unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}
