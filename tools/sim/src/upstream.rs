//! The receivers of DFSPs' messages: a hub, the services of a hub at separate addresses, or each other.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use upesi_http::{
    Answer, ClientTls, Full, HeaderMap, Method, Origin, Pool, PoolConfig, Request, SendError, Target, Uri,
    UrlError, Workers, current_worker,
};

use crate::dfsp::Dfsp;
use crate::message::{Family, family_of};

/// The receivers of the DFSPs' messages.
#[derive(Clone, Debug)]
pub enum Upstream {
    /// A hub or its stand-in, by its base URL.
    Hub(String),
    /// A hub whose services have separate base URLs.
    Services(ServiceUrls),
    /// Each other, without a hub. This shows the performance of the simulators and the load generator alone.
    Peers,
}

/// The base URLs of a hub by resource; some may be the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrls {
    /// For `/parties` and `/participants`.
    pub lookups: String,
    /// For `/quotes`, `/bulkQuotes` and `/fxQuotes`.
    pub quotes: String,
    /// For `/transfers`, `/fxTransfers` and `/bulkTransfers`.
    pub transfers: String,
    pub others: String,
}

/// The services of a hub, in the order of [`Route::places`].
#[derive(Clone, Copy)]
enum Service {
    Lookups,
    Quotes,
    Transfers,
    Others,
}

impl Service {
    /// The service for a path, which has no slash before it.
    fn of(path: &str) -> Self {
        match family_of(path) {
            Some(Family::Parties | Family::Participants) => Self::Lookups,
            Some(Family::Quotes | Family::BulkQuotes | Family::FxQuotes) => Self::Quotes,
            Some(family) if family.moves_money() => Self::Transfers,
            _ => Self::Others,
        }
    }
}

struct ServiceAddress {
    /// The prefix of the path; `None` if it is the receiver's name.
    prefix: Option<String>,
    pools: usize,
}

/// The addresses of all messages, and the connections to them.
pub(crate) struct Route {
    places: [ServiceAddress; 4],
    /// The connections for each address, even if several services share it. All DFSPs share them. With TLS, each DFSP
    /// has its own connections, because a connection has one certificate.
    pools: Vec<Vec<Pools>>,
}

impl Route {
    /// `own` is the address where the DFSPs listen. `connections_max` is the maximum to one address. `tls` contains the
    /// TLS of each DFSP, for addresses that start with `https`.
    pub fn new(
        upstream: &Upstream,
        own: SocketAddr,
        workers: &Workers,
        connections_max: usize,
        request_timeout: Duration,
        tls: Option<&[ClientTls]>,
    ) -> Result<Self, UrlError> {
        let mut origins: Vec<Origin> = Vec::new();
        let mut place = |origin: Origin, prefix: Option<String>| {
            let known = origins.iter().position(|known| *known == origin);
            let pools = known.unwrap_or(origins.len());
            if known.is_none() {
                origins.push(origin);
            }
            ServiceAddress { prefix, pools }
        };
        let mut hub = |url: &str| -> Result<ServiceAddress, UrlError> {
            let target = Target::parse(url)?;
            let prefix = target.path.path().trim_end_matches('/').to_owned();
            Ok(place(target.origin, Some(prefix)))
        };
        let places = match upstream {
            Upstream::Hub(url) => [hub(url)?, hub(url)?, hub(url)?, hub(url)?],
            Upstream::Services(urls) => {
                [hub(&urls.lookups)?, hub(&urls.quotes)?, hub(&urls.transfers)?, hub(&urls.others)?]
            }
            Upstream::Peers => {
                let peers = || match tls {
                    Some(_) => Origin::secure(&own.ip().to_string(), own.port()),
                    None => Origin::new(&own.ip().to_string(), own.port()),
                };
                std::array::from_fn(|_| place(peers(), None))
            }
        };
        let pools = |origin: &Origin| match tls {
            Some(tls) if origin.is_secure() => {
                // The number for a few busy DFSPs among idle ones.
                let connections_max = (2 * connections_max.div_ceil(tls.len())).min(connections_max);
                let pools = |tls| Pools::new(origin, workers, connections_max, request_timeout, Some(tls));
                tls.iter().map(pools).collect()
            }
            _ => vec![Pools::new(origin, workers, connections_max, request_timeout, None)],
        };
        let pools = origins.iter().map(pools).collect();
        Ok(Self { places, pools })
    }

