//! Servers and clients over real sockets.

mod blocks;
mod bodies;
mod chatty_peers;
mod client;
mod common;
mod eviction;
mod guard;
mod http2;
mod http2_client;
mod matrix_http;
mod matrix_http2;
mod matrix_proxied;
mod matrix_tls;
mod pipe;
mod rotation;
mod server;
mod sni;
mod tls;
mod tls_chains;
