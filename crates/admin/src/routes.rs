//! The table of operations: path, method, required permissions, reach, and handler.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};

use crate::access::Permission;
use crate::access::Permission::*;
use crate::call::DataScope::{Named, Own, Scheme};
use crate::call::RequiredPermission::{Identity, Nothing, OneOf};
use crate::call::{DataScope, Guard, RequiredPermission, admit};
use crate::change_sets::Operations;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::page_paths::PagePaths;
use crate::pages::{Guards, PageTable, Pages, Reach};
use crate::{
    accounts, approvals, audit, callbacks, change_sets, directory, endpoints, enums, fee_rules, find, funds,
    health, lanes, limits, operations, operators, oracles, participants, progress, quotes, sessions,
    settlement_models, settlement_windows, settlements, signature_keys, transfers,
};

const GET: Method = Method::GET;
const POST: Method = Method::POST;
const PUT: Method = Method::PUT;
const DELETE: Method = Method::DELETE;

/// An operation and its permissions, for documents and tests.
#[derive(Clone, Debug)]
pub struct Operation {
    pub method: Method,
    /// The path, with names of variable segments in braces.
    pub path: &'static str,
    /// One of these permissions is needed; if empty, the operation is open to all callers or to all authenticated ones.
    pub permissions: Vec<&'static str>,
    /// Whether callers need not authenticate.
    pub is_open: bool,
    /// Whether a DFSP's operators may use it for data of their DFSP.
    pub is_for_dfsps: bool,
}

impl Operation {
    fn new(method: Method, path: &'static str, needs: RequiredPermission, reach: DataScope) -> Self {
        let permissions = match needs {
            RequiredPermission::OneOf(permissions) => {
                permissions.iter().map(|permission| permission.name()).collect()
            }
            RequiredPermission::Nothing | RequiredPermission::Identity => Vec::new(),
        };
        let is_for_dfsps = reach != DataScope::Scheme || permissions.is_empty();
        Self { method, path, permissions, is_open: needs == RequiredPermission::Nothing, is_for_dfsps }
    }
}

/// Marks the answer to a request without an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoOperation;

/// A router that guards each operation.
pub(crate) struct Table {
    router: Router<AdminContext>,
    context: AdminContext,
    operations: Vec<Operation>,
    /// The guards of the operations.
    pub(crate) guards: Guards,
    pub(crate) pages: PagePaths,
}

impl Table {
    fn new(context: AdminContext) -> Self {
        Self {
            router: Router::new(),
            context,
            operations: Vec::new(),
            guards: Guards::default(),
            pages: PagePaths::default(),
        }
    }

    fn add<H, T>(
        mut self,
        (path, method): (&'static str, Method),
        guard: (RequiredPermission, DataScope),
        handler: H,
    ) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        let (needs, reach) = guard;
        let guard = Guard { needs, reach };
        if method == GET {
            self.guards.reads.insert(path, guard);
        } else {
            self.guards.changes.insert((method.clone(), path), guard);
        }
        self.operations.push(Operation::new(method.clone(), path, needs, reach));
        self.route((path, method), guard, handler)
    }

    /// Adds a guarded route that is not an operation of the API.
    pub(crate) fn route<H, T>(
        mut self,
        (path, method): (&'static str, Method),
        guard: Guard,
        handler: H,
    ) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        let Ok(filter) = MethodFilter::try_from(method.clone()) else {
            unreachable!("{method} is a method of this table")
        };
        let admit = from_fn_with_state((guard, self.context.clone()), admit);
        self.router = self.router.route(path, on(filter, handler).route_layer(admit));
        self
    }

    /// Adds an operation on the whole scheme.
    fn scheme<H, T>(
        self,
        method: Method,
        path: &'static str,
        needs: &'static [Permission],
        handler: H,
    ) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        self.add((path, method), (OneOf(needs), Scheme), handler)
    }

    /// Adds an operation on the participant `{name}`, which its own operators may also use.
    fn named<H, T>(self, method: Method, path: &'static str, needs: &'static [Permission], handler: H) -> Self
    where
        H: Handler<T, AdminContext>,
        T: 'static,
    {
        self.add((path, method), (OneOf(needs), Named), handler)
    }
}

