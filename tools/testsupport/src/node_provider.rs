//! A real OpenID Connect provider: node-oidc-provider, as `.ci/tools tests` installs it, started on loopback.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// The provider's process. It is killed when this value is dropped.
pub struct NodeProvider {
    child: Child,
    /// Stays open, because a write to a closed pipe would end the process.
    _output: BufReader<ChildStdout>,
}

impl NodeProvider {
    /// Starts it on a port with a new key of this id, and waits until it listens. Its access tokens have this audience.
    /// It leads users of the client `console` back to this address.
    pub fn start(port: u16, kid: &str, audience: &str, redirect_uri: &str) -> Self {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/admin/tests/oidc-provider");
        let help = "run .ci/tools tests, which installs the provider (Node.js 20 or later with npm)";
        assert!(directory.join("node_modules/oidc-provider").exists(), "{help}");
        let mut child = Command::new("node")
            .args(["provider.mjs", &port.to_string(), kid, audience, redirect_uri])
            .current_dir(&directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("node: {error}; {help}"));
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let started = output.by_ref().lines().any(|line| line.is_ok_and(|line| line == "ready"));
        assert!(started, "the provider has ended");
        Self { child, _output: output }
    }
}

impl Drop for NodeProvider {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
