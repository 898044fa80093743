//! A scheme's authority, and the TLS of a hub and its DFSPs.

use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::time::Instant;
use upesi_fspiop::Operation;
use upesi_http::{Bytes, ClientTls, Full, Method, Origin, Pool, PoolConfig, Request, SendError, ServerTls};
use upesi_keys::Keys;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{ClientFiles, Identity, Protocols, ServerFiles, Trust, present_s};

use super::dfsp::{Answer, Dfsp};
use super::message::{Message, Sent, Terms};
use super::{AMPLE, World};

/// An authority, and its certificates.
pub struct Pki {
    directory: TempDir,
    pub authority: Authority,
}

impl Pki {
    /// An authority with certificates of the hub: `hub` for its ports, and `hub-client` for calls of DFSPs.
    pub fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let authority = Authority::init(directory.path(), "Scheme", present_s(), 100, KeyKind::P256).unwrap();
        let mut pki = Self { directory, authority };
        pki.issue(Usage::Server, "hub");
        pki.issue(Usage::Client, "hub-client");
        pki
    }

    /// Issues a certificate. Certificates of servers and nodes are for 127.0.0.1. Returns the binding of its key.
    pub fn issue(&mut self, usage: Usage, name: &str) -> String {
        self.issue_for("127.0.0.1", usage, name)
    }

    /// Issues a certificate for another host.
    pub fn issue_for(&mut self, host: &str, usage: Usage, name: &str) -> String {
        let hosts: &[&str] = if usage == Usage::Client { &[] } else { &[host] };
        let order = Order { replaces: true, ..Order::new(name, usage, present_s()) };
        let issued = self.authority.issue(&order.with_hosts(hosts)).unwrap();
        format!("spki-sha256:{}", issued.entry.spki_sha256)
    }

    /// A hub with mutual TLS in both directions on the FSPIOP side. Its DFSPs are bound by their keys and listen with
    /// TLS.
    pub fn world(&mut self, names: &[&str], more: &[(&str, &str)]) -> World {
        self.world_speaking(names, Protocols::Http1, more)
    }

    /// Like `world`, with DFSPs that offer these protocols.
    pub fn world_speaking(&mut self, names: &[&str], protocols: Protocols, more: &[(&str, &str)]) -> World {
        let given = [self.listener("fspiop_tls"), self.outbound()].concat();
        let mut settings: Vec<(&str, &str)> = given.iter().map(|(key, value)| (&**key, &**value)).collect();
        settings.extend_from_slice(more);
        let mut world = World::bare(&settings);
        world.prepare_scheme();
        for name in names {
            let key = self.issue(Usage::Client, name);
            self.issue(Usage::Server, &format!("{name}-server"));
            let tls = self.server_speaking(&format!("{name}-server"), protocols);
            let dfsp = Dfsp::start_secured(name, tls);
            world.onboard(name);
            world.bind(name, &key);
            world.set_endpoints(name, &dfsp.base_url());
            world.dfsps.insert((*name).to_owned(), dfsp);
        }
        world
    }

    pub fn revoke(&mut self, name: &str) {
        self.authority.revoke(name, present_s(), 30).unwrap();
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }

    /// Settings of a hub whose port in `section` requires certificates.
    pub fn listener(&self, section: &str) -> Vec<(String, String)> {
        let setting = |name: &str, value: String| (format!("{section}.{name}"), value);
        vec![
            setting("mode", "mutual".to_owned()),
            setting("certificate_file", self.text("hub.pem")),
            setting("key_file", self.text("hub.key")),
            setting("anchors_file", self.text("ca.pem")),
            setting("crl_file", self.text("crl.pem")),
        ]
    }

    /// Settings of a hub that calls DFSPs with TLS and a client certificate.
    pub fn outbound(&self) -> Vec<(String, String)> {
        let setting = |name: &str, value: String| (format!("outbound_tls.{name}"), value);
        vec![
            setting("anchors_file", self.text("ca.pem")),
            setting("certificate_file", self.text("hub-client.pem")),
            setting("key_file", self.text("hub-client.key")),
        ]
    }

    fn identity(&self, name: &str) -> Identity {
        Identity {
            certificate_file: self.file(&format!("{name}.pem")),
            key_file: self.file(&format!("{name}.key")),
        }
    }

    fn trust(&self) -> Trust {
        Trust { anchors_file: self.file("ca.pem"), crl_file: None, refuses_stale_crls: false }
    }

    /// TLS of a DFSP's listener, which requires certificates.
    pub fn server(&self, name: &str) -> ServerTls {
        self.server_speaking(name, Protocols::Http1)
    }

    fn server_speaking(&self, name: &str, protocols: Protocols) -> ServerTls {
        let files = ServerFiles { identity: self.identity(name), clients: Some(self.trust()) };
        ServerTls::load_with(files, Keys::in_files(), protocols).unwrap()
    }

    /// Connections to a port with this certificate, or without one.
    pub fn caller(&self, identity: Option<&str>, address: SocketAddr) -> Caller {
        self.caller_speaking(identity, address, Protocols::Http1)
    }

    /// Like `caller`, with a new connection for each request.
    pub fn caller_anew(&self, identity: Option<&str>, address: SocketAddr) -> Caller {
        self.caller_with(identity, address, Protocols::Http1, false)
    }

    /// Like [`Self::caller`], with one of these protocols.
    pub fn caller_speaking(
        &self,
        identity: Option<&str>,
        address: SocketAddr,
        protocols: Protocols,
    ) -> Caller {
        self.caller_with(identity, address, protocols, true)
    }

    fn caller_with(
        &self,
        identity: Option<&str>,
        address: SocketAddr,
        protocols: Protocols,
        keep_alive: bool,
    ) -> Caller {
        let files = ClientFiles { servers: self.trust(), identity: identity.map(|name| self.identity(name)) };
        let tls = ClientTls::load_with(files, Keys::in_files(), protocols).unwrap();
        let config = PoolConfig { tls: Some(tls), keep_alive, ..PoolConfig::default() };
        Caller(Pool::new(Origin::secure("127.0.0.1", address.port()), config))
    }
}

