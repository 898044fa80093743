//! A follower forwards requests to the leader: its answers are the leader's, and nothing is done twice.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::time::Instant;
use upesi_engine::{ClockState, Participants, Payload, SharedParticipants};
use upesi_gateway::nodes::{ForwardCounts, KnownLeader, NodePort, Peers, RequestForwarder};
use upesi_gateway::{
    FollowerRole, FollowerState, Gateway, GatewayConfig, GatewayContext, HubRole, HubRoles, LargeBodies,
    LeaderRole,
};
use upesi_http::{Limits, Origin, Server, Workers};
use upesi_ledger::{AdminCommand, Block, Command};
use upesi_transfers::Transfers;

use super::common::{name, position};
use crate::common::{
    AMPLE, Answer, Client, ERROR_BODY, ID, Others, Recorder, Running, Settings, fulfil_body, get, post,
    prepare_body, put, put_error, request,
};

/// Limit for bodies on the port for nodes. It is low, so that it is easily exceeded.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// A leader, with its port for other nodes.
struct Leader {
    port: Server,
    participants: SharedParticipants,
    running: Running,
}

impl Leader {
    fn start(recorder: Option<Arc<Recorder>>) -> Self {
        let running = Running::start(Settings { recorder: recorder.clone(), ..Settings::default() });
        let participants = SharedParticipants::default();
        let handler = (Transfers::new(running.handle.clone()), Others(recorder));
        let config = GatewayConfig { body_bytes_max: BODY_BYTES_MAX, ..GatewayConfig::default() };
        let bodies = LargeBodies::of(&config);
        let (engine, clock) = (running.handle.clone(), running.handle.clock());
        let port =
            NodePort::new(HubRoles::alone(engine, handler), clock, participants.clone(), config, bodies);
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = Server::serve(bound, Limits::default(), &running.workers, Arc::new(port));
        Self { port, participants, running }
    }
}

/// The handlers of a node that becomes leader.
type FollowerRoles = HubRoles<(Transfers, Others)>;

struct Follower {
    server: Server,
    workers: Workers,
    roles: FollowerRoles,
    forwarder: RequestForwarder,
    leads: watch::Sender<KnownLeader>,
    is_current: Arc<AtomicBool>,
    counts: Arc<ForwardCounts>,
}

impl Follower {
    /// The first node is the leader.
    fn of(nodes: &[SocketAddr]) -> Self {
        let (leads, led) = watch::channel(KnownLeader { epoch: 1, node: Some(0), ..KnownLeader::default() });
        let is_current = Arc::new(AtomicBool::new(true));
        let current = Arc::clone(&is_current);
        let current = move || current.load(Ordering::SeqCst);
        let health = Arc::new(move || FollowerState {
            is_current: current(),
            clock: ClockState::default(),
            is_new: false,
        });
        let origins = (0..).zip(nodes.iter().map(|node| Origin::new("127.0.0.1", node.port())));
        let counts = Arc::<ForwardCounts>::default();
        let forwarder = RequestForwarder::new(
            led,
            Peers::new(origins, None),
            SharedParticipants::default(),
            Arc::clone(&counts),
        );
        let clock = Arc::new(crate::common::StandingClock);
        let roles =
            FollowerRoles::new(HubRole::Follows(FollowerRole { health, forwarder: forwarder.clone() }));
        let context = GatewayContext::of(clock, roles.clone());
        let gateway = Gateway::new(context, GatewayConfig::default(), &mut Registry::default());
        let workers = Workers::start(2, "follower").unwrap();
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let server = Server::serve(bound, Limits::default(), &workers, Arc::new(gateway));
        Self { server, workers, roles, forwarder, leads, is_current, counts }
    }

    fn connect(&self) -> Client {
        Client::to(self.server.local_addr())
    }

    fn ask(&self, request: &[u8]) -> Answer {
        self.connect().exchange(request)
    }

