//! What the gateway counts.
//!
//! | name | labels | what |
//! |---|---|---|
//! | `upesi_http_requests_total` | `method`, `resource`, `status` | answers |
//! | `upesi_http_request_duration_seconds` | `method`, `resource` | from the end of the head to the answer |
//! | `upesi_fspiop_refusals_total` | `code` | errors answered at once, by FSPIOP code |
//! | `moja_ml_transfer_prepare`, `…_fulfil`, `…_fulfil_error`, `…_get` | `serviceName`, `success` | the same durations under the names of the community's dashboards |
//! | `moja_als_ing_…PartiesByTypeAndID`, `moja_qs_quotes_…` | `success` | the same of lookups and quotes |

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use upesi_fspiop::{Method as FspiopMethod, Operation, PartyOperation, Resource, Route, SyncError};

/// Upper bounds in seconds, those of the community's dashboards.
const COMMUNITY_BUCKETS: [f64; 7] = [0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0];
/// Upper bounds in seconds, fine where a hub on a good disk answers.
const BUCKETS: [f64; 14] =
    [0.0002, 0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    resource: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    method: &'static str,
    resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Success {
    success: &'static str,
}

type Durations<L> = Family<L, Histogram, fn() -> Histogram>;

/// What a request counts as; never made of what a sender can choose freely.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Labels {
    pub(crate) method: &'static str,
    pub(crate) resource: &'static str,
}

impl Labels {
    pub(crate) fn new(method: &Method, resource: &'static str) -> Self {
        let known = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD];
        let names = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"];
        let position = known.iter().position(|known| known == method);
        Self { method: position.map_or("other", |position| names[position]), resource }
    }
}

/// The requests about transfers, as metrics tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferCall {
    Prepare,
    Fulfil,
    Abort,
    Get,
    Patch,
}

impl TransferCall {
    pub(crate) const fn of(operation: Operation<'_>) -> Self {
        match operation {
            Operation::Create => Self::Prepare,
            Operation::Put(_) => Self::Fulfil,
            Operation::PutError(_) => Self::Abort,
            Operation::Get(_) => Self::Get,
            Operation::Patch(_) => Self::Patch,
        }
    }

    /// The status of a success (FSPIOP API v1.1 §3.2.3).
    pub(crate) const fn success(self) -> StatusCode {
        match self {
            Self::Prepare | Self::Get => StatusCode::ACCEPTED,
            Self::Fulfil | Self::Abort | Self::Patch => StatusCode::OK,
        }
    }

    pub(crate) const fn labels(self) -> Labels {
        let (method, resource) = match self {
            Self::Prepare => ("POST", "transfers"),
            Self::Fulfil => ("PUT", "transfers/{ID}"),
            Self::Abort => ("PUT", "transfers/{ID}/error"),
            Self::Get => ("GET", "transfers/{ID}"),
            Self::Patch => ("PATCH", "transfers/{ID}"),
        };
        Labels { method, resource }
    }
}

/// The requests that conversations take, as metrics tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConversationCall {
    method: FspiopMethod,
    resource: Resource,
    shape: Shape,
    /// The status of a success.
    pub(crate) success: StatusCode,
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Family,
    Item,
    Error,
}

impl ConversationCall {
    const METHODS: usize = 5;
    const SHAPES: usize = 3;
    const COUNT: usize = Resource::ALL.len() * Self::SHAPES * Self::METHODS;

    const fn index(self) -> usize {
        (self.resource as usize * Self::SHAPES + self.shape as usize) * Self::METHODS + self.method as usize
    }

    pub(crate) fn of(route: &Route<'_>) -> Self {
        let shape = match route {
            Route::ParticipantsBatch | Route::ById { operation: Operation::Create, .. } => Shape::Family,
            Route::ById { operation: Operation::PutError(_), .. }
            | Route::ByParty { operation: PartyOperation::PutError, .. } => Shape::Error,
            _ => Shape::Item,
        };
        let success = StatusCode::from_u16(route.success_status()).unwrap_or(StatusCode::ACCEPTED);
        Self { method: route.method(), resource: route.resource(), shape, success }
    }

