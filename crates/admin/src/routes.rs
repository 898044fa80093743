//! The table of resources.

use axum::Router;
use axum::routing::{get, post, put};

use crate::context::AdminContext;
use crate::error::ApiError;
use crate::{
    account_types, accounts, callbacks, clock, debug, directory, docs, endpoints, enums, find, funds, health,
    imports, lanes, limits, operations, oracles, participants, positions, quotes, settlement_models,
    transactions, transfers,
};

pub(crate) fn router(context: AdminContext) -> Router {
    Router::new()
        .merge(participant_routes())
        .merge(hub_routes())
        .merge(directory_routes())
        .merge(operator_routes())
        .fallback(async || ApiError::unknown_path())
        .method_not_allowed_fallback(async || ApiError::wrong_method())
        .with_state(context)
}

/// What belongs to participants.
fn participant_routes() -> Router<AdminContext> {
    let account = "/participants/{name}/accounts/{id}";
    let funds = "/participants/{name}/accounts/{id}/transfers/{transferId}";
    Router::new()
        .route("/participants", get(participants::list).post(participants::create))
        .route("/participants/limits", get(limits::list_all))
        .route("/participants/{name}", get(participants::get).put(participants::set_activity))
        .route("/participants/{name}/endpoints", get(endpoints::list).post(endpoints::set))
        .route("/participants/{name}/initialPositionAndLimits", post(limits::open))
        .route("/participants/{name}/limits", get(limits::list).put(limits::set))
        .route("/participants/{name}/positions", get(positions::list))
        .route("/participants/{name}/accounts", get(accounts::list).post(accounts::create))
        .route(account, put(accounts::set_activity).post(funds::prepare))
        .route(funds, get(funds::show).put(funds::end))
}

/// What belongs to the scheme.
fn hub_routes() -> Router<AdminContext> {
    Router::new()
        .route("/settlementModels", get(settlement_models::list).post(settlement_models::create))
        .route("/settlementModels/{name}", get(settlement_models::get).put(settlement_models::set_activity))
        .route("/ledgerAccountTypes", get(account_types::list).post(account_types::create))
        .route("/transactions/{id}", get(transactions::get))
        .route("/enums", get(enums::get))
}

/// Who serves which party.
fn directory_routes() -> Router<AdminContext> {
    let party = get(directory::get).put(directory::put).delete(directory::delete);
    Router::new()
        .route("/oracles", get(oracles::list).post(oracles::create))
        .route("/oracles/{id}", put(oracles::update).delete(oracles::delete))
        .route("/directory", get(directory::summary))
        .route("/directory/parties/{Type}/{ID}", party)
        .route("/directory/imports/{importId}", get(imports::get))
        .route("/directory/imports/{importId}/chunks", post(imports::take))
}

/// What operators watch and steer.
fn operator_routes() -> Router<AdminContext> {
    Router::new()
        .route("/", get(operations::metadata))
        .route("/transfers", get(find::list))
        .route("/transfers/{id}", get(transfers::get).put(transfers::end))
        .route("/quotes/{id}", get(quotes::get))
        .route("/positions", get(positions::summary))
        .route("/callbacks", get(callbacks::list))
        .route("/callbacks/redeliver", post(callbacks::redeliver))
        .route("/callbacks/{key}", get(callbacks::get))
        .route("/lanes", get(lanes::list))
        .route("/log-level", get(operations::log_level).put(operations::set_log_level))
        .route("/clock", get(clock::get))
        .route("/clock/accept", post(clock::accept))
        .route("/health", get(health::get))
        .route("/live", get(health::live))
        .route("/metrics", get(operations::metrics))
        .route("/debug/profile", get(debug::profile))
        .route("/debug/heap", get(debug::heap))
        .route("/openapi.yaml", get(docs::get))
        .route("/docs", get(docs::get))
        .route("/docs/{file}", get(docs::get))
}