/// The router of all operations and pages, the list of operations, and the paths of pages with rules of their own.
pub(crate) fn router(context: AdminContext, pages: Option<Pages>) -> (Router, Vec<Operation>, PagePaths) {
    let table = table(context.clone());
    // The operations for change sets. They do not contain themselves, which would be a cycle.
    let inner = Operations(complete(table.router.clone()).with_state(context.clone()));
    let table = match pages {
        Some(pages) => (pages.add)(PageTable(table)).0,
        None => table,
    };
    let (reach, operations, paths) = (Reach(Arc::new(table.guards)), table.operations, table.pages);
    let routes = table.router.layer(Extension(inner)).layer(Extension(reach));
    (complete(routes).with_state(context), operations, paths)
}

/// Adds the answers to requests without an operation.
fn complete(routes: Router<AdminContext>) -> Router<AdminContext> {
    routes
        .fallback(async || (Extension(NoOperation), ApiError::unknown_path()))
        .method_not_allowed_fallback(async || (Extension(NoOperation), ApiError::wrong_method()))
}

fn table(context: AdminContext) -> Table {
    let table = participants_table(Table::new(context));
    people_table(operators_table(process_table(payments_table(directory_table(settlement_table(
        scheme_table(table),
    ))))))
}

/// Operations about participants.
fn participants_table(table: Table) -> Table {
    let one = "/participants/{name}";
    let endpoints_of = "/participants/{name}/endpoints";
    let bindings_of = "/participants/{name}/bindings";
    let keys_of = "/participants/{name}/signatureKeys";
    let proxied_by = "/participants/{name}/proxied";
    let limits_of = "/participants/{name}/limits";
    let accounts_of = "/participants/{name}/accounts";
    let account = "/participants/{name}/accounts/{id}";
    let funds = "/participants/{name}/accounts/{id}/transfers/{transferId}";
    table
        .scheme(GET, "/participants", &[ParticipantRead], participants::list)
        .scheme(POST, "/participants", &[ParticipantCreate], participants::create)
        .scheme(GET, "/participants/limits", &[ParticipantRead], limits::list_all)
        .named(GET, one, &[ParticipantRead], participants::get)
        .named(PUT, one, &[ParticipantEnable, ParticipantDisable], participants::set_activity)
        .named(GET, endpoints_of, &[ParticipantRead], endpoints::list)
        .named(POST, endpoints_of, &[EndpointSet], endpoints::set)
        .named(PUT, endpoints_of, &[EndpointSet], endpoints::set_all)
        .named(GET, bindings_of, &[ParticipantRead], participants::list_bindings)
        .named(POST, bindings_of, &[BindingAdd], participants::add_binding)
        .named(DELETE, bindings_of, &[BindingRemove], participants::remove_binding)
        .named(GET, keys_of, &[ParticipantRead], signature_keys::list)
        .named(POST, keys_of, &[JwsAdd], signature_keys::add)
        .named(DELETE, "/participants/{name}/signatureKeys/{sha256}", &[JwsRevoke], signature_keys::revoke)
        .scheme(GET, "/blocks", &[ParticipantRead], participants::list_blocks)
        .scheme(POST, "/blocks", &[BlockSet], participants::set_block)
        .scheme(DELETE, "/blocks", &[BlockLift], participants::lift_block)
        .scheme(GET, proxied_by, &[ParticipantRead], participants::list_proxied)
        .scheme(POST, proxied_by, &[ParticipantCreate], participants::add_proxied)
        .scheme(
            DELETE,
            "/participants/{name}/proxied/{proxied}",
            &[ParticipantDisable],
            participants::remove_proxied,
        )
        .named(POST, "/participants/{name}/initialPositionAndLimits", &[LimitRaise], limits::open)
        .named(GET, limits_of, &[ParticipantRead], limits::list)
        .named(PUT, limits_of, &[LimitRaise, LimitLower], limits::set)
        .named(GET, "/participants/{name}/positions", &[ParticipantRead], accounts::list_positions)
        .named(GET, accounts_of, &[ParticipantRead], accounts::list)
        .named(POST, accounts_of, &[AccountCreate], accounts::create)
        .named(PUT, account, &[AccountEnable, AccountDisable], accounts::set_activity)
        .named(POST, account, &[FundsIn, FundsOutReserve], funds::prepare)
        .named(GET, funds, &[ParticipantRead], funds::show)
        .named(PUT, funds, &[FundsOutCommit, FundsOutAbort], funds::end)
}

