use super::*;

fn arguments(data: &Path) -> TrimArguments {
    TrimArguments {
        data: data.to_owned(),
        to: None,
        delete: true,
        release_reserve: false,
        dry_run: false,
        json: false,
    }
}

#[test]
fn what_is_no_data_directory_is_not_made_one() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    assert_eq!(trim(&arguments(&missing)).unwrap_err().exit, Exit::NoInput);
    assert!(!missing.exists());
    assert_eq!(trim(&arguments(directory.path())).unwrap_err().exit, Exit::Data);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn without_a_snapshot_everything_is_needed() {
    let directory = tempfile::tempdir().unwrap();
    drop(DataDirectory::open(directory.path()).unwrap());
    let report = trim(&arguments(directory.path())).unwrap();
    assert_eq!((report.segments, report.first_needed_record), (0, 1));
    assert!(report.to_text().contains("Nothing can go"), "{}", report.to_text());
}

#[test]
fn a_directory_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let _hub = DataDirectory::open(directory.path()).unwrap();
    assert_eq!(trim(&arguments(directory.path())).unwrap_err().exit, Exit::Temporary);
}

#[test]
fn who_trims_says_where_to_or_that_the_segments_may_go() {
    use clap::Parser;

    #[derive(Parser)]
    struct Trim {
        #[command(flatten)]
        _arguments: TrimArguments,
    }

    let parsed = |words: &str| Trim::try_parse_from(words.split(' ').skip(1)).is_ok();
    assert!(parsed("upesi trim data --to old"));
    assert!(parsed("upesi trim data --to old --dry-run --json"));
    assert!(parsed("upesi trim data --delete --dry-run"));
    assert!(parsed("upesi trim data --release-reserve --to old"));
    assert!(parsed("upesi trim data --release-reserve"));
    for words in ["trim data", "trim --delete", "trim data --dry-run", "trim data --delete --to old"] {
        assert!(!parsed(&format!("upesi {words}")), "{words}");
    }
}
