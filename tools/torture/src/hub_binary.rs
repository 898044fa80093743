//! The hub's program, for trials that run the real one.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

static NAMED: OnceLock<PathBuf> = OnceLock::new();
static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Names the program to run; the first call wins. Fails if the file does not exist.
pub fn name(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !path.is_file() {
        return Err(format!("{} does not exist: `make build` creates target/release/upesi", path.display()));
    }
    let _ = NAMED.set(path);
    Ok(())
}

/// The program that was named, here or by `UPESI_BINARY`. Without one, Cargo builds it from this checkout, in release
/// mode if this program is a release build. Fails with a message if it cannot be built.
pub fn get() -> Result<PathBuf, String> {
    if let (None, Some(path)) = (NAMED.get(), std::env::var_os("UPESI_BINARY")) {
        name(Path::new(&path))?;
    }
    NAMED.get().map_or_else(|| BUILT.get_or_init(build).clone(), |path| Ok(path.clone()))
}

/// How a program was built, if its path shows that; else the path.
pub fn build_of(path: &Path) -> String {
    let directory = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    match directory {
        Some(name @ ("debug" | "release")) => name.to_owned(),
        _ => path.display().to_string(),
    }
}

fn build() -> Result<PathBuf, String> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--locked", "--package", "upesi", "--bin", "upesi"]);
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    if profile == "release" {
        command.arg("--release");
    }
    let advice = "build it with `make build` and name it with --binary target/release/upesi";
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("cargo could not build upesi ({status}): {advice}")),
        Err(error) => return Err(format!("cargo cannot be run ({error}): {advice}")),
    }
    // The directories of the profiles are siblings, as in target/torture/torture and target/debug/deps/small-….
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let found = program.ancestors().skip(2).map(|place| place.join(profile).join("upesi"));
    found.take(2).find(|path| path.is_file()).ok_or_else(|| format!("upesi was built elsewhere: {advice}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_follows_from_the_path() {
        for (path, build) in [
            ("/work/target/release/upesi", "release"),
            ("target/debug/upesi", "debug"),
            ("/usr/bin/upesi", "/usr/bin/upesi"),
        ] {
            assert_eq!(build_of(Path::new(path)), build);
        }
    }

    #[test]
    fn missing_program_is_rejected() {
        let error = name(Path::new("/nowhere/upesi")).unwrap_err();
        assert!(error.contains("/nowhere/upesi") && error.contains("make build"), "{error}");
    }
}
