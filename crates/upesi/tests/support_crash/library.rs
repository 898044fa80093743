//! Libraries that are loaded in front of the C library's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::may_skip::leave_out;

/// Compiles one into a directory. `None` where there is no C compiler and the test may be left out.
pub fn compile(directory: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let (file, library) = (directory.join(format!("{name}.c")), directory.join(format!("{name}.so")));
    fs::write(directory.join("files.h"), include_str!("files.h")).unwrap();
    fs::write(&file, source).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-pthread", "-o"]).arg(&library).arg(&file).arg("-ldl");
    match compiler.output() {
        Ok(output) if output.status.success() => Some(library),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            leave_out(&format!("a C compiler (cc) cannot be run: {error}"));
            None
        }
    }
}
