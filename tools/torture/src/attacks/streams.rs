//! HTTP/2 requests that a client leaves unfinished: it never reads the responses, or never ends the bodies. Also an
//! honest client's requests at the same time.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Error, SendStream};
use rustls::ClientConfig;
use upesi_http::{Bytes, Request};

use super::dial::{Dialer, HTTP_2, Stream};

/// Maximum time of an honest request on a new connection.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of a body that is sent.
const HALF: &[u8] = b"{\"transferId\":";

/// Connections with this many requests each.
#[derive(Clone, Copy, Debug)]
pub struct Streams {
    pub connections: usize,
    pub requests: usize,
    pub path: &'static str,
    /// The DFSP that the requests name as their sender.
    pub source: Option<&'static str>,
    /// Whether only the start of each request's body is sent.
    pub has_half_body: bool,
}

impl Streams {
    fn request(&self) -> Option<Request<()>> {
        let method = if self.has_half_body { "POST" } else { "GET" };
        let uri = format!("https://127.0.0.1{}", self.path);
        let mut builder = Request::builder().method(method).uri(uri);
        if let Some(source) = self.source {
            let media = "application/vnd.interoperability.transfers+json;version=1.1";
            builder = builder.header("fspiop-source", source).header("content-type", media);
            builder = builder.header("accept", media);
        }
        builder.body(()).ok()
    }
}

/// Sends the requests on one connection and keeps them open until the server closes the connection.
pub async fn hold(stream: Stream, requests: &Streams, sent: &AtomicU64) -> Result<(), Error> {
    // The server may send heads of answers, but no byte of their bodies.
    let (client, connection) = Builder::new().initial_window_size(0).handshake::<_, Bytes>(stream).await?;
    let sending = send(client, requests, sent);
    // Dropping a stream would reset it.
    let (outcome, _kept) = tokio::join!(connection, sending);
    outcome
}

async fn send(
    mut client: SendRequest<Bytes>,
    requests: &Streams,
    sent: &AtomicU64,
) -> Vec<(ResponseFuture, SendStream<Bytes>)> {
    let mut kept = Vec::new();
    for _ in 0..requests.requests {
        let Some(request) = requests.request() else { break };
        let Ok(ready) = client.ready().await else { break };
        client = ready;
        let Ok((answer, mut body)) = client.send_request(request, !requests.has_half_body) else { break };
        if requests.has_half_body && body.send_data(Bytes::from_static(HALF), false).is_err() {
            break;
        }
        sent.fetch_add(1, Ordering::Relaxed);
        kept.push((answer, body));
    }
    kept
}

/// The status of the response to an honest request on a new HTTP/2 connection. Fails if the response does not come in
/// time.
pub fn status(target: SocketAddr, tls: &Arc<ClientConfig>, path: &str) -> io::Result<String> {
    let mut config = ClientConfig::clone(tls);
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    let dialer = Dialer::secured(target, Arc::new(config));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let answer = tokio::time::timeout(PROBE_TIMEOUT, ask(&dialer, path)).await;
        answer.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    })
}

async fn ask(dialer: &Dialer, path: &str) -> io::Result<String> {
    let stream = dialer.dial(Ipv4Addr::LOCALHOST).await?;
    let (client, connection) = h2::client::handshake(stream).await.map_err(io::Error::other)?;
    let driver = tokio::spawn(connection);
    let request =
        Request::builder().uri(format!("https://127.0.0.1{path}")).body(()).map_err(io::Error::other)?;
    let mut client = client.ready().await.map_err(io::Error::other)?;
    let (answer, _) = client.send_request(request, true).map_err(io::Error::other)?;
    let status = answer.await.map_err(io::Error::other)?.status();
    driver.abort();
    Ok(status.as_str().to_owned())
}
