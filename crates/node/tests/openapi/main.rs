//! The OpenAPI documents against the running hub and its parsers.

mod admin_walk;
mod common;
mod document;
mod fspiop_bodies;
