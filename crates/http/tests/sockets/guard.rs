//! Destinations of connections: every blocked range, in every notation, over real sockets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout};
use upesi_http::{
    Full, Guard, GuardError, GuardRules, Network, Origin, Outbound, Pool, PoolConfig, Request, Schemes,
    SendError, Target, UrlError,
};

const AMPLE: Duration = Duration::from_secs(30);

/// First and last address of each range, and well-known addresses in it.
const REFUSED: [&str; 69] = [
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.0",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.0.0",
    "169.254.169.254",
    "169.254.255.255",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.0",
    "192.0.0.255",
    "192.0.2.0",
    "192.0.2.255",
    "192.88.99.0",
    "192.88.99.255",
    "192.168.0.0",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.0",
    "198.51.100.255",
    "203.0.113.0",
    "203.0.113.255",
    "224.0.0.0",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::8.8.8.8",
    "::ffff:0:127.0.0.1",
    "64:ff9b::",
    "64:ff9b::7f00:1",
    "64:ff9b::ffff:ffff",
    "64:ff9b:1::",
    "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
    "100::1",
    "100:0:0:1::",
    "100:0:0:1:ffff:ffff:ffff:ffff",
    "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001::1",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::",
    "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff",
    "2002::",
    "2002:7f00:1::1",
    "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "3fff::1",
    "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff",
    "4000::",
    "5f00::",
    "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "8000::",
    "fc00::",
    "fd00:ec2::254",
    "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fe80::",
    "fe80::1",
    "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    "fec0::1",
    "ff00::",
    "ff02::1",
    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
];

/// The neighbours of the ranges.
const PUBLIC: [&str; 32] = [
    "1.0.0.0",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db9::",
    "2003::",
    "2a00::1",
    "3fff:1000::",
];

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn rules(networks: &[&str]) -> GuardRules {
    let network = |text: &&str| text.parse::<Network>().unwrap();
    GuardRules { networks: networks.iter().map(network).collect(), ..GuardRules::default() }
}

fn pool(guard: &Guard, host: &str, port: u16) -> Pool {
    let outbound = Outbound::bounded(8).guarded(guard.clone());
    let config = PoolConfig { outbound, keep_alive: false, ..PoolConfig::default() };
    Pool::new(Origin::new(host, port), config)
}

/// The result of a request: a status, or the reason why no connection was made.
async fn ask(guard: &Guard, host: &str, port: u16) -> Result<u16, (ErrorKind, String)> {
    let request = Request::get("/").body(Full::default()).unwrap();
    match pool(guard, host, port).send(request, Instant::now() + AMPLE).await {
        Ok(answer) => Ok(answer.status.as_u16()),
        Err(SendError::Connect { source, .. }) => Err((source.kind(), source.to_string())),
        Err(error) => panic!("{host}: {error}"),
    }
}

fn refused(why: GuardError) -> Result<u16, (ErrorKind, String)> {
    Err((ErrorKind::PermissionDenied, why.to_string()))
}

/// A name with a public address and with the address that it spells; and names with other addresses.
fn names(host: &str) -> Vec<IpAddr> {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let public = IpAddr::from([8, 8, 8, 8]);
    let spelled = |digits: &str| match digits.len() {
        8 => IpAddr::V4(Ipv4Addr::from_bits(u32::from_str_radix(digits, 16).unwrap())),
        _ => IpAddr::V6(Ipv6Addr::from_bits(u128::from_str_radix(digits, 16).unwrap())),
    };
    match host.split_once('.').unwrap_or((host, "")) {
        ("alone", digits) => vec![spelled(digits)],
        ("pair", digits) => vec![spelled(&digits[..8]), spelled(&digits[8..])],
        ("second", digits) => vec![public, spelled(digits)],
        ("first", digits) => vec![spelled(digits), public],
        // Another address for each query: first an allowed one, then a blocked one.
        ("rebinding", _) => match ASKED.fetch_add(1, Ordering::Relaxed) {
            0 => vec![address("127.0.0.2")],
            _ => vec![address("127.0.0.1")],
        },
        _ => Vec::new(),
    }
}

