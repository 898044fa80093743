//! The table of resources: every family with its paths, methods, statuses, versions and metric labels.
//!
//! Routing, the `Allow` header, `GET /`, the labels of metrics and the check of the OpenAPI document are derived from
//! it. A family without paths is not implemented: every request about it is answered 501 with 2002.

use alloc::string::String;
use alloc::vec::Vec;

use crate::Version;

/// The methods of the FSPIOP API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Queries the state of an object.
    Get,
    /// Starts something.
    Post,
    /// Answers a `POST` or a `GET`.
    Put,
    /// Reports the outcome of its reservation to a payee.
    Patch,
    /// Withdraws something.
    Delete,
}

impl Method {
    /// Reads an upper-case method name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "GET" => Self::Get,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            _ => return None,
        })
    }

    /// The upper-case name, as in `FSPIOP-HTTP-Method`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

macro_rules! resources {
    ($($name:ident = $text:literal, since $since:ident, $doc:literal;)*) => {
        /// A resource family: the first segment of the path and the name inside the media type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Resource {
            $(#[doc = $doc] $name,)*
        }

        impl Resource {
            /// Every family.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name in paths and media types, such as `transfers`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Reads the first segment of a path.
            pub fn parse(segment: &str) -> Option<Self> {
                match segment { $($text => Some(Self::$name),)* _ => None }
            }

            /// The version of the API that introduced the family.
            pub const fn since(self) -> Version {
                match self { $(Self::$name => Version::$since,)* }
            }
        }
    };
}

resources! {
    Transfers = "transfers", since V1_0, "Movement of money between two DFSPs.";
    Participants = "participants", since V1_0, "The DFSP that serves a party.";
    Parties = "parties", since V1_0, "Information about a party.";
    Quotes = "quotes", since V1_0, "The terms of one payment.";
    BulkQuotes = "bulkQuotes", since V1_0, "The terms of many payments.";
    BulkTransfers = "bulkTransfers", since V1_0, "Many transfers at once.";
    FxQuotes = "fxQuotes", since V2_0, "The terms of a currency conversion.";
    FxTransfers = "fxTransfers", since V2_0, "A currency conversion.";
    TransactionRequests = "transactionRequests", since V1_0, "A payee's request to be paid.";
    Authorizations = "authorizations", since V1_0, "A payer's consent, entered at a device of the payee.";
    Services = "services", since V2_0, "The providers of a service to DFSPs.";
}

/// The status that marks requests that only hubs send. A DFSP that sends one receives 501.
const HUBS_ONLY: u16 = 501;

const GET: &[(Method, u16)] = &[(Method::Get, 202)];
const GET_PUT: &[(Method, u16)] = &[(Method::Get, 202), (Method::Put, 200)];
const MONEY_ITEM: &[(Method, u16)] = &[(Method::Get, 202), (Method::Put, 200), (Method::Patch, HUBS_ONLY)];
const REGISTRATION: &[(Method, u16)] =
    &[(Method::Get, 202), (Method::Post, 202), (Method::Put, 200), (Method::Delete, 202)];
const POST: &[(Method, u16)] = &[(Method::Post, 202)];
const PUT: &[(Method, u16)] = &[(Method::Put, 200)];

