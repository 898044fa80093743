//! A SoftHSM for one test, by Debian's `softhsm2`, which `.ci/tools` installs or requests.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use upesi_pki::{KeyKind, SigningKey};

/// PIN of all tokens.
pub const PIN: &str = "1234";
/// The environment variable with the path of SoftHSM's settings. SoftHSM has no other way to find them.
const CONFIGURATION: &str = "SOFTHSM2_CONF";
/// Set in the process that a test starts for itself.
const DIRECTORY: &str = "SOFTHSM2_OF_TEST";
const MODULES: [&str; 3] = [
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib64/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
];

/// The tokens of a test.
pub struct SoftHsm {
    directory: PathBuf,
}

impl SoftHsm {
    /// SoftHSM reads its settings from the environment, so the test runs again in its own process. There it returns the
    /// tokens. In the first process it returns `None` after the second process has passed.
    pub fn of_test(name: &str) -> Option<Self> {
        if let Some(directory) = env::var_os(DIRECTORY) {
            return Some(Self { directory: directory.into() });
        }
        let directory = TempDir::new().unwrap();
        fs::create_dir(directory.path().join("tokens")).unwrap();
        let text = format!(
            "directories.tokendir = {}\nobjectstore.backend = file\nlog.level = ERROR\n",
            directory.path().join("tokens").display()
        );
        fs::write(directory.path().join("softhsm2.conf"), text).unwrap();
        let outcome = Command::new(env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(CONFIGURATION, directory.path().join("softhsm2.conf"))
            .env(DIRECTORY, directory.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&outcome.stdout);
        assert!(outcome.status.success(), "{text}{}", String::from_utf8_lossy(&outcome.stderr));
        assert!(text.contains("1 passed"), "{name} is the test: {text}");
        None
    }

    /// Path of a file of the test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The module.
    pub fn module() -> PathBuf {
        let module = MODULES.into_iter().map(PathBuf::from).find(|path| path.exists());
        module.expect("libsofthsm2.so is needed: run .ci/tools, or apt-get install softhsm2")
    }

    fn run(&self, arguments: &[&str]) {
        let output = Command::new("softhsm2-util")
            .args(arguments)
            .output()
            .expect("softhsm2-util is needed: run .ci/tools, or apt-get install softhsm2");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Creates a token.
    pub fn make_token(&self, token: &str) {
        self.run(&["--init-token", "--free", "--label", token, "--so-pin", PIN, "--pin", PIN]);
    }

    /// Adds a new key to a token. The key is also in the directory, as `OBJECT.key` and `OBJECT.pem`.
    pub fn make_key(&self, token: &str, object: &str, id: &str, kind: KeyKind) {
        let made = SigningKey::make(&self.directory, object, kind).unwrap();
        self.import(token, object, id, &made.key_file);
    }

    /// Imports the key of a file into a token, which does not release it.
    pub fn import(&self, token: &str, object: &str, id: &str, file: &Path) {
        let file = file.display().to_string();
        self.run(&["--import", &file, "--token", token, "--label", object, "--id", id, "--pin", PIN]);
    }

    /// A file with a PIN.
    pub fn pin_file(&self, pin: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let file = self.path("pin");
        fs::write(&file, pin).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        file
    }
}