/// A DFSP or an operator, with its certificate.
pub struct Caller(Pool);

impl Caller {
    pub async fn send(&self, sent: &Sent) -> Result<Answer, SendError> {
        let mut request = Request::builder().method(sent.method).uri(&sent.path);
        for (name, value) in &sent.headers {
            request = request.header(name, value);
        }
        self.exchange(request.body(Full::new(Bytes::from(sent.body.clone()))).unwrap()).await
    }

    /// Whether its requests share a connection, as with HTTP/2.
    pub fn is_shared(&self) -> bool {
        self.0.connections_shared() > 0
    }

    pub async fn get(&self, path: &str) -> Result<Answer, SendError> {
        let request = Request::builder().method(Method::GET).uri(path).header("host", "localhost");
        self.exchange(request.body(Full::default()).unwrap()).await
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, SendError> {
        let answer = self.0.send(request, Instant::now() + AMPLE).await?;
        let head =
            answer.headers.iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap()));
        let body = String::from_utf8(answer.body.to_vec()).unwrap();
        Ok(Answer { status: answer.status.as_u16(), head: head.collect(), body })
    }
}

// Requests for tests of senders: the content is not important.

/// The status of an answer, and its FSPIOP code if it has one.
pub fn answered(world: &World, caller: &Caller, sent: &Sent) -> (u16, u16) {
    let answer = world
        .wait(caller.send(sent))
        .unwrap_or_else(|error| panic!("{} {}: {error}", sent.method, sent.path));
    let code = answer.body.split("\"errorCode\":\"").nth(1).map_or("0", |rest| &rest[..4]);
    (answer.status, code.parse().unwrap())
}

/// A payment from greenbank to bluewallet by these clients.
pub fn pay(world: &World, payer: &Caller, payee: &Caller, amount: &str) {
    let as_it_is = |message| message;
    pay_with(world, (payer, &as_it_is), (payee, &as_it_is), amount);
}

