#![doc = include_str!("../README.md")]

use std::fmt;
use std::io::Read;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// Content security policy of the page: it may load only content of its own port. Images inside the style sheet and the
/// library's script are `data:`.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// One of the hub's two ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiPort {
    /// The API for DFSPs.
    Fspiop,
    /// The API for operators.
    Admin,
}

/// The rule for caches that store a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caching {
    /// Caches must check for changes each time: an upgrade of the hub changes the file under the same name.
    Revalidated,
    /// Caches may store it forever: the name contains a version.
    Immutable,
}

/// A served file: a document, the page, or a part of the page.
#[derive(PartialEq, Eq)]
pub struct File {
    path: &'static str,
    content_type: &'static str,
    caching: Caching,
    gzip: &'static [u8],
    /// Decompressed once, for the first client that does not accept gzip.
    plain: OnceLock<Bytes>,
}

macro_rules! file {
    ($path:literal, $content_type:literal, $caching:ident, $name:literal) => {
        File {
            path: $path,
            content_type: $content_type,
            caching: Caching::$caching,
            gzip: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")),
            plain: OnceLock::new(),
        }
    };
}

static FSPIOP: [File; 2] = [
    file!("/openapi.yaml", "application/yaml; charset=utf-8", Revalidated, "fspiop.yaml"),
    file!("/docs", "text/html; charset=utf-8", Revalidated, "fspiop.html"),
];

static ADMIN: [File; 2] = [
    file!("/openapi.yaml", "application/yaml; charset=utf-8", Revalidated, "admin.yaml"),
    file!("/docs", "text/html; charset=utf-8", Revalidated, "admin.html"),
];

static SHARED: [File; 4] = [
    file!("/docs/page.js", "text/javascript; charset=utf-8", Revalidated, "page.js"),
    file!("/docs/page.css", "text/css; charset=utf-8", Revalidated, "page.css"),
    file!("/docs/swagger-ui-5.35.0.js", "text/javascript; charset=utf-8", Immutable, "swagger-ui-bundle.js"),
    file!("/docs/swagger-ui-5.35.0.css", "text/css; charset=utf-8", Immutable, "swagger-ui.css"),
];

impl ApiPort {
    /// Every file of this port.
    pub fn files(self) -> impl Iterator<Item = &'static File> {
        let own = match self {
            Self::Fspiop => &FSPIOP,
            Self::Admin => &ADMIN,
        };
        own.iter().chain(&SHARED)
    }

    /// The file at a path without its query, to be served to `GET` and `HEAD`.
    pub fn file(self, path: &str) -> Option<&'static File> {
        self.files().find(|file| file.path == path)
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({})", self.path)
    }
}

impl File {
    /// Its path, such as `/docs`.
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// The decompressed content.
    pub fn content(&self) -> Bytes {
        let inflate = || {
            let mut content = Vec::new();
            // The build compressed the content, and the output is in memory, so this cannot fail.
            let _ = GzDecoder::new(self.gzip).read_to_end(&mut content);
            Bytes::from(content)
        };
        self.plain.get_or_init(inflate).clone()
    }

    /// The checksum and length at the end of the compressed content, which are sufficient to distinguish two versions.
    fn tag(&self) -> String {
        let end = &self.gzip[self.gzip.len().saturating_sub(8)..];
        let digits: String = end.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("\"{digits}\"")
    }

    /// The answer to a request with these headers: 304 if the client already has this content, otherwise 200,
    /// compressed if the client accepts that.
    pub fn answer(&self, request: &HeaderMap) -> Response<Bytes> {
        let tag = self.tag();
        let is_known = request
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .any(|known| known.trim().trim_start_matches("W/") == tag);
        let mut response = Response::new(Bytes::new());
        let headers = response.headers_mut();
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        let caching = match self.caching {
            Caching::Revalidated => "no-cache",
            Caching::Immutable => "public, max-age=31536000, immutable",
        };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if takes_gzip(request) {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            *response.body_mut() = Bytes::from_static(self.gzip);
        } else {
            *response.body_mut() = self.content();
        }
        response
    }
}

