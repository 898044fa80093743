//! `upesi dfsp rotate-certificate` and `upesi dfsp signing-key`: replacement of a DFSP's keys, with an overlap.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use upesi_client::rotation::{CertificateRotation, KEY_OVERLAP_HOURS_MAX, SigningKeyRotation};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::times::{ParsedTime, ZoneArguments, when};
use upesi_process::values::dfsp_name;
use upesi_types::FspId;

use super::hub::{HubArguments, connect, reason};

/// Maximum overlap of signing keys, in hours.
const OVERLAP_HOURS_MAX: i64 = KEY_OVERLAP_HOURS_MAX as i64;

/// Arguments of `upesi dfsp rotate-certificate`.
#[derive(Args, Clone, Debug)]
pub struct RotateCertificateArguments {
    /// The DFSP.
    #[arg(value_name = "NAME", value_parser = dfsp_name)]
    pub name: FspId,
    /// PEM file of the DFSP's new client certificate.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Remove the bindings of the earlier certificates, once the DFSP has used only the new one for a day.
    #[arg(long)]
    pub finish: bool,
    /// Remove them immediately: the hub then rejects the DFSP's requests with earlier certificates.
    #[arg(long, requires = "finish")]
    pub force: bool,
    /// Reason, recorded in the audit trail and shown to the second person; by default that the DFSP has a new
    /// certificate.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi dfsp signing-key`.
#[derive(Args, Clone, Debug)]
pub struct SigningKeyArguments {
    /// The DFSP.
    #[arg(value_name = "NAME", value_parser = dfsp_name)]
    pub name: FspId,
    /// File with the DFSP's new public key: PEM of a key or a certificate, or a JSON Web Key.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Time when the key becomes the DFSP's current key; by default now.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub starts: Option<ParsedTime>,
    /// Validity of the earlier keys after that time, in hours; 24 by default.
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(u32).range(0..=OVERLAP_HOURS_MAX))]
    pub overlap_hours: Option<u32>,
    /// Reason, recorded in the audit trail and shown to the second person; by default that the DFSP has a new signing
    /// key.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    /// Print one JSON object instead of lines.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub zone: ZoneArguments,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Binds a new certificate, or removes the earlier ones.
pub fn rotate_certificate(arguments: RotateCertificateArguments) -> Outcome {
    let RotateCertificateArguments { name, file, finish, force, reason, json, zone, hub } = arguments;
    let reason = reason.unwrap_or_else(|| format!("new certificate of {name}"));
    let zone = zone.chosen();
    let rotation = CertificateRotation { name, file, finishes: finish, forces: force, zone };
    let (api, runtime) = connect(hub)?;
    let done = runtime.block_on(rotation.run(&api.with_reason(&reason)))?;
    print(json, &done, || done.text())
}

/// Adds a new signing key.
pub fn add_signing_key(arguments: SigningKeyArguments) -> Outcome {
    let SigningKeyArguments { name, file, starts, overlap_hours, reason, json, zone, hub } = arguments;
    let reason = reason.unwrap_or_else(|| format!("new signing key of {name}"));
    let starts = starts.map(|starts| zone.instant(starts));
    let (api, runtime) = connect(hub)?;
    let rotation = SigningKeyRotation { name, file, starts, overlap_hours };
    let done = runtime.block_on(rotation.run(&api.with_reason(&reason)))?;
    print(json, &done, || done.text(&zone.chosen()))
}

fn print(json: bool, value: &impl Serialize, text: impl FnOnce() -> String) -> Outcome {
    let text = match json {
        true => serde_json::to_string(value).map_err(|error| Failure::new(Exit::Software, error))? + "\n",
        false => text(),
    };
    write_out(&text)
}