/// A client, and a change to its messages.
pub type By<'a> = (&'a Caller, &'a dyn Fn(Message) -> Message);

/// A payment with messages that are changed before they are sent.
pub fn pay_with(world: &World, (payer, of_payer): By<'_>, (payee, of_payee): By<'_>, amount: &str) {
    let id = world.new_id();
    let terms = Terms { amount: amount.to_owned(), ..Terms::new(&id, world.now()) };
    assert_eq!(answered(world, payer, &of_payer(Message::prepare(&terms)).into_sent()), (202, 0));
    world.dfsp("bluewallet").next(&id);
    assert_eq!(answered(world, payee, &of_payee(Message::fulfil(&id, "COMMITTED")).into_sent()), (200, 0));
    world.dfsp("greenbank").next(&id);
}

/// Checks after rejected requests that no DFSP received anything, that no id is used up, and that the transfer is
/// unchanged.
pub fn nothing_was_changed(world: &World, [green, blue]: [&Caller; 2], reserved: &str, new: &Terms) {
    world.expect_silence();
    assert_eq!(answered(world, blue, &Message::fulfil(reserved, "COMMITTED").into_sent()), (200, 0));
    assert_eq!(answered(world, green, &Message::prepare(new).into_sent()), (202, 0));
    world.dfsp("greenbank").next(reserved);
    world.dfsp("bluewallet").next(&new.id);
    assert_eq!(world.position("greenbank"), "15.75");
    assert_eq!(world.position("redmoney"), "0");
}

/// A message of every operation of the API, valid except for its sender: an answer from bluewallet to greenbank, or a
/// request from greenbank to bluewallet. The transfer of `reserved` waits for its fulfil; the transfer of `new` does
/// not exist.
pub fn of_every_operation(reserved: &str, new: &Terms) -> Vec<Message> {
    let message = |operation: Operation| {
        let (template, method) = (operation.path().template(), operation.method().as_str());
        let is_answer = matches!(method, "PUT" | "PATCH");
        let (source, destination) =
            if is_answer { ("bluewallet", "greenbank") } else { ("greenbank", "bluewallet") };
        let path = template
            .replace("{Type}", "MSISDN")
            .replace("{SubId}", "HOME")
            .replace("{SourceCurrency}", "KES")
            .replace("{TargetCurrency}", "TZS")
            .replace("{ID}", if template.contains("{Type}") { "254711000001" } else { reserved });
        match (method, template) {
            ("POST", "/transfers") => Message::prepare(new),
            ("PUT", "/transfers/{ID}") => Message::fulfil(reserved, "COMMITTED"),
            ("PUT", "/transfers/{ID}/error") => Message::abort(reserved, "5104", "not this one"),
            ("POST", "/participants/{Type}/{ID}") => {
                Message::of(method, &path, source, None, r#"{"fspId":"greenbank","currency":"KES"}"#)
            }
            ("PUT", "/parties/{Type}/{ID}") => {
                let party = r#"{"party":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"254711000001","fspId":"bluewallet"}}}"#;
                Message::of(method, &path, source, Some(destination), party)
            }
            ("GET" | "DELETE", _) => Message::of(method, &path, source, Some(destination), ""),
            _ => Message::of(method, &path, source, Some(destination), "{}"),
        }
    };
    Operation::all().map(message).collect()
}

pub fn source_of(message: &Message) -> String {
    message.headers.iter().find(|(name, _)| name == "fspiop-source").unwrap().1.clone()
}

/// Number of the journal's last record, after an operator has written another one.
pub fn last_record(world: &World, cap: u32) -> u64 {
    let limit = format!(
        r#"{{"currency":"KES","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":80}}}}"#
    );
    world.operate("PUT", "/participants/redmoney/limits", &limit);
    let journal = world.journal();
    journal.lines().last().and_then(|line| line.split_whitespace().next()?.parse().ok()).expect(&journal)
}