    /// Makes another node the leader.
    fn elect(&self, node: Option<u32>) {
        let elected = |lead: &mut KnownLeader| {
            *lead = KnownLeader { epoch: lead.epoch + 1, node, ..KnownLeader::default() }
        };
        self.leads.send_modify(elected);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.server.begin_shutdown();
        self.workers.shutdown();
    }
}

/// A node that is paused: it reads and does not answer. With `closes` it ends the connection instead.
struct Silent {
    address: SocketAddr,
    heard: Receiver<()>,
}

impl Silent {
    fn start(closes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (hear, heard) = channel();
        thread::spawn(move || {
            let mut kept = Vec::new();
            for mut stream in listener.incoming().map_while(Result::ok) {
                if stream.read(&mut [0; 64 * 1024]).is_ok_and(|bytes| bytes > 0) && hear.send(()).is_err() {
                    return;
                }
                kept.push(stream);
                if closes {
                    kept.clear();
                }
            }
        });
        Self { address, heard }
    }

    /// Waits until it has received bytes.
    fn hears(&self) {
        self.heard.recv_timeout(AMPLE).unwrap();
    }
}

/// An address without a listener.
fn nowhere() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn look_up() -> Vec<u8> {
    let media = "application/vnd.interoperability.parties+json;version=1.0";
    let edits =
        [format!("content-type: {media}"), format!("accept: {media}"), "-fspiop-destination".to_owned()];
    request("GET /parties/MSISDN/123", &edits.each_ref().map(String::as_str), "")
}

