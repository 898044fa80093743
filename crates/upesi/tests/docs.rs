//! The reference pages are made from the source. `make docs` writes them anew.

use std::path::Path;

fn check(page: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    if std::env::var_os("UPESI_WRITE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/{page} is out of date; run `make docs` and look at the difference");
}

#[test]
fn the_configuration_page_is_what_the_catalogue_says() {
    check("configuration.md", &upesi_hub::config::reference());
}

#[test]
fn the_exit_code_page_is_what_the_source_says() {
    check("exit-codes.md", &upesi_hub::exit::Exit::reference());
}
