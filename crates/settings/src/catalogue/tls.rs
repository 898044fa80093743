//! Settings of TLS and of private keys in tokens.

use crate::choices::{StaleCrls, TlsMode};
use crate::kind::{Flag, Integer, Milliseconds, Optional, Seconds};
use crate::setting::group;
use crate::words::{FilePath, KeyLocation};

group! {
    /// TLS of a port or of connections.
    Tls {
        /// `plain`: no TLS. `tls`: the server presents a certificate. `mutual`: the client presents one, too.
        mode: TlsMode = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: Optional<FilePath> = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token. The hub does not start if every user
        /// can read the file.
        key_file: Optional<KeyLocation> = "",
        /// PEM file of the authorities that may have issued the certificates of the other side: of clients for
        /// `mutual`, of nodes, of brokers.
        anchors_file: Optional<FilePath> = "",
        /// PEM file of the revocation lists of these authorities; empty for none. If set, each authority of a
        /// certificate chain of the other side needs a list.
        crl_file: Optional<FilePath> = "",
    }

    /// TLS of the FSPIOP port.
    FspiopTls {
        /// The port.
        port: Tls,
        /// With `mutual`: whether a client's certificate must be bound to a DFSP. If not, a client whose certificate
        /// has no binding may send as any DFSP that has no bindings. Turn it off while you bind DFSPs one by one.
        bindings_required: Flag = "true",
    }

    /// The section `outbound_tls`.
    OutboundTls {
        /// PEM file of the authorities that may have issued the certificates of DFSPs and oracles. Empty: `https://`
        /// addresses are rejected.
        anchors_file: Optional<FilePath> = "",
        /// PEM file of the revocation lists of these authorities; empty for none.
        crl_file: Optional<FilePath> = "",
        /// PEM file of the certificate that the hub presents, with its intermediates; empty for none.
        certificate_file: Optional<FilePath> = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token.
        key_file: Optional<KeyLocation> = "",
        /// Directory with files for single DFSPs, by name, and for oracles, as `oracle-ID`; empty for none.
        /// `NAME.anchors.pem`: authorities of this DFSP or oracle, which replace those above. `NAME.crl.pem`: their
        /// revocation lists. `NAME.pem` and `NAME.key`: certificate and key that the hub presents to it instead of
        /// those above.
        own_directory: Optional<FilePath> = "" expert,
        /// Whether the hub offers HTTP/2 in preference to HTTP/1.1.
        http2: Flag = "true" expert,
        /// Whether `http://` addresses are rejected when they are registered.
        https_only: Flag = "false",
    }

    /// The section `tls`.
    CommonTls {
        /// Maximum time for a TLS handshake on a port, in milliseconds.
        handshake_deadline_ms: Milliseconds<100, 60_000> = "5000" expert,
        /// Maximum number of unfinished handshakes on each port. Beyond it, the handshakes that have waited longest are
        /// closed.
        handshakes_max: Integer<1, 100_000, usize> = "512" expert,
        /// Interval in seconds between reloads of the files, which also check open connections. SIGHUP does both
        /// immediately.
        reload_interval_s: Seconds<1, 3600> = "10" expert,
        /// List of blocked keys and certificates, one per line: `spki-sha256:…` or `cert-sha256:…`, of clients or of
        /// authorities in their chains; empty for none. It takes effect immediately, before a revocation list contains
        /// them. Blocks in the [admin API](tls.md#blocks) apply in addition.
        blocked_file: Optional<FilePath> = "" expert,
        /// Handling of certificates whose revocation list is past its `nextUpdate`: `accept` them and raise an alert,
        /// or `refuse` them.
        crl_stale: StaleCrls = "accept" expert,
        /// Whether ports with TLS offer HTTP/2 in preference to HTTP/1.1. A change takes effect at the next start.
        http2: Flag = "true" expert,
        /// Maximum number of requests in flight on one HTTP/2 connection. Each connection may always have one request
        /// in flight. Further requests share common limits: a port has as many as it may have connections. An address
        /// or a DFSP also has as many as it may have connections, but at most half of the port's.
        http2_streams_max: Integer<1, 250, u32> = "32" expert,
    }

    /// The section `pkcs11`.
    Pkcs11 {
        /// PKCS #11 module of the token's manufacturer, a shared library. Empty: keys are in files.
        module: Optional<FilePath> = "" expert,
        /// File with the user PIN of the tokens. The hub does not start if every user of the machine can read it.
        pin_file: Optional<FilePath> = "" expert,
        /// Sessions per token, and therefore signatures that a token makes at a time.
        sessions_max: Integer<1, 64, usize> = "4" expert,
    }
}
