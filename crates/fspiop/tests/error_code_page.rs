//! The page about error codes lists every code with its text and status.

use std::collections::BTreeSet;

use upesi_types::ErrorCode;

const PAGE: &str = include_str!("../../../docs/error-codes.md");

fn row(code: ErrorCode) -> String {
    format!("| {code} | {} | {} |", code.text().unwrap_or_default(), code.http_status())
}

/// The rows of the last table of the page.
fn catalogue() -> BTreeSet<String> {
    let (_, section) = PAGE.split_once("\n## The catalogue\n").expect("the page has a catalogue");
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| code");
    section.lines().filter(is_row).map(str::to_owned).collect()
}

#[test]
fn the_page_has_exactly_the_codes_of_the_catalogue() {
    let expected: BTreeSet<_> = ErrorCode::ALL.iter().copied().map(row).collect();
    let found = catalogue();
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "add to docs/error-codes.md: {missing:#?}\nremove: {surplus:#?}"
    );
}

/// A code that the tables above the catalogue explain, but that does not exist, would mislead.
#[test]
fn every_code_that_the_page_explains_exists() {
    let rows = PAGE.lines().filter_map(|line| line.strip_prefix("| "));
    let codes = rows.filter_map(|row| row.split(" | ").next()).flat_map(|cell| cell.split(", "));
    let numbers = codes.filter_map(|code| code.parse::<u16>().ok());
    for number in numbers {
        let code = ErrorCode::from_number(number);
        assert!(code.is_some_and(|code| code.text().is_some()), "{number} is not in the catalogue");
    }
}
