//! What a certificate is asked for.

/// The side of a connection that a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// A listener's.
    Server,
    /// A caller's.
    Client,
    /// Of a node of a cluster, which is both among its like.
    Node,
}

impl Usage {
    /// As the index has it.
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
    /// RSA with 2048 bits, for peers that know nothing else.
    Rsa2048,
}

/// A certificate to be issued.
#[derive(Clone, Debug)]
pub struct Order {
    /// Common name, and the name of the files.
    pub name: String,
    /// The side that it is for.
    pub usage: Usage,
    /// Host names and addresses, for servers.
    pub hosts: Vec<String>,
    /// A signing request in PEM (PKCS#10); without one a key is made.
    pub request: Option<String>,
    /// The key that is made.
    pub key: KeyKind,
    /// Start of validity, in seconds since 1970.
    pub from_s: i64,
    /// Validity in days.
    pub days: u32,
    /// Whether the name may have a valid certificate already, as during a renewal.
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

    /// The same for these hosts.
    pub fn with_hosts(mut self, hosts: &[&str]) -> Self {
        self.hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        self
    }
}
