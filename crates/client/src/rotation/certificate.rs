//! Replaces the client certificate of a DFSP:
//!
//! 1. The new certificate is bound. The earlier ones stay bound.
//! 2. The DFSP changes over when it is ready.
//! 3. Once the hub has seen no other certificate of the DFSP for a day, the earlier bindings are removed.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;
use upesi_gateway::{CERTIFICATES_SEEN, FIRST_EXPIRY_SEEN};
use upesi_http::Method;
use upesi_process::exit::{Exit, Failure, read_named};
use upesi_process::exposition::escape;
use upesi_process::times::Zone;
use upesi_tls::{CertificateFacts, SUBMITTED_BYTES_MAX, present_s, read_client_certificate};
use upesi_types::text::{path, url_part};
use upesi_types::{FspId, Timestamp};

use crate::admin_api::AdminApi;
use crate::admin_api::admin_failure;

const KEY: &str = "spki-sha256";
const CERTIFICATE: &str = "cert-sha256";
/// A metric that only nodes of a cluster have.
const IS_NODE: &str = "upesi_cluster_leads ";

/// Options of the rotation.
#[derive(Clone, Debug)]
pub struct CertificateRotation {
    pub name: FspId,
    /// Its new certificate in PEM.
    pub file: PathBuf,
    /// Whether the earlier bindings are removed.
    pub finishes: bool,
    /// Whether they are removed even if the DFSP may not have changed over.
    pub forces: bool,
    /// Time zone of the times in texts. JSON is in UTC.
    pub zone: Zone,
}

/// The result of a rotation.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RotatedCertificate {
    participant: String,
    /// `bound` or `already bound`.
    state: &'static str,
    binding: String,
    valid_until: String,
    removed: Vec<String>,
    /// Other valid bindings.
    valid: Vec<String>,
    #[serde(skip)]
    next: Option<String>,
    #[serde(skip)]
    zone: Zone,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Binding {
    kind: String,
    value: String,
}

impl Binding {
    fn new(kind: &str, value: &impl ToString) -> Self {
        Self { kind: kind.to_owned(), value: value.to_string() }
    }

    fn text(&self) -> String {
        format!("{}:{}", self.kind, self.value)
    }

    /// Whether this is a binding of a key or a certificate. Other bindings outlive a certificate.
    fn is_replaced(&self) -> bool {
        matches!(&*self.kind, KEY | CERTIFICATE)
    }
}

impl CertificateRotation {
    /// Performs the rotation.
    ///
    /// # Errors
    /// 65 if the file is not such a certificate, 66 if it cannot be read, 75 while the DFSP has not changed over or an
    /// approval is pending, 69 and 1 by the hub's answer.
    pub async fn run(&self, api: &AdminApi) -> Result<RotatedCertificate, Failure> {
        let facts = self.certificate()?;
        let bindings = path(&["participants", self.name.as_str(), "bindings"]);
        let present: Vec<Binding> = api.get(&bindings).await.map_err(|error| admin_failure(&error))?;
        let (earlier, kept): (Vec<_>, Vec<_>) = present.iter().cloned().partition(Binding::is_replaced);
        let new = wanted(&earlier, &facts);
        let is_bound = earlier.contains(&new);
        let earlier: Vec<_> = earlier.into_iter().filter(|one| *one != new).collect();
        let mut done = RotatedCertificate {
            participant: self.name.to_string(),
            state: if is_bound { "already bound" } else { "bound" },
            binding: new.text(),
            valid_until: instant(facts.not_after_s).to_string(),
            removed: Vec::new(),
            valid: kept.iter().chain(&earlier).map(Binding::text).collect(),
            next: None,
            zone: self.zone.clone(),
        };
        if !is_bound {
            if self.finishes {
                let text = format!(
                    "{} is not bound to {}: bind it first, without --finish",
                    self.file.display(),
                    self.name
                );
                return Err(Failure::new(Exit::Failure, text));
            }
            let body = json!({ "kind": new.kind, "value": new.value }).to_string();
            api.send(Method::POST, &bindings, &body).await.map_err(|error| admin_failure(&error))?;
        }
        if !self.finishes {
            done.next = (!earlier.is_empty()).then(|| self.next_step());
            return Ok(done);
        }
        if !earlier.is_empty() && !self.forces {
            self.expect_changed_over(api, &facts).await?;
        }
        for binding in earlier {
            let query = format!("kind={}&value={}", url_part(&binding.kind), url_part(&binding.value));
            let removed = api.send(Method::DELETE, &format!("{bindings}?{query}"), "").await;
            removed.map_err(|error| admin_failure(&error))?;
            done.valid.retain(|one| *one != binding.text());
            done.removed.push(binding.text());
        }
        Ok(done)
    }

    /// The certificate, which must be valid for clients now.
    fn certificate(&self) -> Result<CertificateFacts, Failure> {
        let refuse = |problem: String| Failure::new(Exit::Data, format!("{} {problem}", self.file.display()));
        let text = read_named(&self.file, SUBMITTED_BYTES_MAX)?;
        let facts = read_client_certificate(text.as_bytes()).map_err(refuse)?;
        if facts.not_after_s < present_s() {
            return Err(refuse(format!("is a certificate that expired {}", self.time(facts.not_after_s))));
        }
        Ok(facts)
    }

    fn time(&self, seconds: i64) -> String {
        self.zone.show(instant(seconds))
    }

