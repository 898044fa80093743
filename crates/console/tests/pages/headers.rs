//! Headers of pages, files and exports.

use upesi_console::CONTENT_POLICY;

use crate::common::Hub;

/// All pages that need no object.
pub const PAGES: [&str; 11] = [
    "/console",
    "/console/participants",
    "/console/transfers",
    "/console/callbacks",
    "/console/settlement",
    "/console/connections",
    "/console/directory",
    "/console/approvals",
    "/console/operators",
    "/console/audit",
    "/console/system",
];

#[tokio::test]
async fn page_is_never_stored_framed_or_scripted() {
    let hub = Hub::with_dfsps(&["green"]).await;
    assert!(CONTENT_POLICY.starts_with("default-src 'none';") && !CONTENT_POLICY.contains("unsafe"));
    for path in
        PAGES.into_iter().chain(["/console/participants/green", "/console/nothing", "/console?csv=dfsps"])
    {
        let answer = hub.send("", "GET", path, "").await;
        let expected = [
            ("content-security-policy", CONTENT_POLICY),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "same-origin"),
        ];
        for (name, value) in expected {
            assert_eq!(answer.header(name), Some(value), "{path} {name}");
        }
        let body = &answer.body;
        for forbidden in ["<script", "http://", "https://", " style=", " onclick", "<style", "javascript:"] {
            let allowed = forbidden == "http://" && path.ends_with("/green");
            assert!(allowed || !body.contains(forbidden), "{path} contains {forbidden}");
        }
    }
}

#[tokio::test]
async fn asset_has_the_digest_of_its_content_in_its_url() {
    let hub = Hub::launch(None, "");
    let page = hub.page("/console").await;
    for (begin, media_type) in
        [("href=\"/console/assets/console-", "text/css"), ("src=\"/console/assets/icon-", "image/svg+xml")]
    {
        let at = page.find(begin).unwrap();
        let url = page[at..].split('"').nth(1).unwrap();
        let file = hub.send("", "GET", url, "").await;
        assert_eq!(file.status, 200, "{url}");
        assert!(file.header("content-type").unwrap().starts_with(media_type));
        assert_eq!(file.header("cache-control"), Some("public, max-age=31536000, immutable"));
        assert_eq!(file.header("x-content-type-options"), Some("nosniff"));
        let digest = url.rsplit(['-', '.']).nth(1).unwrap();
        let actual = upesi_types::hex(&<sha2::Sha256 as sha2::Digest>::digest(file.body.as_bytes()));
        assert!(digest.len() == 16 && actual.starts_with(digest), "{digest} {actual}");
        let other = hub.send("", "GET", &url.replace(digest, "0123456789abcdef"), "").await;
        assert_eq!((other.status, other.header("cache-control")), (404, Some("no-store")));
    }
}

#[tokio::test]
async fn request_of_another_site_is_rejected_in_html() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let foreign = "origin: https://evil.example\r\n";
    let answer = hub.send(foreign, "POST", "/console/transfers", "q=green").await;
    assert_eq!(answer.status, 403);
    assert!(answer.body.contains("A page of another site caused this request"), "{}", answer.body);
    assert_eq!(answer.header("content-security-policy"), Some(CONTENT_POLICY));
}

/// With another referrer policy, browsers would send `Origin: null`.
#[tokio::test]
async fn search_form_of_own_page_is_accepted() {
    let hub = Hub::with_dfsps(&["green"]).await;
    let own = "origin: http://localhost\r\nsec-fetch-site: same-origin\r\n";
    let found = hub.send(own, "POST", "/console/transfers", "q=green").await;
    assert_eq!((found.status, found.header("location")), (303, Some("/console/transfers?q=green")));
    let personal = hub.send(own, "POST", "/console/transfers", "q=%2B260001000000001").await;
    assert_eq!(personal.status, 200, "{}", personal.body);
    let without_origin = "origin: null\r\nsec-fetch-site: same-origin\r\n";
    assert_eq!(hub.send(without_origin, "POST", "/console/transfers", "q=green").await.status, 403);
}

/// Every error is a page for people or JSON for programs, and never text of a library.
#[tokio::test]
async fn request_that_is_not_utf8_gets_the_usual_error() {
    let hub = Hub::with_dfsps(&["green"]).await;
    for path in [
        "/console/transfers/%FF",
        "/console/participants/%FF",
        "/console/windows/%FF",
        "/console/settlements/%FF",
        "/console/assets/%FF",
        "/console/transfers?q=%FF",
        "/console/audit?from=%FF",
    ] {
        let answer = hub.send("", "GET", path, "").await;
        assert!(answer.body.starts_with("<!doctype html>"), "{path}: {}", answer.body);
    }
    for body in [&b"q=\xff"[..], b"q=%FF", b"q=%zz", b"q=a b", b"\x00"] {
        let answer = hub.send_bytes("", "POST", "/console/transfers", body).await;
        assert!(answer.body.starts_with("<!doctype html>"), "{body:?}: {}", answer.body);
        assert!(matches!(answer.status, 200 | 400), "{body:?}: {}", answer.status);
    }
    for path in ["/participants/%FF", "/transfers/%FF"] {
        let answer = hub.send("", "GET", path, "").await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.body.starts_with("{\"errorInformation\""), "{path}: {}", answer.body);
    }
}
