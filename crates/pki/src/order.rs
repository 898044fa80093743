//! Specification of a certificate.

/// The side of a connection that a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// For a listener.
    Server,
    /// For a client.
    Client,
    /// For a node of a cluster, which is server and client towards other nodes.
    Node,
}

impl Usage {
    /// Name in the index.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Node => "node",
        }
    }
}

/// The kind of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyKind {
    /// ECDSA on P-256: small and fast.
    #[default]
    P256,
    /// RSA with 2048 bits, for peers that support nothing else.
    Rsa2048,
}

/// A certificate to be issued.
#[derive(Clone, Debug)]
pub struct Order {
    /// Common name, and the name of the files.
    pub name: String,
    /// The side of a connection.
    pub usage: Usage,
    /// Host names and addresses, for servers.
    pub hosts: Vec<String>,
    /// A signing request in PEM (PKCS#10); without one a key is created.
    pub request: Option<String>,
    pub key: KeyKind,
    /// Start of validity, in seconds since 1970.
    pub from_s: i64,
    /// Validity in days.
    pub days: u32,
    /// Whether the name may already have a valid certificate, as during a renewal.
    pub replaces: bool,
}

impl Order {
    /// A certificate valid for a year from this instant, with a new key.
    pub fn new(name: &str, usage: Usage, from_s: i64) -> Self {
        Self {
            name: name.to_owned(),
            usage,
            hosts: Vec::new(),
            request: None,
            key: KeyKind::default(),
            from_s,
            days: 365,
            replaces: false,
        }
    }

    /// Sets the hosts.
    pub fn with_hosts(mut self, hosts: &[&str]) -> Self {
        self.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        self
    }
}
