//! The binary with data of an earlier version: it exits with code 65 and names the version, and changes nothing.

use std::fs;
use std::path::Path;

use crate::support_command::upesi;
use tempfile::TempDir;
use upesi_testsupport::packed;

const FIXTURE: &[u8] = include_bytes!("../../../engine/tests/fixtures/data-format-1.bin");

/// Runs a command on a data directory. Returns its exit code and its stderr.
fn run(arguments: &[&str], data: &Path) -> (Option<i32>, String) {
    let arguments =
        arguments.iter().map(|word| if *word == "DATA" { data.as_os_str() } else { word.as_ref() });
    let output = upesi(&[]).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn data_directory_of_format_1_is_rejected_unchanged() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    let files = packed::decode(FIXTURE);
    packed::unpack(&files, &data);
    let serve = ["serve", "--data", "DATA", "--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    for arguments in [&serve[..], &["audit", "DATA"], &["journal", "DATA"]] {
        let (code, told) = run(arguments, &data);
        assert_eq!(code, Some(65), "{arguments:?}: {told}");
        for part in
            ["\"upesi-data 1\"", "this version reads \"upesi-data 2\"", "begin with an empty directory"]
        {
            assert!(told.contains(part), "{arguments:?}: {told}");
        }
    }
    for file in &files {
        assert!(fs::read(data.join(&file.path)).unwrap() == file.bytes, "{} changed", file.path);
    }
}
