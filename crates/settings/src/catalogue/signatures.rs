//! Settings of signatures of messages (`FSPIOP-Signature`).

use crate::choices::{SignatureMode, Unprotected, UnsignedDelete};
use crate::kind::{Flag, Optional};
use crate::setting::group;
use crate::words::{FilePath, KeyLocation, Text};

group! {
    /// The section `jws`.
    Jws {
        /// Handling of messages without a valid signature of their sender: ignore signatures (`off`), accept and count
        /// the message (`warn`), or reject it with 3105 (`enforce`).
        mode: SignatureMode = "off",
        /// Directory of participants' public keys: files `NAME.pem`, each with up to three keys or certificates. The
        /// hub reads it again every `tls.reload_interval_s`. Empty: all keys are registered through the admin API.
        keys_dir: Optional<FilePath> = "",
        /// Whether P-256 keys (ES256) are accepted in addition to RSA keys.
        es256: Flag = "false" expert,
        /// Path that a proxy in front of the hub removes from requests, such as `/switch`. Signed URIs may contain it.
        base_path: Text<256> = "" expert,
        /// Handling of a `DELETE` without a signature, because Mojaloop's library cannot sign one. `proven`: accept it
        /// if a certificate, a token or a gateway proves its sender. `refuse`: treat it like any other unsigned
        /// message.
        unsigned_delete: UnsignedDelete = "proven" expert,
        /// Handling of a message that must be recent if its signature does not cover `Date`, which Mojaloop's library
        /// may omit. The unsigned `Date` is valid if a certificate, a token or a gateway proves the sender (`proven`),
        /// always (`accept`), or never (`refuse`).
        unprotected_date: Unprotected = "proven" expert,
        /// Private key for the signatures of the hub's own messages: a PEM file, or the key's location in a PKCS #11
        /// token, such as `pkcs11:token=hub;object=signing`. Empty: the hub does not sign.
        signing_key_file: Optional<KeyLocation> = "",
        /// Next signing key, in the same form. `GET /signatures/keys` shows its public key, so that DFSPs can fetch it
        /// before the hub uses it. The file may be missing.
        next_key_file: Optional<KeyLocation> = "" expert,
        /// PEM file of the certificate of the signing key, if DFSPs verify with a certificate; empty for none. The hub
        /// reports the certificate's expiry and warns before it.
        signing_certificate_file: Optional<FilePath> = "" expert,
    }
}
