//! Reads of the admin API with an operator's token, at a hub that requires authentication of every client.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use upesi_http::{Bytes, Full, HeaderValue, Method, Request, StatusCode};

use super::measurement::Measurement;
use super::past::ExistingState;
use super::scheme::Scheme;
use super::senders::{HUB, Senders, beside_hub, target_of};
use super::stream::{GenerateOptions, Stream};
use super::{Context, IsolatedError, hub_binary, scratch};
use crate::drive::child::HubProcess;
use crate::plan::stage::admin::Settings;

/// The operator that reads, and its role.
const OPERATOR: &str = "reader";
const ROLE: &str = "operations";

impl Settings {
    pub(super) fn run(&self, context: &Context) -> Result<Measurement, IsolatedError> {
        let scratch = scratch(&context.scratch)?;
        let data = scratch.path().join("data");
        // Only the DFSPs of the stream are needed.
        let options = GenerateOptions { transfers: 1, dfsps: self.dfsps, ..GenerateOptions::default() };
        let stream = Stream::generate(&options)?;
        let names = stream.header.dfsps.clone();
        let past = ExistingState {
            scheme: Scheme::of(&stream, None)?,
            existing: 0,
            dfsps: self.dfsps,
            seed: context.seed,
            reserved: Arc::default(),
        };
        past.write(&data)?;
        let first = scratch.path().join("bootstrap.token");
        upesi(&["admin", "bootstrap", "--data", text(&data)?, "--out", text(&first)?])?;
        let arguments = vec!["--set=admin.authentication=required".to_owned()];
        beside_hub(context, &data, arguments, 1, |hub, runtime, workers| {
            let token = token(hub, (&first, &scratch.path().join("reader.token")))?;
            let target = target_of(&hub.admin_url())?;
            let make = move |index: usize| read_of(&names[index % names.len()], &token);
            let senders = Senders::new(&target, workers, self.connections, StatusCode::OK, make);
            let part = self.messages / (self.repetitions + 1);
            senders.begin(runtime, part)?;
            let mut measurement = Measurement::new("read", HUB);
            measurement.fed_with(&stream);
            senders.measure(runtime, hub.pid(), (part, self.repetitions), &mut measurement)?;
            Ok(measurement)
        })
    }
}

/// A request for the accounts of a DFSP, with their balances.
fn read_of(dfsp: &str, token: &HeaderValue) -> Result<Request<Full<Bytes>>, String> {
    let mut request = Request::new(Full::default());
    *request.method_mut() = Method::GET;
    *request.uri_mut() =
        format!("/participants/{dfsp}/accounts").parse().map_err(|_| "the path is not a URI".to_owned())?;
    request.headers_mut().insert("authorization", token.clone());
    Ok(request)
}

/// Creates an operator with read permission, and its token.
fn token(hub: &HubProcess, files: (&Path, &Path)) -> Result<HeaderValue, IsolatedError> {
    let (first, own) = (text(files.0)?, text(files.1)?);
    let admin = hub.admin_url();
    let create = ["admin", "create", OPERATOR, "--role", ROLE, "--admin", &admin];
    upesi(&[&create[..], &["--token-file", first, "--out", own]].concat())?;
    let token = std::fs::read_to_string(own).map_err(IsolatedError::io("read", files.1))?;
    HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|error| IsolatedError::Operator(error.to_string()))
}

fn upesi(arguments: &[&str]) -> Result<(), IsolatedError> {
    let run = Command::new(hub_binary()?).args(arguments).output();
    let output =
        run.map_err(|source| IsolatedError::Io { what: "cannot start the hub's binary".to_owned(), source })?;
    if output.status.success() {
        return Ok(());
    }
    Err(IsolatedError::Operator(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

fn text(path: &Path) -> Result<&str, IsolatedError> {
    path.to_str().ok_or_else(|| IsolatedError::Io {
        what: format!("the path {} is not a valid text", path.display()),
        source: std::io::ErrorKind::InvalidFilename.into(),
    })
}
