//! Rate limit of a connection: requests without a permission and without an operator are limited.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use upesi_admin::{AllowedHosts, MetricsService, MetricsText};
use upesi_http::{Server, Workers};

use crate::common::people::send;
use crate::common::{Hub, Settings};

/// More requests than an address may send at once and in the second after that.
const REQUESTS: usize = 200;
/// Minimum duration of these requests.
const TIME_MIN: Duration = Duration::from_millis(900);

/// Sends all requests at once over one connection. Their answers must have this status. Returns the request if they
/// came too soon.
async fn unpaced(
    address: SocketAddr,
    line: &'static str,
    host: &'static str,
    status: u16,
) -> Option<[&'static str; 2]> {
    let begun = Instant::now();
    let one = format!("{line} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    let last = format!("{line} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all((one.repeat(REQUESTS - 1) + &last).as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches(&format!("HTTP/1.1 {status} ")).count(), REQUESTS, "{line}: {answers}");
    (begun.elapsed() < TIME_MIN).then_some([line, host])
}

/// The requests whose answers came too soon, each sent to its own port.
async fn all_unpaced(
    tried: impl Iterator<Item = (SocketAddr, &'static str, &'static str, u16)>,
) -> Vec<[&'static str; 2]> {
    let asking: JoinSet<_> =
        tried.map(|(address, line, host, status)| unpaced(address, line, host, status)).collect();
    asking.join_all().await.into_iter().flatten().collect()
}

#[tokio::test]
async fn unknown_and_unauthenticated_requests_have_a_rate_limit() {
    let open = || Hub::start();
    let closed = || Hub::launch(Settings { authentication: true, ..Settings::default() });
    let tried = [
        (open(), "GET /live", "hub", 200),
        (open(), "GET /nothing", "hub", 404),
        (open(), "DELETE /participants", "hub", 405),
        (open(), "GET /participants", "evil.example", 421),
        (closed(), "GET /participants", "hub", 401),
        (closed(), "GET /nothing", "hub", 404),
    ];
    let all = tried.iter().map(|(hub, line, host, status)| (hub.address, *line, *host, *status));
    assert_eq!(all_unpaced(all).await, [[""; 2]; 0]);
}

/// Connections that are closed after an answer: every request of a client without credentials has the rate limit of its
/// address, with every method.
#[tokio::test]
async fn unauthenticated_requests_of_any_method_have_a_rate_limit() {
    let tried = ["POST", "PUT", "PATCH", "DELETE"].into_iter().flat_map(|method| {
        [("", 401), ("sec-fetch-site: cross-site\r\n", 403)].map(|(lines, status)| (method, lines, status))
    });
    let asking: JoinSet<_> = tried
        .map(|(method, lines, status)| async move {
            let hub = Hub::launch(Settings { authentication: true, ..Settings::default() });
            let begun = Instant::now();
            for _ in 0..REQUESTS {
                let (found, _, body) = send(&hub, lines, method, "/participants", "{}").await;
                assert_eq!(found, status, "{method} {lines}: {body}");
            }
            (begun.elapsed() < TIME_MIN).then_some((method, lines))
        })
        .collect();
    assert_eq!(asking.join_all().await, [None; 8]);
}

// The port of metrics.

struct MetricsPort {
    address: SocketAddr,
    _server: Server,
    _workers: Workers,
}

fn metrics_port() -> MetricsPort {
    let workers = Workers::start(1, "metrics").unwrap();
    let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = bound.local_addr();
    let text = MetricsText::new(Duration::ZERO, || "# EOF\n".to_owned());
    let service = MetricsService::new(text, AllowedHosts::any_address(["hub.example"]));
    let server = Server::serve(bound, upesi_admin::limits(64), &workers, service.into());
    MetricsPort { address, _server: server, _workers: workers }
}

#[tokio::test]
async fn metrics_port_has_a_rate_limit() {
    let tried = [
        (metrics_port(), "GET /metrics", "localhost", 200),
        (metrics_port(), "GET /nothing", "localhost", 404),
        (metrics_port(), "POST /metrics", "localhost", 405),
        (metrics_port(), "GET /metrics", "evil.example", 421),
    ];
    let all = tried.iter().map(|(port, line, host, status)| (port.address, *line, *host, *status));
    assert_eq!(all_unpaced(all).await, [[""; 2]; 0]);
}

#[tokio::test]
async fn metrics_port_accepts_addresses_and_allowed_names() {
    let port = metrics_port();
    for (host, status) in [
        ("host: localhost", 200),
        ("host: 127.0.0.1:4002", 200),
        ("host: 10.244.1.7:4002", 200),
        ("host: [fd00::7]:4002", 200),
        ("host: hub.example:4002", 200),
        ("host: evil.example", 421),
        ("host: 10.244.1.7.evil.example", 421),
    ] {
        let mut stream = TcpStream::connect(port.address).await.unwrap();
        let request = format!("GET /metrics HTTP/1.1\r\n{host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
        assert_eq!(answer.contains("admin.allowed_hosts"), status == 421, "{answer}");
        assert_eq!(answer.ends_with("# EOF\n"), status == 200, "{answer}");
    }
}
