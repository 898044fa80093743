//! The page about error codes lists every code with its text, and the statuses.

use std::collections::{BTreeMap, BTreeSet};

use upesi_types::ErrorCode;

const PAGE: &str = include_str!("../../../../docs/error-codes.md");

/// The default status of a code on the page.
const STATUS_USUAL: u16 = 400;
/// The lowest code; statuses are below it.
const CODE_MIN: u16 = 1000;

/// Lines of the page's catalogue: codes with their texts, statuses with their codes.
fn catalogue() -> BTreeSet<String> {
    let (_, section) = PAGE.split_once("\n## The catalogue\n").expect("the page has a catalogue");
    section.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// The same lines, computed from the code.
fn expected() -> BTreeSet<String> {
    let texts = ErrorCode::ALL.iter().map(|code| format!("{code} {}", code.text().unwrap_or_default()));
    let mut by_status = BTreeMap::<u16, Vec<String>>::new();
    for code in ErrorCode::ALL.iter().filter(|code| code.http_status() != STATUS_USUAL) {
        by_status.entry(code.http_status()).or_default().push(code.to_string());
    }
    let statuses = by_status.into_iter().map(|(status, codes)| format!("{status}: {}", codes.join(", ")));
    texts.chain(statuses).collect()
}

#[test]
fn page_lists_exactly_the_codes_of_the_catalogue() {
    let (expected, found) = (expected(), catalogue());
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "add to docs/error-codes.md: {missing:#?}\nremove: {surplus:#?}"
    );
}

/// A code that is explained above the catalogue but does not exist would mislead.
#[test]
fn every_code_explained_on_the_page_exists() {
    let (explained, _) = PAGE.split_once("\n## The catalogue\n").expect("the page has a catalogue");
    let lines = explained.lines().filter_map(|line| line.strip_prefix("- "));
    let codes = lines.filter_map(|line| line.split(':').next()).flat_map(|codes| codes.split([',', ' ']));
    let numbers = codes.filter_map(|code| code.parse::<u16>().ok());
    let numbers: Vec<_> = numbers.filter(|number| *number >= CODE_MIN).collect();
    assert!(numbers.len() > 40, "only {} codes are explained", numbers.len());
    for number in numbers {
        let code = ErrorCode::from_number(number);
        assert!(code.is_some_and(|code| code.text().is_some()), "{number} is not in the catalogue");
    }
}