    /// The path with its parts named, never with their values.
    pub(crate) const fn labels(self) -> Labels {
        let [family, item, error] = match self.resource {
            Resource::Participants => {
                ["participants", "participants/{Type}/{ID}", "participants/{Type}/{ID}/error"]
            }
            Resource::Parties => ["parties", "parties/{Type}/{ID}", "parties/{Type}/{ID}/error"],
            Resource::Quotes => ["quotes", "quotes/{ID}", "quotes/{ID}/error"],
            Resource::BulkQuotes => ["bulkQuotes", "bulkQuotes/{ID}", "bulkQuotes/{ID}/error"],
            Resource::FxQuotes => ["fxQuotes", "fxQuotes/{ID}", "fxQuotes/{ID}/error"],
            Resource::TransactionRequests => {
                ["transactionRequests", "transactionRequests/{ID}", "transactionRequests/{ID}/error"]
            }
            Resource::Authorizations => {
                ["authorizations", "authorizations/{ID}", "authorizations/{ID}/error"]
            }
            Resource::Transfers | Resource::BulkTransfers | Resource::FxTransfers => ["other"; 3],
        };
        let resource = match self.shape {
            Shape::Family => family,
            Shape::Item => item,
            Shape::Error => error,
        };
        Labels { method: self.method.as_str(), resource }
    }

    /// Which of [`COMMUNITY_CALLS`] it is.
    fn community(self) -> Option<usize> {
        match (self.method, self.resource, self.shape) {
            (FspiopMethod::Get, Resource::Parties, Shape::Item) => Some(0),
            (FspiopMethod::Put, Resource::Parties, Shape::Item) => Some(1),
            (FspiopMethod::Put, Resource::Parties, Shape::Error) => Some(2),
            (FspiopMethod::Post, Resource::Quotes, Shape::Family) => Some(3),
            (FspiopMethod::Get, Resource::Quotes, Shape::Item) => Some(4),
            (FspiopMethod::Put, Resource::Quotes, Shape::Item) => Some(5),
            (FspiopMethod::Put, Resource::Quotes, Shape::Error) => Some(6),
            _ => None,
        }
    }
}

/// Conversations that the community's dashboards show, and what they call them. Paths with a sub-id are counted with
/// those without.
const COMMUNITY_CALLS: [(&str, &str); 7] = [
    ("moja_als_ing_getPartiesByTypeAndID", "Duration of GET /parties/{Type}/{ID}"),
    ("moja_als_ing_putPartiesByTypeAndID", "Duration of PUT /parties/{Type}/{ID}"),
    ("moja_als_ing_putPartiesErrorByTypeAndID", "Duration of PUT /parties/{Type}/{ID}/error"),
    ("moja_qs_quotes_post", "Duration of POST /quotes"),
    ("moja_qs_quotes_id_get", "Duration of GET /quotes/{ID}"),
    ("moja_qs_quotes_id_put", "Duration of PUT /quotes/{ID}"),
    ("moja_qs_quotes_id_put_error", "Duration of PUT /quotes/{ID}/error"),
];

/// The process of the reference hub that takes transfers: the community's dashboards select by it.
const TRANSFERS_SERVICE: (Cow<'static, str>, Cow<'static, str>) =
    (Cow::Borrowed("serviceName"), Cow::Borrowed("ml-service"));

/// Handles of one kind of call, looked up once.
#[derive(Debug)]
struct CallMetrics {
    succeeded: Counter,
    duration: Histogram,
    /// Under the community's name, of successes and of refusals.
    community: Option<[Histogram; 2]>,
}

/// All metrics of the gateway, registered in a registry.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    /// Whether requests are counted and timed; refusals always are counted.
    records: bool,
    requests: Family<Answered, Counter>,
    durations: Durations<Asked>,
    refusals: Family<Refused, Counter>,
    /// In the order of [`TransferCall`].
    calls: [CallMetrics; 5],
    /// In the order of [`COMMUNITY_CALLS`].
    community: [[Histogram; 2]; COMMUNITY_CALLS.len()],
    /// By [`ConversationCall::index`], looked up when first needed, so that what is never called is not shown.
    conversations: [OnceLock<CallMetrics>; ConversationCall::COUNT],
}

