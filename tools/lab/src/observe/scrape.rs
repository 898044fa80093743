//! The hub's metrics, from one place or from several that each tell of a part of it.

use upesi_http::ClientTls;

use crate::drive::admin_client::{AdminClient, AdminError};
use crate::drive::target_hub::TargetHub;
use crate::observe::hub_metrics::Snapshot;

/// Where the text is below a base URL.
const PATH: &str = "/metrics";

/// A place that was named and has no metrics.
#[derive(Debug, thiserror::Error)]
#[error("no metrics at {url}: {reason}")]
pub struct NoMetrics {
    pub url: String,
    pub reason: String,
}

/// Asks for metrics.
#[derive(Debug)]
pub(crate) struct Scraper {
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    url: String,
    client: AdminClient,
    path: &'static str,
}

impl NoMetrics {
    fn at(url: &str, error: AdminError) -> Self {
        let reason = match error {
            AdminError::Url(error) => error.to_string(),
            AdminError::Send { source, .. } => source.to_string(),
            AdminError::Refused { status, .. } => format!("it answers {status}"),
            AdminError::Waiting { .. } => "it waits for a second person".to_owned(),
            AdminError::Malformed { reason, .. } => reason,
        };
        Self { url: url.to_owned(), reason }
    }
}

impl Place {
    fn new(url: &str, tls: Option<&ClientTls>) -> Result<Self, NoMetrics> {
        let client = AdminClient::with_tls(url, tls).map_err(|error| NoMetrics::at(url, error))?;
        let path = if client.is_at_root() { PATH } else { "" };
        Ok(Self { url: url.to_owned(), client, path })
    }

    async fn text(&self) -> Result<String, NoMetrics> {
        let body = self.client.get(self.path).await.map_err(|error| NoMetrics::at(&self.url, error))?;
        String::from_utf8(body.to_vec())
            .map_err(|error| NoMetrics { url: self.url.clone(), reason: error.to_string() })
    }
}

impl Scraper {
    /// Where there is nobody to ask.
    pub const fn of_nobody() -> Self {
        Self { places: Vec::new() }
    }

    /// Of a hub.
    ///
    /// # Errors
    /// When a URL is unusable.
    pub fn new(target: &TargetHub) -> Result<Self, NoMetrics> {
        let tls = target.admin_tls.as_ref();
        let places = if target.metrics_urls.is_empty() {
            // An admin API below a path has them below it too.
            vec![Place { path: PATH, ..Place::new(&target.admin_url, tls)? }]
        } else {
            target.metrics_urls.iter().map(|url| Place::new(url, tls)).collect::<Result<_, _>>()?
        };
        Ok(Self { places })
    }

    /// Whether every place has metrics: for places that somebody named.
    ///
    /// # Errors
    /// The first that has none.
    pub async fn check(&self) -> Result<(), NoMetrics> {
        for place in &self.places {
            if Snapshot::read(&place.text().await?).is_empty() {
                let reason = "what is there is no metrics text".to_owned();
                return Err(NoMetrics { url: place.url.clone(), reason });
            }
        }
        Ok(())
    }

    /// The texts of all places as one. Nothing from the first time on that one does not answer: what the others tell
    /// would be set against what all told before.
    pub async fn text(&mut self) -> Option<String> {
        let text = self.ask_all().await;
        if text.is_none() {
            self.places.clear();
        }
        text
    }

    async fn ask_all(&self) -> Option<String> {
        let mut all = String::new();
        for place in &self.places {
            match place.text().await {
                Ok(text) => all.push_str(&text),
                Err(error) => {
                    tracing::debug!(%error, "from here on the hub's metrics are not read");
                    return None;
                }
            }
            all.push('\n');
        }
        (!self.places.is_empty()).then_some(all)
    }
}