fn is_unavailable(answer: &Answer) {
    assert_eq!((answer.status, answer.code()), (503, 2003), "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
}

#[test]
fn follower_returns_the_leaders_answers() {
    let recorder = Arc::new(Recorder(Mutex::default()));
    let leader = Leader::start(Some(Arc::clone(&recorder)));
    let follower = Follower::of(&[leader.port.local_addr()]);
    let (mut there, mut here) = (leader.running.connect(), follower.connect());
    let large = prepare_body(ID).replacen('{', &format!(r#"{{"filler":"{}","#, "x".repeat(60_000)), 1);
    for (request, status) in [
        (post(&["fspiop-source: ghost"], prepare_body(ID)), 400),
        (post(&["-date"], prepare_body(ID)), 400),
        (post(&[], "{}"), 400),
        (post(&["x-own: a", "+x-own: b"], prepare_body(ID)), 202),
        (post(&[], &large), 202),
        (get(ID, &[]), 202),
        (get("no%20id", &["-fspiop-destination"]), 202),
        (put(ID, &["-accept"], fulfil_body()), 200),
        (put_error("no-id", &["fspiop-source: bluewallet", "-accept"], ERROR_BODY), 200),
        (look_up(), 202),
        (request("PATCH /transfers/x", &[], "{}"), 501),
        (request("GET /nothing", &[], ""), 404),
    ] {
        let (expected, found) = (there.exchange(&request), here.exchange(&request));
        let text = String::from_utf8_lossy(&request[..request.len().min(400)]).into_owned();
        assert_eq!(expected.status, status, "{text}\n{expected:?}");
        assert_eq!((found.status, &found.body), (expected.status, &expected.body), "{text}");
    }
    let taken = recorder.0.lock().unwrap();
    let [one, other] = &taken[..] else { panic!("{taken:?}") };
    assert_eq!((one.path(), &one.headers, &one.body), (other.path(), &other.headers, &other.body));
}

#[test]
fn request_accepted_by_a_follower_is_recorded_unchanged() {
    let leader = Leader::start(None);
    let follower = Follower::of(&[leader.port.local_addr()]);
    let body = prepare_body(ID);
    assert_eq!(follower.ask(&post(&["x-own: 1", "authorization: secret"], &body)).status, 202);
    let running = &leader.running;
    assert_eq!(running.records(), 1);
    let payload: Payload = running.wait(running.handle.payload(running.last_seq())).unwrap().unwrap();
    let headers = String::from_utf8_lossy(&payload.headers).into_owned();
    assert_eq!(payload.body, body.as_bytes());
    assert!(
        headers.contains("x-own: 1\r\n") && headers.contains("fspiop-source: greenbank\r\n"),
        "{headers}"
    );
    assert!(!headers.contains("secret") && !headers.contains("host:"), "{headers}");
    assert_eq!(running.wait(position(&running.handle, "greenbank")), "125.5");
}

#[test]
fn unanswered_prepare_is_repeated_to_the_next_leader_and_a_lookup_is_not() {
    let leader = Leader::start(Some(Arc::new(Recorder(Mutex::default()))));
    for closes in [false, true] {
        let silent = Silent::start(closes);
        let follower = Follower::of(&[silent.address, leader.port.local_addr()]);
        let id = if closes { ID } else { "01563e3a-b5d3-4676-8c61-efb99302bd5b" };
        let records = leader.running.records();
        let mut client = follower.connect();
        client.send(&post(&[], prepare_body(id)));
        silent.hears();
        follower.elect(None);
        follower.elect(Some(1));
        assert_eq!(client.answer().status, 202, "closes: {closes}");
        assert_eq!(leader.running.records(), records + 1);
        assert!(follower.counts.repeated.load(Ordering::Relaxed) > 0);
    }
    let silent = Silent::start(true);
    let follower = Follower::of(&[silent.address, leader.port.local_addr()]);
    let answer = follower.ask(&look_up());
    is_unavailable(&answer);
    assert!(answer.body.contains("the outcome is not known"), "{answer:?}");
    assert_eq!(follower.counts.unknown.load(Ordering::Relaxed), 1);
}

#[test]
fn undelivered_requests_wait_for_the_next_leader() {
    let recorder = Arc::new(Recorder(Mutex::default()));
    let leader = Leader::start(Some(Arc::clone(&recorder)));
    let mut former = Leader::start(None);
    // The engine of this node has stopped, but its port is still open.
    former.running.engine.take().unwrap().shutdown();
    for (number, first) in [former.port.local_addr(), nowhere()].into_iter().enumerate() {
        let follower = Follower::of(&[first, leader.port.local_addr()]);
        let mut clients = [(); 2].map(|()| follower.connect());
        clients[0].send(&post(&[], prepare_body(ID)));
        clients[1].send(&look_up());
        while follower.counts.repeated.load(Ordering::Relaxed) < 4 {
            thread::yield_now();
        }
        follower.elect(Some(1));
        assert_eq!(clients.map(|mut client| client.answer().status), [202, 202]);
        assert_eq!(recorder.0.lock().unwrap().len(), number + 1);
    }
}

/// The first lines of the requests that a node received.
type Asked = Mutex<Vec<String>>;

/// A node that records each request, and answers it as a test says.
struct Scripted {
    address: SocketAddr,
    asked: Arc<Asked>,
}

impl Scripted {
    fn start(answer: impl Fn(&Asked) -> &'static str + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, answer) = (Arc::<Asked>::default(), Arc::new(answer));
        let noted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut writer = stream.try_clone().unwrap();
                    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
                    while let Some(first) = lines.next() {
                        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
                        noted.lock().unwrap().push(first);
                        let text = answer(&noted);
                        write!(writer, "HTTP/1.1 {text}\r\ncontent-length: 0\r\n\r\n").unwrap();
                    }
                });
            }
        });
        Self { address, asked }
    }
}