/// Every path of the API, with the statuses of a successful request (FSPIOP API v1.1 §3.2.3).
pub static PATHS: [ResourcePath; 36] = {
    use Resource::*;
    use Shape::*;
    [
        path(Participants, Family, "/participants", &[(Method::Post, 200)]),
        path(Participants, Item, "/participants/{ID}", &[(Method::Put, HUBS_ONLY)])
            .counted_as("participants/{Type}/{ID}"),
        path(Participants, ItemError, "/participants/{ID}/error", &[(Method::Put, HUBS_ONLY)])
            .counted_as("participants/{Type}/{ID}"),
        path(Participants, Party, "/participants/{Type}/{ID}", REGISTRATION),
        path(Participants, PartyError, "/participants/{Type}/{ID}/error", PUT),
        path(Participants, SubParty, "/participants/{Type}/{ID}/{SubId}", REGISTRATION)
            .counted_as("participants/{Type}/{ID}"),
        path(Participants, SubPartyError, "/participants/{Type}/{ID}/{SubId}/error", PUT)
            .counted_as("participants/{Type}/{ID}/error"),
        path(Parties, Party, "/parties/{Type}/{ID}", GET_PUT),
        path(Parties, PartyError, "/parties/{Type}/{ID}/error", PUT),
        path(Parties, SubParty, "/parties/{Type}/{ID}/{SubId}", GET_PUT).counted_as("parties/{Type}/{ID}"),
        path(Parties, SubPartyError, "/parties/{Type}/{ID}/{SubId}/error", PUT)
            .counted_as("parties/{Type}/{ID}/error"),
        path(Quotes, Family, "/quotes", POST),
        path(Quotes, Item, "/quotes/{ID}", GET_PUT),
        path(Quotes, ItemError, "/quotes/{ID}/error", PUT),
        path(BulkQuotes, Family, "/bulkQuotes", POST),
        path(BulkQuotes, Item, "/bulkQuotes/{ID}", GET_PUT),
        path(BulkQuotes, ItemError, "/bulkQuotes/{ID}/error", PUT),
        path(BulkTransfers, Family, "/bulkTransfers", POST),
        path(BulkTransfers, Item, "/bulkTransfers/{ID}", GET_PUT),
        path(BulkTransfers, ItemError, "/bulkTransfers/{ID}/error", PUT),
        path(FxQuotes, Family, "/fxQuotes", POST),
        path(FxQuotes, Item, "/fxQuotes/{ID}", GET_PUT),
        path(FxQuotes, ItemError, "/fxQuotes/{ID}/error", PUT),
        path(FxTransfers, Family, "/fxTransfers", POST),
        path(FxTransfers, Item, "/fxTransfers/{ID}", MONEY_ITEM),
        path(FxTransfers, ItemError, "/fxTransfers/{ID}/error", PUT),
        path(TransactionRequests, Family, "/transactionRequests", POST),
        path(TransactionRequests, Item, "/transactionRequests/{ID}", GET_PUT),
        path(TransactionRequests, ItemError, "/transactionRequests/{ID}/error", PUT),
        // An authorization is requested with a GET.
        path(Authorizations, Item, "/authorizations/{ID}", GET_PUT),
        path(Authorizations, ItemError, "/authorizations/{ID}/error", PUT),
        path(Services, Service, "/services/FXP", GET),
        path(Services, ServiceOfPair, "/services/FXP/{SourceCurrency}/{TargetCurrency}", GET),
        path(Transfers, Family, "/transfers", POST),
        path(Transfers, Item, "/transfers/{ID}", MONEY_ITEM),
        path(Transfers, ItemError, "/transfers/{ID}/error", PUT),
    ]
};

/// The meaning of the segments after the family's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// No segments.
    Family,
    /// `{ID}`
    Item,
    /// `{ID}/error`
    ItemError,
    /// `{Type}/{ID}`
    Party,
    /// `{Type}/{ID}/error`
    PartyError,
    /// `{Type}/{ID}/{SubId}`
    SubParty,
    /// `{Type}/{ID}/{SubId}/error`
    SubPartyError,
    /// `FXP`
    Service,
    /// `FXP/{SourceCurrency}/{TargetCurrency}`
    ServiceOfPair,
}

impl Shape {
    const COUNT: usize = 9;

    const fn is_error(self) -> bool {
        matches!(self, Self::ItemError | Self::PartyError | Self::SubPartyError)
    }
}

/// A path of the API with its methods.
#[derive(Debug, PartialEq, Eq)]
pub struct ResourcePath {
    resource: Resource,
    shape: Shape,
    template: &'static str,
    label: &'static str,
    methods: &'static [(Method, u16)],
}

