use super::*;
use sha2::{Digest, Sha256};
use std::io::Write;

fn request(name: http::HeaderName, value: &'static str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(name, HeaderValue::from_static(value));
    headers
}

#[test]
fn every_file_is_found_by_its_path_and_inflates() {
    for surface in [Surface::Fspiop, Surface::Admin] {
        for file in surface.files() {
            let found = surface.file(file.path()).unwrap();
            assert!(std::ptr::eq(found, file), "{}", file.path());
            assert!(!file.content().is_empty(), "{}", file.path());
        }
        for path in ["", "/", "/docs/", "/docs/x", "/openapi.json", "/docs/../openapi.yaml"] {
            assert!(surface.file(path).is_none(), "{path}");
        }
    }
    let document = |surface: Surface| surface.file("/openapi.yaml").unwrap().content();
    assert_ne!(document(Surface::Fspiop), document(Surface::Admin));
}

#[test]
fn what_is_stored_is_a_small_part_of_the_binary() {
    let bytes: usize = FSPIOP.iter().chain(&ADMIN).chain(&SHARED).map(|file| file.gzip.len()).sum();
    assert!(bytes < 600 * 1024, "{bytes} bytes");
}

#[test]
fn who_takes_gzip_gets_gzip() {
    let file = Surface::Admin.file("/openapi.yaml").unwrap();
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
fn who_has_it_is_told_so() {
    for file in Surface::Fspiop.files() {
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

/// The page may not ask anything of any other host, and the policy that holds it to that may not be loosened.
#[test]
fn the_page_stays_at_home() {
    for surface in [Surface::Fspiop, Surface::Admin] {
        let page = surface.file("/docs").unwrap();
        let answer = page.answer(&HeaderMap::new());
        let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        for loose in ["unsafe", "http:", "https:", "*", "blob:"] {
            assert!(!policy.contains(loose), "{policy}");
        }
        let html = String::from_utf8(page.content().to_vec()).unwrap();
        assert!(!html.contains("://") && !html.contains("<style") && !html.contains(" style="), "{html}");
        for part in html.split('"').filter(|text| text.starts_with("docs/") || text.starts_with("openapi")) {
            assert!(surface.file(&format!("/{part}")).is_some(), "{part}");
        }
        assert!(html.matches("docs/").count() == 4, "{html}");
    }
}

/// The library is what `VERSION.md` says it is, down to the byte, under the version in its names.
#[test]
fn the_library_is_as_published() {
    let notes = include_str!("../vendor/swagger-ui-dist/VERSION.md");
    assert!(notes.starts_with("# swagger-ui-dist 5.35.0\n"));
    for (published, path) in [
        ("swagger-ui-bundle.js", "/docs/swagger-ui-5.35.0.js"),
        ("swagger-ui.css", "/docs/swagger-ui-5.35.0.css"),
    ] {
        let digest = Sha256::digest(Surface::Admin.file(path).unwrap().content());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(notes.contains(&format!("{digest}  {published}\n")), "{published} is {digest}");
    }
}

#[test]
fn two_contents_have_two_tags() {
    let gzip = |content: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(content).unwrap();
        let gzip: &'static [u8] = encoder.finish().unwrap().leak();
        File { path: "", content_type: "", caching: Caching::Revalidated, gzip, plain: OnceLock::new() }.tag()
    };
    assert_eq!(gzip(b"one"), gzip(b"one"));
    assert_ne!(gzip(b"one"), gzip(b"two"));
}
