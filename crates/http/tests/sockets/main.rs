//! Servers and clients over real sockets.

mod blocked;
mod body;
mod chatty_peers;
mod client;
mod common;
mod direct;
mod guard;
mod http2;
mod http2_client;
mod matrix_http;
mod matrix_http2;
mod matrix_proxied;
mod matrix_tls;
mod names;
mod room;
mod rotation;
mod server;
mod tls;
mod tls_chains;