impl GatewayMetrics {
    pub(crate) fn register(registry: &mut Registry, records: bool) -> Self {
        let requests = Family::<Answered, Counter>::default();
        let durations =
            Durations::<Asked>::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let refusals = Family::<Refused, Counter>::default();
        registry.register("upesi_http_requests", "Answers to HTTP requests", requests.clone());
        registry.register(
            "upesi_http_request_duration_seconds",
            "Time from the end of a request's head to its answer",
            durations.clone(),
        );
        registry.register(
            "upesi_fspiop_refusals",
            "Requests answered at once with an FSPIOP error, by code",
            refusals.clone(),
        );
        let services = registry.sub_registry_with_label(TRANSFERS_SERVICE);
        let calls = [
            (TransferCall::Prepare, Some(("moja_ml_transfer_prepare", "Duration of POST /transfers"))),
            (TransferCall::Fulfil, Some(("moja_ml_transfer_fulfil", "Duration of PUT /transfers/{ID}"))),
            (
                TransferCall::Abort,
                Some(("moja_ml_transfer_fulfil_error", "Duration of PUT /transfers/{ID}/error")),
            ),
            (TransferCall::Get, Some(("moja_ml_transfer_get", "Duration of GET /transfers/{ID}"))),
            (TransferCall::Patch, None),
        ]
        .map(|(call, community)| {
            let Labels { method, resource } = call.labels();
            let status = call.success().as_u16();
            CallMetrics {
                succeeded: requests.get_or_create_owned(&Answered { method, resource, status }),
                duration: durations.get_or_create_owned(&Asked { method, resource }),
                community: community.map(|(name, help)| register_community(services, name, help)),
            }
        });
        let community = COMMUNITY_CALLS.map(|(name, help)| register_community(registry, name, help));
        let conversations = [const { OnceLock::new() }; ConversationCall::COUNT];
        Self { records, requests, durations, refusals, calls, community, conversations }
    }

    /// Counts an answer about transfers.
    pub(crate) fn count_transfer(
        &self,
        call: TransferCall,
        outcome: Result<(), &SyncError>,
        duration: Duration,
    ) {
        self.count(&self.calls[call as usize], call.labels(), outcome, duration);
    }

    /// Counts an answer about anything but transfers.
    pub(crate) fn count_conversation(
        &self,
        call: ConversationCall,
        outcome: Result<(), &SyncError>,
        duration: Duration,
    ) {
        let metrics = self.conversations[call.index()].get_or_init(|| self.conversation(call));
        self.count(metrics, call.labels(), outcome, duration);
    }

    fn count(
        &self,
        metrics: &CallMetrics,
        labels: Labels,
        outcome: Result<(), &SyncError>,
        duration: Duration,
    ) {
        if !self.records {
            return;
        }
        let seconds = duration.as_secs_f64();
        metrics.duration.observe(seconds);
        if let Some([succeeded, refused]) = &metrics.community {
            if outcome.is_ok() { succeeded } else { refused }.observe(seconds);
        }
        match outcome {
            Ok(()) => {
                metrics.succeeded.inc();
            }
            Err(error) => {
                self.count_status(labels, error.status);
                self.count_refusal(error);
            }
        }
    }

    fn conversation(&self, call: ConversationCall) -> CallMetrics {
        let Labels { method, resource } = call.labels();
        let status = call.success.as_u16();
        CallMetrics {
            succeeded: self.requests.get_or_create_owned(&Answered { method, resource, status }),
            duration: self.durations.get_or_create_owned(&Asked { method, resource }),
            community: call.community().map(|index| self.community[index].clone()),
        }
    }

    /// Counts any other answer.
    pub(crate) fn count_other(&self, labels: Labels, status: StatusCode, duration: Duration) {
        let Labels { method, resource } = labels;
        self.count_status(labels, status.as_u16());
        self.durations.get_or_create(&Asked { method, resource }).observe(duration.as_secs_f64());
    }

    /// Counts a request that was refused by its head. It is in no duration: those are of requests that were taken.
    pub(crate) fn count_turned_away(&self, labels: Labels, error: &SyncError) {
        self.count_status(labels, error.status);
        self.count_refusal(error);
    }

    /// Counts an error by its code.
    pub(crate) fn count_refusal(&self, error: &SyncError) {
        self.refusals.get_or_create(&Refused { code: error.code.number() }).inc();
    }

    fn count_status(&self, Labels { method, resource }: Labels, status: u16) {
        self.requests.get_or_create(&Answered { method, resource, status }).inc();
    }
}

fn register_community(registry: &mut Registry, name: &str, help: &str) -> [Histogram; 2] {
    let family = Durations::<Success>::new_with_constructor(
        (|| Histogram::new(COMMUNITY_BUCKETS)) as fn() -> Histogram,
    );
    registry.register(name, help, family.clone());
    ["true", "false"].map(|success| family.get_or_create_owned(&Success { success }))
}