/// Whether `Accept-Encoding` allows gzip, by name or by a wildcard (RFC 9110 §12.5.3).
fn takes_gzip(request: &HeaderMap) -> bool {
    let values = request.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let is_gzip = matches!(name.trim().to_ascii_lowercase().as_str(), "gzip" | "x-gzip" | "*");
        let weight = weight.trim().trim_start_matches("q=").trim_start_matches("Q=");
        let is_forbidden = !weight.is_empty() && weight.bytes().all(|byte| matches!(byte, b'0' | b'.'));
        is_gzip && !is_forbidden
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};
    use std::io::Write;

    fn request(name: http::HeaderName, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn file_is_found_by_its_path_and_inflates() {
        for surface in [ApiPort::Fspiop, ApiPort::Admin] {
            for file in surface.files() {
                let found = surface.file(file.path()).unwrap();
                assert!(std::ptr::eq(found, file), "{}", file.path());
                assert!(!file.content().is_empty(), "{}", file.path());
            }
            for path in ["", "/", "/docs/", "/docs/x", "/openapi.json", "/docs/../openapi.yaml"] {
                assert!(surface.file(path).is_none(), "{path}");
            }
        }
        let document = |surface: ApiPort| surface.file("/openapi.yaml").unwrap().content();
        assert_ne!(document(ApiPort::Fspiop), document(ApiPort::Admin));
    }

    #[test]
    fn compressed_files_are_small() {
        let bytes: usize = FSPIOP.iter().chain(&ADMIN).chain(&SHARED).map(|file| file.gzip.len()).sum();
        assert!(bytes < 600 * 1024, "{bytes} bytes");
    }

    #[test]
    fn client_that_accepts_gzip_gets_gzip() {
        let file = ApiPort::Admin.file("/openapi.yaml").unwrap();
        for (accepted, is_compressed) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, *", true),
            ("gzip;q=0", false),
            ("gzip; q=0.000", false),
            ("br", false),
            ("", false),
        ] {
            let answer = file.answer(&request(ACCEPT_ENCODING, accepted));
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers().contains_key(CONTENT_ENCODING), is_compressed, "{accepted}");
            assert_eq!(*answer.body() == file.content(), !is_compressed, "{accepted}");
        }
        let plain = file.answer(&HeaderMap::new());
        let again = file.answer(&HeaderMap::new());
        assert_eq!(plain.body().as_ptr(), again.body().as_ptr(), "inflated once");
        assert_eq!(plain.headers()[CONTENT_TYPE], "application/yaml; charset=utf-8");
        assert!(plain.body().starts_with(b"openapi: 3.1."));
    }

    #[test]
    fn client_with_the_current_tag_gets_304() {
        for file in ApiPort::Fspiop.files() {
            let answer = file.answer(&HeaderMap::new());
            let tag = answer.headers()[ETAG].clone();
            let mut again = HeaderMap::new();
            again.insert(IF_NONE_MATCH, tag.clone());
            let unchanged = file.answer(&again);
            assert_eq!((unchanged.status().as_u16(), unchanged.body().len()), (304, 0));
            assert_eq!(unchanged.headers()[ETAG], tag);
            assert_eq!(file.answer(&request(IF_NONE_MATCH, "\"another\"")).status(), 200);
            let is_versioned = file.path().contains("-5.35.0");
            assert_eq!(answer.headers()[CACHE_CONTROL] != "no-cache", is_versioned, "{}", file.path());
        }
    }

    /// The page may only send requests to its own host, and the content policy that enforces this must stay strict.
    #[test]
    fn page_may_not_contact_other_hosts() {
        for surface in [ApiPort::Fspiop, ApiPort::Admin] {
            let page = surface.file("/docs").unwrap();
            let answer = page.answer(&HeaderMap::new());
            let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.starts_with("default-src 'none'; "), "{policy}");
            for loose in ["unsafe", "http:", "https:", "*", "blob:"] {
                assert!(!policy.contains(loose), "{policy}");
            }
            let html = String::from_utf8(page.content().to_vec()).unwrap();
            assert!(!html.contains("://") && !html.contains("<style") && !html.contains(" style="), "{html}");
            for part in
                html.split('"').filter(|text| text.starts_with("docs/") || text.starts_with("openapi"))
            {
                assert!(surface.file(&format!("/{part}")).is_some(), "{part}");
            }
            assert!(html.matches("docs/").count() == 4, "{html}");
        }
    }

    /// The page uses the class that makes the library's style and its own style dark.
    #[test]
    fn page_follows_the_colour_scheme_of_the_reader() {
        let text =
            |path: &str| String::from_utf8(ApiPort::Admin.file(path).unwrap().content().to_vec()).unwrap();
        let script = text("/docs/page.js");
        assert!(script.contains("(prefers-color-scheme: dark)") && script.contains("toggle(\"dark-mode\""));
        assert!(text("/docs/page.css").contains("html.dark-mode body {"));
        assert!(text("/docs/swagger-ui-5.35.0.css").matches("html.dark-mode .swagger-ui").count() > 100);
    }

    /// The library equals the description in `VERSION.md` byte for byte, under the version in its file names.
    #[test]
    fn library_matches_the_published_version() {
        let notes = include_str!("../vendor/swagger-ui-dist/VERSION.md");
        assert!(notes.starts_with("# swagger-ui-dist 5.35.0\n"));
        for (published, path) in [
            ("swagger-ui-bundle.js", "/docs/swagger-ui-5.35.0.js"),
            ("swagger-ui.css", "/docs/swagger-ui-5.35.0.css"),
        ] {
            let digest = Sha256::digest(ApiPort::Admin.file(path).unwrap().content());
            let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(notes.contains(&format!("{digest}  {published}\n")), "{published} is {digest}");
        }
    }

    #[test]
    fn different_contents_have_different_tags() {
        let gzip = |content: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            encoder.write_all(content).unwrap();
            let gzip: &'static [u8] = encoder.finish().unwrap().leak();
            File { path: "", content_type: "", caching: Caching::Revalidated, gzip, plain: OnceLock::new() }
                .tag()
        };
        assert_eq!(gzip(b"one"), gzip(b"one"));
        assert_ne!(gzip(b"one"), gzip(b"two"));
    }
}
