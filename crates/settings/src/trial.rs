//! The settings of a hub that uses the files of a trial.

use std::path::Path;

use upesi_pki::Trial;
use upesi_tls::{Identity, Trust};

/// Parts of a hub that the files of a trial secure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecuredParts {
    /// Mutual TLS between the hub and DFSPs, in both directions.
    pub tls: bool,
    /// Mutual TLS on the admin port.
    pub admin: bool,
    /// Verification and creation of signatures.
    pub signatures: bool,
}

impl SecuredParts {
    /// Everything.
    pub const ALL: Self = Self { tls: true, admin: true, signatures: true };
}

/// Settings and their values.
pub fn settings(trial: &Trial, secured: SecuredParts) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    if secured.tls {
        settings.extend(port("fspiop_tls", &trial.hub(), &trial.trust()));
        let Trust { anchors_file, crl_file, .. } = trial.trust();
        settings.push(("outbound_tls.anchors_file".to_owned(), text(&anchors_file)));
        settings.extend(crl_file.map(|file| ("outbound_tls.crl_file".to_owned(), text(&file))));
        settings.extend(identity("outbound_tls", &trial.hub_client()));
        settings.push(("outbound_tls.https_only".to_owned(), "true".to_owned()));
    }
    if secured.admin {
        settings.extend(port("admin_tls", &trial.hub(), &trial.operators()));
    }
    if secured.signatures {
        settings.push(("jws.mode".to_owned(), "enforce".to_owned()));
        settings.push(("jws.keys_dir".to_owned(), text(&trial.signers())));
        settings.push(("jws.signing_key_file".to_owned(), text(&trial.hub_signing_key())));
    }
    settings
}

fn port(section: &str, own: &Identity, callers: &Trust) -> Vec<(String, String)> {
    let mut settings = vec![(format!("{section}.mode"), "mutual".to_owned())];
    settings.extend(identity(section, own));
    settings.push((format!("{section}.anchors_file"), text(&callers.anchors_file)));
    settings.extend(callers.crl_file.as_ref().map(|file| (format!("{section}.crl_file"), text(file))));
    settings
}

fn identity(section: &str, identity: &Identity) -> [(String, String); 2] {
    [
        (format!("{section}.certificate_file"), text(&identity.certificate_file)),
        (format!("{section}.key_file"), text(&identity.key_file)),
    ]
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