/// All requests at once would overload the leader just when it takes over, or when its brokers are back.
#[test]
fn unresponsive_leader_is_probed_by_one_request_at_a_time() {
    const COUNT: usize = 20;
    const MORE: usize = 10;
    let others_are_there = |asked: &Asked| {
        let again = asked.lock().unwrap()[COUNT..].iter().cloned().collect::<BTreeSet<_>>();
        again.len() == COUNT
    };
    let has_answered = AtomicBool::new(false);
    let leader = Scripted::start(move |asked| {
        let count = || asked.lock().unwrap().len();
        while count() < COUNT {
            thread::yield_now();
        }
        if count() < COUNT + MORE {
            return "421 Misdirected Request";
        }
        // After its first answer all requests come at once, although the next answer takes a long time.
        while has_answered.swap(true, Ordering::SeqCst) && !others_are_there(asked) {
            thread::yield_now();
        }
        "204 No Content"
    });
    let follower = Follower::of(&[leader.address]);
    let mut clients: Vec<_> = (0..COUNT).map(|_| follower.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&get(&format!("transfer-{number}"), &[]));
    }
    assert!(clients.into_iter().all(|mut client| client.answer().status == 202));
    let mut first = leader.asked.lock().unwrap().clone();
    let again = first.split_off(COUNT);
    assert_eq!(first.into_iter().collect::<BTreeSet<_>>().len(), COUNT, "each is tried once");
    assert!(again[..MORE].iter().all(|asked| *asked == again[0]), "one at a time: {again:?}");
    assert!(again.len() <= MORE + COUNT, "then each once more: {again:?}");
}

#[test]
fn request_that_the_leaders_http_rejects_is_not_repeated() {
    let leader = Scripted::start(|_| "431 Request Header Fields Too Large");
    let follower = Follower::of(&[leader.address]);
    is_unavailable(&follower.ask(&get(ID, &[])));
    assert_eq!(leader.asked.lock().unwrap().len(), 1);
    // The leader's errors are forwarded unchanged.
    let leader = Leader::start(None);
    let mut client = Client::to(leader.port.local_addr());
    let answer = client.exchange(&request("GET /transfers/x", &["expect: more"], ""));
    assert_eq!(answer.status, 417);
    assert!(answer.body.starts_with("3101 "), "{answer:?}");
}

#[test]
fn connections_to_a_former_leader_are_closed() {
    let leaders = [Leader::start(None), Leader::start(None)];
    let follower = Follower::of(&leaders.each_ref().map(|leader| leader.port.local_addr()));
    let asks = || assert_eq!(follower.ask(&get(ID, &[])).status, 202);
    asks();
    assert_eq!(leaders[0].port.connections(), 1);
    follower.elect(Some(1));
    asks();
    let since = std::time::Instant::now();
    while leaders[0].port.connections() > 0 {
        assert!(since.elapsed() < AMPLE, "the connection stays");
        thread::yield_now();
    }
    assert_eq!(leaders[1].port.connections(), 1);
}

