//! Connections of an attacker: without TLS, or with TLS and the attacker's certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

/// The name of HTTP/2 in a handshake.
pub const HTTP_2: &[u8] = b"h2";

/// A connection over any transport.
pub type Stream = Box<dyn Duplex>;

/// A connection in both directions.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Connects to one address, from any of the attacker's addresses.
#[derive(Clone)]
pub struct Dialer {
    target: SocketAddr,
    tls: Option<TlsConnector>,
}

impl Dialer {
    /// Creates a dialer of connections without TLS.
    pub const fn clear(target: SocketAddr) -> Self {
        Self { target, tls: None }
    }

    /// Creates a dialer of TLS connections. If the configuration resumes no session, each has a full handshake.
    pub fn secured(target: SocketAddr, config: Arc<ClientConfig>) -> Self {
        Self { target, tls: Some(TlsConnector::from(config)) }
    }

    /// Connects. Fails if the target refuses the connection or the handshake.
    pub async fn dial(&self, source: Ipv4Addr) -> std::io::Result<Stream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((source, 0).into())?;
        let stream = socket.connect(self.target).await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::IpAddress(self.target.ip().into());
        Ok(Box::new(tls.connect(name, stream).await?))
    }
}