const fn path(
    resource: Resource,
    shape: Shape,
    template: &'static str,
    methods: &'static [(Method, u16)],
) -> ResourcePath {
    let label = template.split_at(1).1;
    ResourcePath { resource, shape, template, label, methods }
}

impl ResourcePath {
    /// Sets a label that differs from the template.
    const fn counted_as(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// The family, which the media types of the request must also name.
    pub const fn resource(&self) -> Resource {
        self.resource
    }

    /// The path with named parameters, such as `/quotes/{ID}`.
    pub const fn template(&self) -> &'static str {
        self.template
    }

    /// The methods, in the format of the `Allow` header.
    pub fn allow(&self) -> String {
        join(self.methods.iter().map(|(method, _)| *method))
    }

    /// The methods that DFSPs may use, in the same format; empty if there are none.
    pub fn served_methods(&self) -> String {
        join(self.methods.iter().filter(|(_, status)| *status != HUBS_ONLY).map(|(method, _)| *method))
    }
}

fn join(methods: impl Iterator<Item = Method>) -> String {
    methods.map(Method::as_str).collect::<Vec<_>>().join(", ")
}

/// A method on a path of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    row: u8,
    column: u8,
}

/// The meaning of an operation: its method, with error callbacks as a separate action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `GET`: queries the state of an object, the DFSP of a party, or information about a party.
    Get,
    /// `POST`: starts something; for participants, registers a party.
    Post,
    /// `PUT`: answers a `POST` or `GET`; for participants, changes the DFSP of a party.
    Put,
    /// `PUT …/error`: answers a `POST` or `GET` that failed.
    PutError,
    /// `PATCH`: reports the outcome of a reservation.
    Patch,
    /// `DELETE`: ends the registration of a party.
    Delete,
}

impl Operation {
    /// The highest [`Self::number`] plus one.
    pub const COUNT: usize = PATHS.len() * METHODS_MAX;

    /// Every operation of the API.
    pub fn all() -> impl Iterator<Item = Self> {
        let rows = PATHS.iter().zip(0..);
        rows.flat_map(|(path, row)| (0..).take(path.methods.len()).map(move |column| Self { row, column }))
    }

    /// The operation of a method on the path of a family with this shape. Returns the path in `Err` if it does not have
    /// the method.
    pub(crate) fn find(
        resource: Resource,
        shape: Shape,
        method: Option<Method>,
    ) -> Option<Result<Self, &'static ResourcePath>> {
        let row = ROW_OF[resource as usize][shape as usize];
        let path = PATHS.get(usize::from(row))?;
        let column = path.methods.iter().position(|(known, _)| Some(*known) == method);
        // At most METHODS_MAX, which is checked for the table.
        Some(column.map(|column| Self { row, column: column as u8 }).ok_or(path))
    }

    pub fn path(self) -> &'static ResourcePath {
        &PATHS[usize::from(self.row)]
    }

    /// The operation's family.
    pub fn resource(self) -> Resource {
        self.path().resource
    }

    pub fn method(self) -> Method {
        self.path().methods[usize::from(self.column)].0
    }

    /// The status of a successful response; 501 if only hubs send the request.
    pub fn success_status(self) -> u16 {
        self.path().methods[usize::from(self.column)].1
    }

    /// Whether DFSPs may send it.
    pub fn is_served(self) -> bool {
        self.success_status() != HUBS_ONLY
    }

    /// The meaning of the operation.
    pub fn action(self) -> Action {
        match self.method() {
            Method::Get => Action::Get,
            Method::Post => Action::Post,
            Method::Put if self.path().shape.is_error() => Action::PutError,
            Method::Put => Action::Put,
            Method::Patch => Action::Patch,
            Method::Delete => Action::Delete,
        }
    }

    /// Whether it concerns the family, not one object or party.
    pub fn is_about_family(self) -> bool {
        self.path().shape == Shape::Family
    }

    /// The path in metrics, with named parameters. Paths with and without a sub id have the same label.
    pub fn label(self) -> &'static str {
        self.path().label
    }

    /// A unique number of the operation, for use as a table index.
    pub const fn number(self) -> usize {
        self.row as usize * METHODS_MAX + self.column as usize
    }
}

