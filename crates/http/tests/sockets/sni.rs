//! The name in the client's hello (SNI, RFC 6066 §3) must be one of the server's certificate; otherwise there is no
//! connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, Error, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use upesi_http::{HandshakeOutcome, Limits};

use crate::common::AMPLE;
use crate::common::http2::{Scheme, until};

/// The alert that ended a handshake.
fn alert(error: &io::Error) -> Option<AlertDescription> {
    match error.get_ref()?.downcast_ref::<Error>()? {
        Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

#[tokio::test]
async fn client_with_another_server_name_is_rejected() {
    let scheme = Scheme::new();
    let (running, counts) = scheme.serve_counted(Limits::default(), scheme.named_server());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(scheme.file("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = Arc::new(builder.unwrap().with_root_certificates(roots).with_no_client_auth());
    let (mut served, mut refused) = (0, 0);
    for (name, is_served) in [
        ("hub.example", true),
        ("hub.test", true),
        ("HUB.Example", true),
        // For an address, no name is sent.
        ("127.0.0.1", true),
        ("other.example", false),
        ("example", false),
        ("hub.example.org", false),
        ("a.hub.example", false),
        ("localhost", false),
        ("hub", false),
    ] {
        let socket = TcpStream::connect(running.server.local_addr()).await.unwrap();
        let called = ServerName::try_from(name).unwrap();
        let connect = TlsConnector::from(config.clone()).connect(called, socket);
        match timeout(AMPLE, connect).await.unwrap() {
            Ok(mut stream) => {
                assert!(is_served, "{name}");
                served += 1;
                stream
                    .write_all(b"GET /count HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                    .await
                    .unwrap();
                let mut answer = String::new();
                timeout(AMPLE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
                assert!(answer.starts_with("HTTP/1.1 200 "), "{name}: {answer}");
            }
            Err(error) => {
                // The server rejects the handshake before it sends its certificate.
                assert_eq!(
                    (is_served, alert(&error)),
                    (false, Some(AlertDescription::AccessDenied)),
                    "{name}"
                );
                refused += 1;
            }
        }
    }
    assert_eq!((served, refused), (4, 6));
    assert_eq!(running.script.requests.load(Ordering::Relaxed), 4);
    until("they are counted", || counts.of(HandshakeOutcome::Protocol) == 6).await;
    // A certificate without names is sent for any name; the client rejects it.
    let running = scheme.start(Limits::default());
    let socket = TcpStream::connect(running.server.local_addr()).await.unwrap();
    let called = ServerName::try_from("hub.example").unwrap();
    let error = TlsConnector::from(config).connect(called, socket).await.unwrap_err();
    assert_eq!(alert(&error), None, "{error}");
}
