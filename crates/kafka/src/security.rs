//! Mutual authentication of the hub and the brokers: files that are checked before a client is created.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rdkafka::config::ClientConfig;
use upesi_keys::{KeyError, read_private};
use upesi_tls::{ClientFiles, ClientTls, TlsError, TlsFileKind, present_s};

use crate::plain::Security;

/// Reason why no client can be created.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// A certificate, key or authority is invalid.
    #[error("TLS to the brokers: {0}")]
    Tls(#[from] TlsError),
    /// This node's certificate has expired.
    #[error("TLS to the brokers: the certificate in {} has expired: renew it", .0.display())]
    Expired(PathBuf),
    /// The password file cannot be read, or every user may read it.
    #[error("the password for the brokers: {0}")]
    Password(#[from] KeyError),
    /// The file is not one line of text.
    #[error("the password for the brokers: {} is not one line of text", .0.display())]
    NoPassword(PathBuf),
}

impl Security {
    /// Applies these settings to a client.
    pub(crate) fn apply(&self, config: &mut ClientConfig) -> Result<(), SecurityError> {
        let protocol = match (&self.tls, &self.sasl) {
            (None, None) => "plaintext",
            (Some(_), None) => "ssl",
            (None, Some(_)) => "sasl_plaintext",
            (Some(_), Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(files) = &self.tls {
            check(files)?;
            config
                .set("ssl.ca.location", text(&files.servers.anchors_file))
                // The name in a broker's address must match its certificate.
                .set("ssl.endpoint.identification.algorithm", "https");
            if let Some(identity) = &files.identity {
                config
                    .set("ssl.certificate.location", text(&identity.certificate_file))
                    .set("ssl.key.location", text(&identity.key_file));
            }
        }
        if let Some(sasl) = &self.sasl {
            config
                .set("sasl.mechanism", &sasl.mechanism)
                .set("sasl.username", &sasl.username)
                .set("sasl.password", password(&sasl.password_file)?);
        }
        Ok(())
    }

    /// Last change and length of each file. If the result changes, the clients must be replaced.
    pub(crate) fn stamp(&self) -> Vec<Option<(SystemTime, u64)>> {
        let of_tls = self.tls.iter().flat_map(|files| {
            let identity = files.identity.as_ref();
            let own = identity.into_iter().flat_map(|own| [&own.certificate_file, &own.key_file]);
            std::iter::once(&files.servers.anchors_file).chain(own)
        });
        let all = of_tls.chain(self.sasl.iter().map(|sasl| &sasl.password_file));
        all.map(|file| {
            let metadata = std::fs::metadata(file).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        })
        .collect()
    }
}

/// Checks the files, because librdkafka's own messages about them say little.
fn check(files: &ClientFiles) -> Result<(), SecurityError> {
    let stock = ClientTls::load(files.clone())?.stock();
    let is_expired = |kind| stock.iter().any(|item| item.kind == kind && item.not_after_s < present_s());
    match &files.identity {
        Some(own) if is_expired(TlsFileKind::Certificate) => {
            Err(SecurityError::Expired(own.certificate_file.clone()))
        }
        _ => Ok(()),
    }
}

fn password(file: &Path) -> Result<String, SecurityError> {
    let refused = || SecurityError::NoPassword(file.to_owned());
    let text = String::from_utf8(read_private(file)?).map_err(|_| refused())?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    let is_one = !line.is_empty() && !line.contains(char::is_control);
    is_one.then(|| line.to_owned()).ok_or_else(refused)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::plain::Sasl;

    #[test]
    fn password_is_one_line_in_a_private_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("password");
        let read = |content: &[u8], mode| {
            fs::write(&file, content).expect("room");
            fs::set_permissions(&file, Permissions::from_mode(mode)).expect("the owner");
            password(&file)
        };
        for content in ["se cret", "se cret\n", "se cret\r\n"] {
            assert_eq!(read(content.as_bytes(), 0o600).expect("one line"), "se cret");
        }
        for content in [&b""[..], b"\n", b"one\ntwo\n", b"\xff"] {
            assert!(matches!(read(content, 0o600), Err(SecurityError::NoPassword(_))), "{content:?}");
        }
        let error = read(b"canary", 0o604).expect_err("every user may read it").to_string();
        assert!(error.contains("every user") && !error.contains("canary"), "{error}");
    }

    #[test]
    fn settings_determine_the_security_protocol() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("password");
        fs::write(&file, "canary").expect("room");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("the owner");
        let protocol = |security: &Security| {
            let mut config = ClientConfig::new();
            security.apply(&mut config).expect("sound files");
            assert!(!format!("{security:?} {config:?}").contains("canary"));
            (
                config.get("security.protocol").map(str::to_owned),
                config.get("sasl.password").map(str::to_owned),
            )
        };
        assert_eq!(protocol(&Security::default()), (Some("plaintext".to_owned()), None));
        let (mechanism, username) = ("PLAIN".to_owned(), "hub".to_owned());
        let sasl = Some(Sasl { mechanism, username, password_file: file });
        let told = protocol(&Security { tls: None, sasl });
        assert_eq!(told, (Some("sasl_plaintext".to_owned()), Some("canary".to_owned())));
    }
}