/// Operations about the scheme.
fn scheme_table(table: Table) -> Table {
    table
        .scheme(GET, "/settlementModels", &[SettlementRead], settlement_models::list)
        .scheme(POST, "/settlementModels", &[ModelManage], settlement_models::create)
        .scheme(GET, "/settlementModels/{name}", &[SettlementRead], settlement_models::get)
        .scheme(PUT, "/settlementModels/{name}", &[ModelManage], settlement_models::set_activity)
        .scheme(GET, "/feeRules", &[SettlementRead], fee_rules::list)
        .scheme(POST, "/feeRules", &[ModelManage], fee_rules::create)
        .scheme(GET, "/feeRules/{name}", &[SettlementRead], fee_rules::get)
        .scheme(PUT, "/feeRules/{name}", &[ModelManage], fee_rules::end)
        .scheme(GET, "/ledgerAccountTypes", &[SettlementRead], accounts::list_types)
        .scheme(POST, "/ledgerAccountTypes", &[ModelManage], accounts::create_type)
        .add(("/enums", GET), (Identity, Scheme), enums::get)
}

/// Operations about windows and settlements.
fn settlement_table(table: Table) -> Table {
    let one = "/v2/settlements/{id}";
    let participant = "/v2/settlements/{id}/participants/{participantId}";
    let account = "/v2/settlements/{id}/participants/{participantId}/accounts/{accountId}";
    table
        .scheme(GET, "/v2/settlementWindows", &[SettlementRead], settlement_windows::list)
        .scheme(GET, "/v2/settlementWindows/{id}", &[SettlementRead], settlement_windows::get)
        .scheme(POST, "/v2/settlementWindows/{id}", &[WindowClose], settlement_windows::close)
        .scheme(GET, "/v2/settlementWindows/{id}/pairs", &[SettlementRead], settlement_windows::list_pairs)
        .scheme(GET, "/v2/settlements", &[SettlementRead], settlements::list)
        .scheme(POST, "/v2/settlements", &[SettlementCreate], settlements::create)
        .scheme(GET, one, &[SettlementRead], settlements::get)
        .scheme(PUT, one, SETTLE_OR_ABORT, settlements::update)
        .scheme(PUT, "/v2/settlements/{id}/cover", &[SettlementAdvance], settlements::move_cover)
        .scheme(GET, participant, &[SettlementRead], settlements::get_participant)
        .scheme(PUT, participant, SETTLE, settlements::update_participant)
        .scheme(GET, account, &[SettlementRead], settlements::get_account)
        .scheme(PUT, account, SETTLE, settlements::update_account)
}

const SETTLE: &[Permission] = &[SettlementAdvance, SettlementFinalise];
const SETTLE_OR_ABORT: &[Permission] = &[SettlementAdvance, SettlementFinalise, SettlementAbort];

/// Operations about the directory.
fn directory_table(table: Table) -> Table {
    let party = "/directory/parties/{Type}/{ID}";
    table
        .scheme(GET, "/oracles", &[DirectoryRead], oracles::list)
        .scheme(POST, "/oracles", &[OracleManage], oracles::create)
        .scheme(PUT, "/oracles/{id}", &[OracleManage], oracles::update)
        .scheme(DELETE, "/oracles/{id}", &[OracleManage], oracles::delete)
        .scheme(GET, "/directory", &[DirectoryRead], directory::summary)
        .scheme(GET, party, &[PartyRead], directory::get)
        .scheme(PUT, party, &[PartyManage], directory::put)
        .scheme(DELETE, party, &[PartyManage], directory::delete)
        .scheme(GET, "/directory/imports/{importId}", &[PartyManage], directory::get_import)
        .scheme(POST, "/directory/imports/{importId}/chunks", &[PartyManage], directory::take_import)
}

/// Operations about transfers, quotes, positions and callbacks.
fn payments_table(table: Table) -> Table {
    table
        .add(("/transfers", GET), (OneOf(&[TransferSearch]), Own), find::list)
        .add(("/transfers/{id}", GET), (OneOf(&[TransferRead]), Own), transfers::get)
        .scheme(PUT, "/transfers/{id}", &[TransferEnd], transfers::end)
        .scheme(GET, "/transfers/{id}/progress", &[TransferRead], progress::get)
        .scheme(GET, "/transactions/{id}", &[TransferMessages], transfers::get_transaction)
        .scheme(GET, "/quotes/{id}", &[TransferMessages], quotes::get)
        .scheme(GET, "/positions", &[ParticipantRead], accounts::summary_of_positions)
        .scheme(GET, "/callbacks", &[CallbackRead], callbacks::list)
        .scheme(POST, "/callbacks/redeliver", &[CallbackRedeliver], callbacks::redeliver)
        .scheme(GET, "/callbacks/{key}", &[CallbackRead], callbacks::get)
        .scheme(GET, "/lanes", &[CallbackRead], lanes::list)
}