    /// Sends a message from the connections of the current worker.
    pub async fn send(
        &self,
        sender: &Dfsp,
        method: Method,
        way: MessageWay,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, SendError> {
        let pools = &self.pools[way.pools];
        pools[sender.index.min(pools.len() - 1)].send(method, way.uri, headers, body).await
    }

    /// The path and the connections of a message to its receiver. `path` is a valid part of a URL, and has no slash
    /// before it.
    pub(crate) fn way(&self, receiver: &str, path: &str) -> MessageWay {
        let place = &self.places[Service::of(path) as usize];
        let whole = match &place.prefix {
            Some(prefix) => format!("{prefix}/{path}"),
            None => format!("/{receiver}/{path}"),
        };
        // A name with a blank makes no valid path. Such a message goes to the root and is rejected there.
        MessageWay { pools: place.pools, uri: Uri::from_maybe_shared(whole.into_bytes()).unwrap_or_default() }
    }
}

/// The path and the connections of a message to its receiver.
pub(crate) struct MessageWay {
    /// Index of the connections.
    pools: usize,
    /// The path, as a relative URI.
    pub uri: Uri,
}

/// Connections to one origin, separate for each worker.
pub struct Pools {
    per_worker: Vec<Pool>,
    request_timeout: Duration,
}

impl Pools {
    /// Creates pools with `connections_max` connections in total. `https` origins need TLS. Response bodies may have 64
    /// KiB.
    pub fn new(
        origin: &Origin,
        workers: &Workers,
        connections_max: usize,
        request_timeout: Duration,
        tls: Option<&ClientTls>,
    ) -> Self {
        let config = PoolConfig {
            connections_max: connections_max.div_ceil(workers.count()),
            response_body_bytes_max: 64 * 1024,
            tls: tls.cloned(),
            ..PoolConfig::default()
        };
        let pool = || Pool::new(origin.clone(), config.clone());
        Self { per_worker: workers.iter().map(|_| pool()).collect(), request_timeout }
    }

    /// Sends from the pool of the current worker. Fails if no response came in time.
    pub async fn send(
        &self,
        method: Method,
        path: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, SendError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = path;
        *request.headers_mut() = headers;
        let pool = &self.per_worker[current_worker().unwrap_or_default() % self.per_worker.len()];
        pool.send(request, Instant::now() + self.request_timeout).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connections and the path for each kind of message.
    fn ways(upstream: &Upstream) -> Vec<(usize, String)> {
        let workers = Workers::start(1, "upstream").unwrap();
        let own = SocketAddr::from(([127, 0, 0, 1], 7000));
        let route = Route::new(upstream, own, &workers, 1, Duration::from_secs(1), None).unwrap();
        let paths = [
            "parties/MSISDN/1",
            "participants",
            "quotes/x",
            "fxQuotes/x",
            "transfers",
            "transfers/00000000-0000-4000-8000-000000000000/error",
            "fxTransfers/x",
            "transactionRequests",
        ];
        let ways = paths.map(|path| route.way("payee", path));
        workers.shutdown();
        ways.into_iter().map(|way| (way.pools, way.uri.to_string())).collect()
    }

    #[test]
    fn message_goes_to_its_service() {
        let urls = ServiceUrls {
            lookups: "http://als:4002".to_owned(),
            quotes: "http://quoting:3002/base/".to_owned(),
            // Services at the same address share connections, whatever their paths are.
            transfers: "http://ALS:4002/ml".to_owned(),
            others: "http://else".to_owned(),
        };
        let error = "/ml/transfers/00000000-0000-4000-8000-000000000000/error";
        let expected = [
            (0, "/parties/MSISDN/1"),
            (0, "/participants"),
            (1, "/base/quotes/x"),
            (1, "/base/fxQuotes/x"),
            (0, "/ml/transfers"),
            (0, error),
            (0, "/ml/fxTransfers/x"),
            (2, "/transactionRequests"),
        ];
        assert_eq!(ways(&Upstream::Services(urls)), expected.map(|(pools, path)| (pools, path.to_owned())));
    }

    #[test]
    fn hub_with_one_address_has_one_set_of_connections() {
        for (upstream, prefix) in
            [(Upstream::Hub("http://127.0.0.1:4000/hub".to_owned()), "/hub"), (Upstream::Peers, "/payee")]
        {
            for (pools, path) in ways(&upstream) {
                assert!(pools == 0 && path.starts_with(&format!("{prefix}/")), "{path}");
            }
        }
    }
}