fn spelled(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("{:08x}", address.to_bits()),
        IpAddr::V6(address) => format!("{:032x}", address.to_bits()),
    }
}

#[tokio::test]
async fn no_connection_to_a_private_address_in_any_notation() {
    let guard = Guard::with_names(rules(&[]), names);
    let mut cases = 0;
    for text in REFUSED {
        let address = address(text);
        let mapped = match address {
            IpAddr::V4(address) => Some(IpAddr::V6(address.to_ipv6_mapped())),
            IpAddr::V6(_) => None,
        };
        for address in std::iter::once(address).chain(mapped) {
            let expected = refused(GuardError::Address(address));
            assert_eq!(ask(&guard, &address.to_string(), 8080).await, expected, "{address}");
            for name in ["alone", "first", "second"] {
                let host = format!("{name}.{}", spelled(address));
                assert_eq!(ask(&guard, &host, 8080).await, expected, "{host}");
                cases += 1;
            }
            cases += 1;
        }
        let url = match address {
            IpAddr::V4(_) => format!("http://{text}:8080/x/{{{{id}}}}"),
            IpAddr::V6(_) => format!("http://[{text}]:8080/x/{{{{id}}}}"),
        };
        let schemes = Schemes { guard: guard.clone(), ..Schemes::default() };
        assert_eq!(schemes.check(&url), Err(UrlError::Refused(GuardError::Address(address))), "{url}");
        cases += 1;
    }
    assert!(cases >= 300, "{cases}");
    for text in PUBLIC {
        let host = if text.contains(':') { format!("[{text}]") } else { text.to_owned() };
        let target = Target::parse(&format!("http://{host}/")).unwrap();
        assert_eq!(guard.check_target(&target), Ok(()), "{text}");
    }
}

