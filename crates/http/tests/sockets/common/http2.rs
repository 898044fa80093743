//! A server that offers HTTP/2, and a client that writes frames by hand.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use upesi_http::{
    ClientTls, HandshakeCounts, Limits, Origin, Pool, PoolConfig, ServerTls, ServerTlsOptions, Workers,
};
use upesi_keys::Keys;
use upesi_pki::{Authority, KeyKind, Order, Usage};
use upesi_tls::{ClientFiles, Identity, Protocols, ServerFiles, Trust, present_s};

use super::{AMPLE, Running};

/// An authority and its certificates: `hub` for servers, `greenbank` and `bluewallet` for clients.
pub struct Scheme {
    directory: TempDir,
    pub authority: Authority,
    handshakes: Workers,
}

impl Scheme {
    pub fn new() -> Self {
        Self::named("Scheme")
    }

    pub fn named(name: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let mut authority = Authority::init(directory.path(), name, present_s(), 100, KeyKind::P256).unwrap();
        let hub = Order::new("hub", Usage::Server, present_s());
        authority.issue(&hub.with_hosts(&["127.0.0.1"])).unwrap();
        let named = Order::new("named", Usage::Server, present_s());
        authority.issue(&named.with_hosts(&["hub.example", "hub.test", "127.0.0.1"])).unwrap();
        for name in ["greenbank", "bluewallet"] {
            authority.issue(&Order::new(name, Usage::Client, present_s())).unwrap();
        }
        authority.make_list(present_s(), 30).unwrap();
        Self { directory, authority, handshakes: Workers::start(1, "handshake").unwrap() }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn identity(&self, name: &str) -> Identity {
        let file = |ending: &str| self.file(&format!("{name}.{ending}"));
        Identity { certificate_file: file("pem"), key_file: file("key") }
    }

    fn trust(&self, with_list: bool) -> Trust {
        let crl_file = with_list.then(|| self.file("crl.pem"));
        Trust { anchors_file: self.file("ca.pem"), crl_file, refuses_stale_crls: false }
    }

    /// TLS of a server that may require certificates.
    pub fn server(&self, protocols: Protocols, is_mutual: bool) -> ServerTls {
        let clients = is_mutual.then(|| self.trust(true));
        let files = ServerFiles { identity: self.identity("hub"), clients };
        ServerTls::load_with(files, Keys::in_files(), protocols).unwrap()
    }

    /// TLS of a server whose certificate has the names `hub.example` and `hub.test`.
    pub fn named_server(&self) -> ServerTls {
        ServerTls::load(ServerFiles { identity: self.identity("named"), clients: None }).unwrap()
    }

    /// TLS of a server with a block list.
    pub fn blocking(&self, protocols: Protocols) -> ServerTls {
        let files = ServerFiles { identity: self.identity("hub"), clients: Some(self.trust(true)) };
        ServerTls::load_blocking(files, Some(self.file("blocked")), Keys::in_files(), protocols).unwrap()
    }

    pub fn client(&self, protocols: Protocols) -> ClientTls {
        self.client_of("greenbank", protocols)
    }

    pub fn client_of(&self, name: &str, protocols: Protocols) -> ClientTls {
        let files = ClientFiles { servers: self.trust(false), identity: Some(self.identity(name)) };
        ClientTls::load_with(files, Keys::in_files(), protocols).unwrap()
    }

    pub fn serve(&self, limits: Limits, tls: ServerTls) -> Running {
        self.serve_counted(limits, tls).0
    }

    pub fn serve_counted(&self, limits: Limits, tls: ServerTls) -> (Running, Arc<HandshakeCounts>) {
        let secured = self.secured(tls);
        let counts = secured.counts.clone();
        (Running::start_with(limits, Some(secured)), counts)
    }

    pub fn secured(&self, tls: ServerTls) -> ServerTlsOptions {
        let worker = self.handshakes.get(0).clone();
        let (handshake_timeout, handshakes_max) = (10 * AMPLE, 512);
        ServerTlsOptions { tls, worker, handshake_timeout, handshakes_max, counts: Arc::default() }
    }

    /// A server with HTTP/2 that requires no certificate.
    pub fn start(&self, limits: Limits) -> Running {
        self.serve(limits, self.server(Protocols::Http2AndHttp1, false))
    }

    pub fn pool(&self, port: u16, config: PoolConfig) -> Pool {
        let tls = Some(self.client(Protocols::Http2AndHttp1));
        Pool::new(Origin::secure("127.0.0.1", port), PoolConfig { tls, ..config })
    }

    /// A connection that offers these protocols.
    pub async fn connect(&self, port: u16, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
    }

    /// A connection with HTTP/2, with the first frames sent.
    pub async fn peer(&self, running: &Running) -> Peer {
        self.peer_with(running, &[]).await
    }

    /// Like `peer`, with these settings.
    pub async fn peer_with(&self, running: &Running, settings: &[(u16, u32)]) -> Peer {
        self.peer_at(running.server.local_addr().port(), settings).await
    }

    /// Like `peer_with`, with any server.
    pub async fn peer_at(&self, port: u16, settings: &[(u16, u32)]) -> Peer {
        let stream = self.connect(port, &[b"h2"]).await;
        let mut peer = Peer { stream };
        // Without a table of fields, each answer can be decoded alone.
        let settings: Vec<u8> = [&[(1, 0)], settings]
            .concat()
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        assert!(peer.send(&[PREFACE, &frame(SETTINGS, 0, 0, &settings)].concat()).await);
        peer
    }
}

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
pub const END_HEADERS: u8 = 4;

pub const NO_ERROR: u32 = 0;
pub const REFUSED_STREAM: u32 = 7;
pub const ENHANCE_YOUR_CALM: u32 = 11;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields as literals that are not added to a table (RFC 7541 §6.2.2).
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                block.push(u8::try_from(length).unwrap());
            } else {
                // An integer with a prefix of seven bits (RFC 7541 §5.1).
                block.push(127);
                let mut rest = length - 127;
                while rest >= 128 {
                    block.push(u8::try_from(rest % 128 + 128).unwrap());
                    rest /= 128;
                }
                block.push(u8::try_from(rest).unwrap());
            }
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The frame of a request without a body.
pub fn get(stream: u32, path: &str) -> Vec<u8> {
    let block = fields(&[(":method", "GET"), (":scheme", "https"), (":authority", "hub"), (":path", path)]);
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// The first frame of a request with a body.
pub fn post(stream: u32, path: &str) -> Vec<u8> {
    let block = fields(&[(":method", "POST"), (":scheme", "https"), (":authority", "hub"), (":path", path)]);
    frame(HEADERS, END_HEADERS, stream, &block)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

/// The outcome of a request, or of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Status(u16),
    /// The stream is reset with this error code.
    Reset(u32),
    /// The connection ends with this error code.
    Away(u32),
    /// The connection is closed without an error code.
    Closed,
    /// No frame arrives for a long time.
    Nothing,
}

/// The client's side of a connection.
pub struct Peer {
    stream: TlsStream<TcpStream>,
}

impl Peer {
    /// Returns whether the bytes could be sent.
    pub async fn send(&mut self, bytes: &[u8]) -> bool {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        timeout(AMPLE, sent).await.expect("the server reads").is_ok()
    }

    /// The next frame; `None` at the end of the connection. Acknowledges settings and pings.
    pub async fn next(&mut self) -> Option<Frame> {
        let mut header = [0; 9];
        self.read(&mut header).await?;
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; length as usize];
        self.read(&mut payload).await?;
        let stream = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let frame_read = Frame { kind: header[3], flags: header[4], stream, payload };
        match (frame_read.kind, frame_read.flags & ACK) {
            (SETTINGS, 0) => self.acknowledge(&frame(SETTINGS, ACK, 0, &[])).await,
            (PING, 0) => self.acknowledge(&frame(PING, ACK, 0, &frame_read.payload)).await,
            _ => {}
        }
        Some(frame_read)
    }

    /// The connection may have ended.
    async fn acknowledge(&mut self, frame: &[u8]) {
        self.send(frame).await;
    }

    async fn read(&mut self, into: &mut [u8]) -> Option<()> {
        timeout(AMPLE, self.stream.read_exact(into)).await.expect("the server sends a frame").ok().map(|_| ())
    }

    /// The next outcome of a stream.
    pub async fn outcome(&mut self, stream: u32) -> Outcome {
        loop {
            let Ok(next) = timeout(AMPLE / 6, self.next()).await else { return Outcome::Nothing };
            let Some(frame) = next else { return Outcome::Closed };
            let code = |from: usize| u32::from_be_bytes(frame.payload[from..from + 4].try_into().unwrap());
            match frame.kind {
                HEADERS if frame.stream == stream => return Outcome::Status(status_of(&frame.payload)),
                RST_STREAM if frame.stream == stream => return Outcome::Reset(code(0)),
                GOAWAY if code(4) != NO_ERROR => return Outcome::Away(code(4)),
                _ => {}
            }
        }
    }

    /// The status of an answer, and its body.
    pub async fn answer(&mut self, stream: u32) -> (u16, Vec<u8>) {
        let (mut status, mut body) = (None, Vec::new());
        loop {
            let frame = self.next().await.expect("an answer");
            match frame.kind {
                HEADERS if frame.stream == stream => status = Some(status_of(&frame.payload)),
                DATA if frame.stream == stream => body.extend_from_slice(&frame.payload),
                _ => continue,
            }
            if frame.flags & END_STREAM != 0 {
                return (status.expect("a head"), body);
            }
        }
    }

    /// Reads to the end of the connection. Returns the server's error code, if there was one.
    pub async fn until_closed(&mut self) -> Option<u32> {
        let mut reason = None;
        while let Some(frame) = self.next().await {
            if frame.kind == GOAWAY {
                reason = Some(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()));
            }
        }
        reason
    }

    /// The underlying socket, to check for received bytes.
    pub fn socket(&self) -> std::net::TcpStream {
        use std::os::fd::AsFd as _;
        self.stream.get_ref().0.as_fd().try_clone_to_owned().unwrap().into()
    }
}

/// The status at the beginning of a block of fields (RFC 7541, appendices A and B).
fn status_of(block: &[u8]) -> u16 {
    match *block {
        // The size of the table.
        [0x20..=0x3f, ref rest @ ..] => status_of(rest),
        [indexed @ 0x88..=0x8e, ..] => [200, 204, 206, 304, 400, 404, 500][usize::from(indexed - 0x88)],
        [0x08 | 0x48, length, ref rest @ ..] if length & 0x80 != 0 => {
            let bits: Vec<u8> =
                rest.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
            let (mut status, mut place) = (0, 0);
            for _ in 0..3 {
                let number = |bits: &[u8]| bits.iter().fold(0, |sum, bit| sum * 2 + u16::from(*bit));
                let short = number(&bits[place..place + 5]);
                let (digit, length) =
                    if short < 3 { (short, 5) } else { (number(&bits[place..place + 6]) - 0x16, 6) };
                status = status * 10 + digit;
                place += length;
            }
            status
        }
        [0x08 | 0x48, 3, ref rest @ ..] => str::from_utf8(&rest[..3]).unwrap().parse().unwrap(),
        ref other => panic!("not a status: {other:x?}"),
    }
}

/// Waits until something holds.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let waited = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(AMPLE, waited).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}