    fn next_step(&self) -> String {
        format!(
            "let {0} change over; a day later: upesi dfsp rotate-certificate {0} {1} --finish",
            self.name,
            self.file.display()
        )
    }

    /// Rejects the removal of certificates that the DFSP may still use.
    async fn expect_changed_over(&self, api: &AdminApi, facts: &CertificateFacts) -> Result<(), Failure> {
        let text = api.get_bytes("/metrics").await.map_err(|error| admin_failure(&error))?;
        match self.problem(&String::from_utf8_lossy(&text), facts.not_after_s) {
            None => Ok(()),
            Some(problem) => Err(Failure::new(Exit::Temporary, format!("nothing was removed: {problem}"))),
        }
    }

    /// The reason, by the hub's metrics, why the DFSP may still use another certificate than the new one, which expires
    /// at `new_end_s`.
    fn problem(&self, metrics: &str, new_end_s: i64) -> Option<String> {
        let name = &self.name;
        if metrics.lines().any(|line| line.starts_with(IS_NODE)) {
            return Some(format!(
                "a node of a cluster sees only its own connections; once {CERTIFICATES_SEEN} of {name} is 1 or absent \
                 at every node, use --force"
            ));
        }
        let value = |metric| value_of(metrics, metric, name.as_str());
        let problem = match (value(FIRST_EXPIRY_SEEN), value(CERTIFICATES_SEEN)) {
            (Some(end_s), Some(1)) if end_s == new_end_s => return None,
            (Some(end_s), Some(1)) => {
                let end = self.time(end_s);
                format!("within the last day, {name} used only a certificate that expires {end}")
            }
            (Some(_), Some(count)) => format!("within the last day, {name} used {count} certificates"),
            _ => format!("within the last day, {name} used no certificate"),
        };
        Some(format!("{problem}; wait until it has used only the new one for a day, or use --force"))
    }
}

/// The binding of the new certificate: by certificate if the earlier ones are, otherwise by its key.
fn wanted(earlier: &[Binding], facts: &CertificateFacts) -> Binding {
    let by_certificate = !earlier.is_empty() && earlier.iter().all(|one| one.kind == CERTIFICATE);
    match by_certificate {
        true => Binding::new(CERTIFICATE, &facts.certificate_sha256),
        false => Binding::new(KEY, &facts.spki_sha256),
    }
}

/// The value of a DFSP's metric.
fn value_of(metrics: &str, metric: &str, name: &str) -> Option<i64> {
    let series = format!("{metric}{{fsp=\"{}\"}} ", escape(name));
    metrics.lines().find_map(|line| line.strip_prefix(&*series))?.trim().parse().ok()
}

fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_ms(seconds.saturating_mul(1_000))
}

impl RotatedCertificate {
    /// The result as text: one line per binding, and the next step.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}\n  {:<13} {}, until {}\n",
            self.participant,
            self.state,
            self.binding,
            self.zone.show_text(&self.valid_until)
        );
        for (word, bindings) in [("removed", &self.removed), ("valid", &self.valid)] {
            for binding in bindings {
                // Writing into a String cannot fail.
                let _ = writeln!(text, "  {word:<13} {binding}");
            }
        }
        if let Some(next) = &self.next {
            let _ = writeln!(text, "  {:<13} {next}", "next");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The new certificate expires at 1,795,000,000.
    #[test]
    fn dfsp_has_changed_over_if_only_its_new_certificate_was_seen() {
        let rotation = CertificateRotation {
            name: FspId::parse("greenbank").unwrap(),
            file: PathBuf::from("greenbank.pem"),
            finishes: true,
            forces: false,
            zone: Zone::utc(),
        };
        let of = |end_s: i64, count: u64, more: &str| {
            let series = |metric, value| format!("{metric}{{fsp=\"greenbank\"}} {value}\n");
            let end = series(FIRST_EXPIRY_SEEN, end_s.to_string());
            let metrics = end + &series(CERTIFICATES_SEEN, count.to_string()) + more;
            rotation.problem(&metrics, 1_795_000_000).unwrap_or_default()
        };
        assert_eq!(of(1_795_000_000, 1, ""), "");
        for (end_s, count, more, problem) in [
            (1_790_000_000, 1, "", "used only a certificate that expires 2026-09-21 14:13:20Z; wait"),
            (1_795_000_000, 2, "", "within the last day, greenbank used 2 certificates; wait"),
            (
                1_795_000_000,
                1,
                "upesi_cluster_leads 1\n",
                "a node of a cluster sees only its own connections",
            ),
        ] {
            assert!(of(end_s, count, more).contains(problem), "{}", of(end_s, count, more));
        }
        let unseen = rotation.problem("", 1_795_000_000).unwrap();
        assert!(unseen.starts_with("within the last day, greenbank used no certificate"), "{unseen}");
    }

    #[test]
    fn value_of_matches_the_whole_name() {
        let text = "# TYPE a gauge\na{fsp=\"greenbank\"} 1795000000\na{fsp=\"green\"} 7\na_b{fsp=\"green\"} 8\n# EOF\n";
        let cases = [("a", "greenbank", Some(1_795_000_000)), ("a", "green", Some(7)), ("a", "bank", None)];
        for (metric, name, expected) in cases {
            assert_eq!(value_of(text, metric, name), expected, "{metric} {name}");
        }
    }
}