/// Operations about the process and its documents.
fn process_table(table: Table) -> Table {
    table
        .add(("/", GET), (Nothing, Scheme), operations::metadata)
        .add(("/health", GET), (Nothing, Scheme), health::get)
        .add(("/v2/health", GET), (Nothing, Scheme), health::get)
        .add(("/live", GET), (Nothing, Scheme), health::live)
        .add(("/openapi.yaml", GET), (Nothing, Scheme), operations::get_docs)
        .add(("/docs", GET), (Nothing, Scheme), operations::get_docs)
        .add(("/docs/{file}", GET), (Nothing, Scheme), operations::get_docs)
        .scheme(GET, "/log-level", &[ProcessRead], operations::log_level)
        .scheme(PUT, "/log-level", &[ProcessLog], operations::set_log_level)
        .scheme(GET, "/clock", &[ProcessRead], operations::get_clock)
        .scheme(POST, "/clock/accept", &[ProcessClock], operations::accept_clock)
        .scheme(POST, "/cluster/hand-over", &[ClusterHandOver], operations::hand_over)
        .scheme(POST, "/cluster/promote", &[ClusterHandOver], operations::promote)
        .scheme(GET, "/signatures/keys", &[ProcessRead], signature_keys::list_hub_keys)
        .add(("/signatures/participants", GET), (Identity, Scheme), signature_keys::list_all)
        .scheme(GET, "/metrics", &[ProcessMetrics], operations::metrics)
        .scheme(GET, "/debug/profile", &[ProcessProfile], operations::profile)
        .scheme(GET, "/debug/heap", &[ProcessProfile], operations::heap)
}

/// Enrolment, login and logout of the hub's own users.
fn people_table(table: Table) -> Table {
    table
        .add(("/enrolments", POST), (Nothing, Scheme), sessions::begin_enrolment)
        .add(("/enrolments/confirm", POST), (Nothing, Scheme), sessions::confirm_enrolment)
        .add(("/sessions", POST), (Nothing, Scheme), sessions::open)
        .add(("/sessions", GET), (Identity, Own), sessions::list)
        .add(("/sessions/current/code", POST), (Identity, Own), sessions::renew)
        .add(("/sessions/{sessionId}", DELETE), (Identity, Own), sessions::end)
        .add(("/self/password", PUT), (Identity, Own), sessions::set_password)
}

/// The proposal determines the necessary one.
const DECIDE: &[Permission] = &[ApprovalOperations, ApprovalTreasury, ApprovalIam];

/// Operations about operators, their credentials, the audit trail, and approvals.
fn operators_table(table: Table) -> Table {
    table
        .add(("/self", GET), (Identity, Own), operators::itself)
        .scheme(GET, "/operators", &[IamRead], operators::list)
        .scheme(POST, "/operators", &[IamUser], operators::create)
        .scheme(GET, "/operators/{operator}", &[IamRead], operators::get)
        .scheme(PUT, "/operators/{operator}", &[IamUser], operators::update)
        .scheme(POST, "/operators/{operator}/tokens", &[IamUser], operators::add_token)
        .scheme(POST, "/operators/{operator}/enrolments", &[IamUser], operators::add_enrolment)
        .scheme(
            DELETE,
            "/operators/{operator}/credentials/{credentialId}",
            &[IamUser],
            operators::remove_credential,
        )
        .scheme(GET, "/approvals", &[ApprovalRead], approvals::list)
        .scheme(GET, "/approvals/policy", &[ApprovalRead], approvals::get_policy)
        .scheme(PUT, "/approvals/policy", &[ApprovalPolicy], approvals::set_policy)
        .scheme(GET, "/approvals/{approvalId}", &[ApprovalRead], approvals::get)
        .scheme(POST, "/approvals/{approvalId}/approve", DECIDE, approvals::approve)
        .scheme(POST, "/approvals/{approvalId}/reject", DECIDE, approvals::reject)
        .scheme(POST, "/approvals/{approvalId}/withdraw", &[ApprovalRead], approvals::withdraw)
        .scheme(POST, "/changeSets", &[ChangeSet], change_sets::propose)
        .scheme(GET, "/audit", &[AuditRead], audit::list)
        .scheme(GET, "/audit/checkpoint", &[AuditRead], audit::checkpoint)
}
