//! The rules of the ledger as stories in `tests/stories/*.txt`. After each step all invariants are checked.

mod story;
mod support;

use std::fs;
use std::path::Path;

/// A test per scheme, so that each can run alone.
macro_rules! stories {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { tell(stringify!($name)) })*
        const SCHEMES: &[&str] = &[$(stringify!($name)),*];
    };
}

stories! {
    abort, activity, admin_accounts, admin_participants, admin_settlement, approvals, bindings, blocks, bulks,
    bulks_refused, callbacks, capacity, caps, change_sets, cover, duplicates, expiry, fees, fulfil, funds,
    fx_transfers, fx_transfers_payee, get, gross, opening, positions, prepare, proxies, remainders,
    settlements, signature_keys, validity, windows,
}

fn tell(scheme: &str) {
    let holds =
        |(_, text): &(String, String)| text.lines().any(|line| story::scheme_of(line) == Some(scheme));
    let (file, text) = files().into_iter().find(holds).expect("a file with the scheme");
    match story::run_scheme(&file, scheme, &text) {
        Ok(count) => assert!(count > 0, "{scheme} contains no story"),
        Err(failures) => panic!("\n{failures}"),
    }
}

/// Names and texts of the files.
fn files() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let entries = fs::read_dir(&directory).expect("the directory of stories");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let stories = names.filter(|name| name.ends_with(".txt"));
    stories
        .map(|name| (format!("tests/stories/{name}"), fs::read_to_string(directory.join(name)).unwrap()))
        .collect()
}

#[test]
fn every_scheme_has_one_test() {
    let files = files();
    let lines = files.iter().flat_map(|(_, text)| text.lines());
    let mut told: Vec<_> = lines.filter_map(story::scheme_of).collect();
    told.sort_unstable();
    assert_eq!(told, SCHEMES, "list every scheme in stories!");
    for (file, text) in &files {
        assert!(text.starts_with("scheme "), "{file} begins with no scheme");
    }
}

/// Stories would prove nothing if a wrong expectation passed.
#[test]
fn a_wrong_expectation_fails() {
    let scheme = "scheme it\ncreate hub account HUB_RECONCILIATION KES\ncreate hub account HUB_MULTILATERAL_SETTLEMENT KES\n\
                  create model DEFERREDNET default\nparticipant greenbank KES cap 10 funds 10\n\
                  participant bluewallet KES\nstory It\n";
    let prepare = "prepare t1 greenbank → bluewallet 5 KES\n";
    for (wrong, told) in [
        ("", "+ → bluewallet POST t1 forwarded"),
        ("→ bluewallet POST t2 forwarded\n", "- → bluewallet POST t2 forwarded"),
        (
            "→ bluewallet POST t1 forwarded\n→ greenbank POST t1 forwarded\n",
            "- → greenbank POST t1 forwarded",
        ),
        ("→ bluewallet POST t1 forwarded\nposition greenbank 6", "- 6\n    + 5"),
        ("→ bluewallet POST t1 forwarded\nposition greenbank 5 KES now", "not understood: \"now\""),
        ("→ bluewallet POST t1 forwarded\ndance", "no such step"),
    ] {
        let failure =
            story::run_scheme("a file", "it", &format!("{scheme}{prepare}{wrong}")).expect_err(wrong);
        assert!(failure.contains(told), "{failure}");
    }
}