#[tokio::test]
async fn rejected_destinations_receive_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let guard = Guard::with_names(rules(&[]), names);
    // Names that the system resolves are checked as well.
    for host in ["localhost", "127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "alone.7f000001", "second.7f000001"]
    {
        let (kind, text) = ask(&guard, host, port).await.unwrap_err();
        // The table has no such name.
        let is_unknown = host == "localhost" && kind == ErrorKind::NotFound;
        assert!(kind == ErrorKind::PermissionDenied || is_unknown, "{host}: {text}");
    }
    let by_system = Guard::new(rules(&[]));
    let (kind, text) = ask(&by_system, "localhost", port).await.unwrap_err();
    assert_eq!(kind, ErrorKind::PermissionDenied, "{text}");
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// Answers every connection with these bytes. Counts the connections and their received bytes.
fn serve(address: &str, answer: &'static str) -> (SocketAddr, &'static [AtomicUsize; 2]) {
    let listener = TcpListener::bind(address).unwrap();
    let counts: &'static [AtomicUsize; 2] = Box::leak(Box::default());
    let local = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut bytes = [0; 4096];
            let read = stream.read(&mut bytes).unwrap_or(0);
            counts[1].fetch_add(read, Ordering::SeqCst);
            counts[0].fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (local, counts)
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn only_allowed_private_networks_are_called() {
    let (address, _) = serve("127.0.0.1:0", OK);
    let guard = Guard::with_names(rules(&["127.0.0.0/30"]), names);
    for host in ["127.0.0.1", "alone.7f000001", "::ffff:127.0.0.1"] {
        assert_eq!(ask(&guard, host, address.port()).await, Ok(200), "{host}");
    }
    let other = "127.0.0.4".parse().unwrap();
    assert_eq!(ask(&guard, "127.0.0.4", address.port()).await, refused(GuardError::Address(other)));
    assert_eq!(ask(&guard, "alone.7f000004", address.port()).await, refused(GuardError::Address(other)));
}

#[tokio::test]
async fn name_is_resolved_and_checked_again_after_a_while() {
    let (address, counts) = serve("127.0.0.2:0", OK);
    let guard = Guard::with_names(rules(&["127.0.0.2/32"]), names);
    let pool = pool(&guard, "rebinding.example", address.port());
    let request = || Request::get("/").body(Full::default()).unwrap();
    for _ in 0..3 {
        assert_eq!(pool.send(request(), Instant::now() + AMPLE).await.unwrap().status, 200);
    }
    assert_eq!(counts[0].load(Ordering::SeqCst), 3, "to the address that was checked");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    let error = pool.send(request(), Instant::now() + AMPLE).await.unwrap_err();
    assert!(matches!(error, SendError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1 is neither public"), "{error}");
    assert_eq!(counts[0].load(Ordering::SeqCst), 3);
}

/// A listener with a full queue, which does not answer, and the connections in the queue.
async fn silent(address: &str) -> (tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let (local, mut queued) = (listener.local_addr().unwrap(), Vec::new());
    while let Ok(connected) = timeout(Duration::from_millis(500), TcpStream::connect(local)).await {
        queued.push(connected.unwrap());
    }
    (listener, queued)
}

#[tokio::test]
async fn the_second_address_of_a_name_is_tried_if_the_first_does_not_answer() {
    let (silent, _queued) = silent("127.0.0.2").await;
    let port = silent.local_addr().unwrap().port();
    let (_, counts) = serve(&format!("127.0.0.3:{port}"), OK);
    let guard = Guard::with_names(rules(&["127.0.0.0/8"]), names);
    for host in ["pair.7f0000027f000003", "pair.7f0000037f000002"] {
        assert_eq!(ask(&guard, host, port).await, Ok(200), "{host}");
    }
    assert_eq!(counts[0].load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn ports_of_other_services_and_of_the_hub_are_not_called() {
    let guard = Guard::new(rules(&["127.0.0.0/8"]));
    for port in [1, 22, 25, 53, 81, 442, 444, 1023] {
        assert_eq!(ask(&guard, "127.0.0.1", port).await, refused(GuardError::Port(port)));
    }
    let target = Target::parse("http://dfsp.example:22/").unwrap();
    assert_eq!(guard.check_target(&target), Err(GuardError::Port(22)));
    let (open, _) = serve("127.0.0.1:0", OK);
    let (own, counts) = serve("127.0.0.1:0", OK);
    guard.keep_from(vec![own.port()]);
    assert_eq!(ask(&guard, "127.0.0.1", open.port()).await, Ok(200));
    assert_eq!(ask(&guard, "127.0.0.1", own.port()).await, refused(GuardError::Own(own)));
    // The connection is closed before any byte is sent.
    let listed = Guard::new(GuardRules { ports: vec![open.port()], ..rules(&["127.0.0.0/8"]) });
    assert_eq!(ask(&listed, "127.0.0.1", open.port()).await, Ok(200));
    assert_eq!(ask(&listed, "127.0.0.1", own.port()).await, refused(GuardError::Port(own.port())));
    assert_eq!(ask(&listed, "127.0.0.1", 443).await, refused(GuardError::Port(443)));
    assert_eq!(counts[1].load(Ordering::SeqCst), 0, "bytes to the hub's own port");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    target.set_nonblocking(true).unwrap();
    let location = target.local_addr().unwrap();
    for status in [301, 302, 303, 307, 308] {
        let answer = format!(
            "HTTP/1.1 {status} Moved\r\nlocation: http://{location}/latest/meta-data\r\ncontent-length: 0\r\n\
             connection: close\r\n\r\n"
        );
        let (address, _) = serve("127.0.0.1:0", answer.leak());
        for guard in [Guard::default(), Guard::new(rules(&["127.0.0.0/8"]))] {
            assert_eq!(ask(&guard, "127.0.0.1", address.port()).await, Ok(status));
        }
    }
    assert_eq!(target.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}