const METHODS_MAX: usize = 4;
const NO_ROW: u8 = u8::MAX;

/// The row of each family's path of each shape; [`NO_ROW`] if there is none.
static ROW_OF: [[u8; Shape::COUNT]; Resource::ALL.len()] = {
    let mut rows = [[NO_ROW; Shape::COUNT]; Resource::ALL.len()];
    let mut row = 0;
    while row < PATHS.len() {
        let path = &PATHS[row];
        assert!(path.methods.len() <= METHODS_MAX, "more methods than METHODS_MAX");
        let place = &mut rows[path.resource as usize][path.shape as usize];
        assert!(*place == NO_ROW, "a family has two paths of one shape");
        *place = row as u8;
        row += 1;
    }
    rows
};

impl Resource {
    /// Whether requests of this family change balances. Such requests go to the ledger, and the journal stores their
    /// bodies.
    pub const fn moves_money(self) -> bool {
        matches!(self, Self::Transfers | Self::BulkTransfers | Self::FxTransfers)
    }

    /// Whether a request of this family moves money for at most one payment. A bulk transfer has up to a thousand.
    pub const fn moves_money_once(self) -> bool {
        matches!(self, Self::Transfers | Self::FxTransfers)
    }

    /// Whether this is a family of quoting. Its messages always have a DFSP as destination.
    pub const fn is_quoting(self) -> bool {
        matches!(self, Self::Quotes | Self::BulkQuotes | Self::FxQuotes)
    }

    /// Whether this is a family of payment requests. Mojaloop serves them with a separate service that has its own
    /// error texts.
    pub const fn is_payment_request(self) -> bool {
        matches!(self, Self::TransactionRequests | Self::Authorizations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Route;

    #[test]
    fn names_round_trip() {
        for &resource in Resource::ALL {
            assert_eq!(Resource::parse(resource.as_str()), Some(resource));
        }
        for method in [Method::Get, Method::Post, Method::Put, Method::Patch, Method::Delete] {
            assert_eq!(Method::parse(method.as_str()), Some(method));
        }
    }

    #[test]
    fn each_template_is_a_path_of_its_own_row() {
        for operation in Operation::all() {
            let template = operation.path().template();
            let route = Route::resolve(Some(operation.method()), template).unwrap();
            assert_eq!(route.operation, operation, "{template}");
            assert_eq!(template.split('/').nth(1), Some(operation.resource().as_str()), "{template}");
            assert_eq!(operation.action() == Action::PutError, template.ends_with("/error"), "{template}");
        }
        assert!(Operation::all().all(|operation| operation.number() < Operation::COUNT));
    }

    #[test]
    fn labels_are_templates_without_sub_ids() {
        for operation in Operation::all() {
            let template = operation.path().template().trim_start_matches('/').replace("/{SubId}", "");
            let is_batch = template.starts_with("participants/{ID}");
            let expected = if is_batch { "participants/{Type}/{ID}" } else { &template };
            assert_eq!(operation.label(), expected);
        }
    }

    #[test]
    fn every_family_has_paths() {
        let has_path = |resource: &&Resource| PATHS.iter().any(|path| path.resource == **resource);
        assert_eq!(Resource::ALL.iter().filter(has_path).count(), Resource::ALL.len());
    }

    #[test]
    fn methods_are_listed_in_one_order() {
        let transfer = PATHS.iter().find(|path| path.template() == "/transfers/{ID}").unwrap();
        assert_eq!(
            (transfer.allow(), transfer.served_methods()),
            ("GET, PUT, PATCH".into(), "GET, PUT".into())
        );
        let batch = PATHS.iter().find(|path| path.template() == "/participants/{ID}").unwrap();
        assert_eq!((batch.allow(), batch.served_methods()), ("PUT".into(), String::new()));
    }
}