#[test]
fn request_without_a_leader_is_answered_in_time() {
    let leader = Leader::start(None);
    let follower = Follower::of(&[leader.port.local_addr()]);
    let health = |client: &mut Client| client.exchange(&request("GET /health", &[], ""));
    let mut client = follower.connect();
    let answer = health(&mut client);
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains(r#""role":"follower""#), "{answer:?}");
    follower.is_current.store(false, Ordering::SeqCst);
    is_unavailable(&client.exchange(&post(&[], prepare_body(ID))));
    assert_eq!(health(&mut client).status, 502);
    assert_eq!(client.exchange(&request("GET /live", &[], "")).status, 200);
    follower.is_current.store(true, Ordering::SeqCst);
    follower.elect(None);
    is_unavailable(&client.exchange(&post(&[], prepare_body(ID))));
    assert_eq!(follower.counts.unreachable.load(Ordering::Relaxed), 1);
    assert_eq!(leader.running.records(), 0);
    assert_eq!(client.exchange(&request("DELETE /endpointcache", &[], "")).status, 404);
}

/// The role of a node that processes requests with the engine of `running`.
fn leads(running: &Running, forwarder: &RequestForwarder) -> HubRole<(Transfers, Others)> {
    let engine = running.handle.clone();
    let handler = (Transfers::new(engine.clone()), Others(None));
    HubRole::Leads(LeaderRole {
        engine,
        handler,
        couriers: Arc::default(),
        forwarder: Some(forwarder.clone()),
    })
}

fn id_of(number: u32) -> String {
    format!("01563e3a-b5d3-4676-8c61-{number:012}")
}

#[test]
fn role_changes_on_an_open_connection() {
    let (other, own) = (Leader::start(None), Running::plain());
    let follower = Follower::of(&[other.port.local_addr()]);
    let role = follower.roles.get();
    let HubRole::Follows(FollowerRole { health, .. }) = &*role else { panic!("it follows") };
    let health = Arc::clone(health);
    let mut client = follower.connect();
    let mut pays = |number: u32| client.exchange(&post(&[], prepare_body(&id_of(number)))).status;
    assert_eq!(pays(1), 202);
    follower.roles.set(leads(&own, &follower.forwarder));
    assert_eq!(pays(2), 202);
    assert_eq!((other.running.records(), own.records()), (1, 1));
    let forwarder = follower.forwarder.clone();
    follower.roles.set(HubRole::Follows(FollowerRole { health, forwarder }));
    assert_eq!(pays(3), 202);
    assert_eq!((other.running.records(), own.records()), (2, 1));
}

/// The engine of a leader stops, and the log does not yet show who leads.
#[test]
fn request_that_meets_a_handover_is_forwarded_to_the_new_leader() {
    let (next, mut former, mut stopped) = (Leader::start(None), Running::plain(), Leader::start(None));
    // The first address belongs to a stopped node, the second one to the leader.
    stopped.running.engine.take().unwrap().shutdown();
    let follower = Follower::of(&[stopped.port.local_addr(), next.port.local_addr()]);
    follower.roles.set(leads(&former, &follower.forwarder));
    let handed_over = KnownLeader { epoch: 1, node: None, is_sought: true };
    follower.leads.send_replace(handed_over);
    let mut client = follower.connect();
    let mut pays = |number: u32| client.exchange(&post(&[], prepare_body(&id_of(number)))).status;
    assert_eq!((pays(1), former.records()), (202, 1));
    former.engine.take().unwrap().shutdown();
    assert_eq!((pays(2), pays(3)), (202, 202));
    assert_eq!((former.records(), next.running.records()), (1, 2));
}

#[test]
fn blocked_participant_is_rejected_by_the_leader() {
    let leader = Leader::start(None);
    let follower = Follower::of(&[leader.port.local_addr()]);
    let running = &leader.running;
    let block = AdminCommand::SetBlock { block: Block::Participant(name("greenbank")) };
    running.wait(running.handle.submit(Command::Admin(block), Payload::default())).unwrap();
    let participants = running.wait(running.handle.read(Participants::of)).unwrap();
    assert!(participants.has_blocked());
    leader.participants.set(Arc::new(participants));
    let answer = follower.ask(&post(&[], prepare_body(ID)));
    assert_eq!((answer.status, answer.code()), (403, 3000), "{answer:?}");
}

/// Malformed requests, endless heads and bodies, and silence.
#[test]
fn port_for_nodes_has_limits() {
    let leader = Leader::start(None);
    let port = leader.port.local_addr();
    let first_line = |bytes: &[u8]| {
        let mut stream = TcpStream::connect(port).unwrap();
        stream.set_read_timeout(Some(AMPLE)).unwrap();
        // The connection may be closed before all bytes are sent.
        let _ = stream.write_all(bytes);
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        line
    };
    assert!(first_line(&[0xff; 4096]).starts_with("HTTP/1.1 400"));
    let endless = [b"GET /transfers/x HTTP/1.1\r\nx: ".to_vec(), vec![b'x'; 128 * 1024]].concat();
    assert!(first_line(&endless).starts_with("HTTP/1.1 431"));
    let mut client = Client::to(port);
    let answer = client.exchange(&post(&[], vec![b'x'; BODY_BYTES_MAX + 1]));
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.starts_with("3104 "), "{answer:?}");
    let mut client = Client::to(port);
    let answer = client.exchange(&request("GET /health", &[], ""));
    assert_eq!(
        (answer.status, answer.body.split(' ').next()),
        (404, Some("3002")),
        "it has no other endpoints"
    );
    assert_eq!(leader.running.records(), 0);
    let _ = leader.running.wait(leader.port.shutdown(Instant::now()));
}
