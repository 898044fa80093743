//! The style sheet and the icon. Their URLs contain a digest of their content, so browsers may store them permanently.

use std::sync::LazyLock;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};
use upesi_admin::reads::Segments;

/// Number of hexadecimal digits of the digest in a URL.
const DIGEST_DIGITS: usize = 16;
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// A file of the pages.
struct Asset {
    stem: &'static str,
    ending: &'static str,
    media_type: &'static str,
    content: &'static str,
}

const STYLE: Asset = Asset {
    stem: "console",
    ending: "css",
    media_type: "text/css; charset=utf-8",
    content: include_str!("../assets/console.css"),
};

const ICON: Asset = Asset {
    stem: "icon",
    ending: "svg",
    media_type: "image/svg+xml",
    content: include_str!("../assets/icon.svg"),
};

/// URL of the style sheet.
pub static STYLE_URL: LazyLock<String> = LazyLock::new(|| STYLE.url());
/// URL of the icon.
pub static ICON_URL: LazyLock<String> = LazyLock::new(|| ICON.url());

impl Asset {
    fn url(&self) -> String {
        let digest = Sha256::digest(self.content.as_bytes());
        let digest = upesi_types::hex(&digest[..DIGEST_DIGITS / 2]);
        format!("/console/assets/{}-{digest}.{}", self.stem, self.ending)
    }
}

/// Serves a file by its name. A name with another digest belongs to another version of the hub.
pub async fn get(Segments(name): Segments<String>) -> Response {
    let url = format!("/console/assets/{name}");
    let found = [(&STYLE_URL, &STYLE), (&ICON_URL, &ICON)].into_iter().find(|(known, _)| ***known == url);
    let Some((_, asset)) = found else {
        return (StatusCode::NOT_FOUND, [(CACHE_CONTROL, "no-store")]).into_response();
    };
    let headers: [(HeaderName, &str); 3] =
        [(CONTENT_TYPE, asset.media_type), (CACHE_CONTROL, IMMUTABLE), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, asset.content).into_response()
}
