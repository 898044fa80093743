//! Runs a command.

use std::ffi::OsString;
use std::io;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use upesi_lab::cli as lab;
use upesi_node::logging;
use upesi_offline::audit::{self, AuditOptions};
use upesi_offline::backup::{self, BackupArguments, RestoreArguments};
use upesi_offline::export;
use upesi_offline::journal::filter::Filter;
use upesi_offline::journal::print::{PrintOptions, print};
use upesi_offline::trail::{self, EntryFilter, ExportOptions, TrailOptions, verify_export};
use upesi_offline::trim::trim;
use upesi_process::exit::{Exit, Failure, Outcome, flush, write_out};
use upesi_process::terminal::{Escaping, note};
use upesi_process::times::ParsedTime;

use super::arguments::{
    AuditArguments, Cli, Command, ConfigArguments, InitArguments, JournalArguments, TrailArguments,
    TrailSource, VerifyArguments,
};
use super::settings::{SettingsArguments, settings};
use super::{
    admin, bindings, callback, cluster, context, dfsp, directory, funds, help, pki, position, process,
    scheme, settlement, sim, spelling, transfer,
};
use crate::demo;

/// Runs the command and returns its exit code. Failures are printed on stderr.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments = spelling::renewed(arguments.into_iter().collect());
    let matches = help::definition(None).try_get_matches_from(arguments);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are not mistakes.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Success,
                _ => Exit::Usage,
            };
        }
    };
    match check_environment(&cli.command).and_then(|()| dispatch(cli.command)) {
        Ok(()) => Exit::Success,
        Err(failure) => {
            if !failure.message.is_empty() {
                note(format_args!("{failure}"));
            }
            failure.exit
        }
    }
}

/// Rejects unknown `UPESI_` variables. Commands with settings report them together with other mistakes, and help
/// ignores them.
fn check_environment(command: &Command) -> Outcome {
    if matches!(command, Command::Serve(_) | Command::Config(_) | Command::Help(_)) {
        return Ok(());
    }
    let environment: Vec<_> = std::env::vars_os().collect();
    let mistakes = upesi_settings::environment_mistakes(&environment);
    match mistakes.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(Exit::Usage, upesi_settings::describe(&mistakes))),
    }
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Serve(arguments) => serve(&arguments),
        Command::Init(arguments) => init(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Config(arguments) => show_config(&arguments),
        Command::Scheme(command) => scheme::run(command),
        Command::Settlement(command) => settlement::run(command),
        Command::Dfsp(command) => dfsp::run(command),
        Command::Block(command) => bindings::blocks(command),
        Command::Position(arguments) => position::positions(arguments),
        Command::Cap(command) => position::caps(command),
        Command::Funds(command) => funds::run(command),
        Command::Transfer(command) => transfer::run(command),
        Command::Callback(command) => callback::run(command),
        Command::Lane(arguments) => callback::lanes(arguments),
        Command::Hub(command) => process::run(command),
        Command::Context(command) => context::run(command),
        Command::Directory(command) => directory::run(command),
        Command::Admin(command) => admin::run(command),
        Command::Cluster(command) => cluster::run(command),
        Command::Pki(command) => pki::run(command),
        Command::Sim(arguments) => sim::run(&arguments),
        Command::Lab(command) => lab::run(command),
        Command::Journal(arguments) => journal(arguments),
        Command::Audit(arguments) => audit_directory(arguments),
        Command::Trail(arguments) => audit_trail(arguments),
        Command::Backup(arguments) => make_backup(&arguments),
        Command::Restore(arguments) => restore_backup(&arguments),
        Command::Trim(arguments) => {
            let report = trim(&arguments)?;
            write_out(&if arguments.json { to_json_line(&report)? } else { report.to_text() })
        }
        Command::Export(arguments) => {
            let count = export::export(&arguments)?;
            let (what, out) = (arguments.kind.noun(), arguments.out.display());
            write_out(&format!("{count} {what} exported to {out}\n"))
        }
        Command::Help(arguments) => help::run(&arguments),
    }
}

fn serve(arguments: &SettingsArguments) -> Outcome {
    let settings = settings(arguments)?.settings;
    let log = logging::start(&settings.log.level, settings.log.format)
        .map_err(|error| Failure::new(Exit::Software, error))?;
    match upesi_node::serve(&settings, log) {
        Exit::Success => Ok(()),
        // The log contains the reason.
        exit => Err(Failure::new(exit, "")),
    }
}

fn init(arguments: &InitArguments) -> Outcome {
    let directory = &arguments.directory;
    upesi_offline::directory::make(directory)?;
    write_out(&format!("{} is an empty data directory\n", directory.display()))
}

fn show_config(arguments: &ConfigArguments) -> Outcome {
    if arguments.reference {
        return write_out(&upesi_settings::reference(arguments.all));
    }
    let effective = settings(&arguments.settings)?;
    write_out(&if arguments.json {
        upesi_settings::to_json(&effective)
    } else {
        upesi_settings::to_toml(&effective)
    })
}

fn journal(arguments: JournalArguments) -> Outcome {
    let JournalArguments { directory, json, payload, from, limit, transfer, fsp, since, until, zone } =
        arguments;
    let instant = |when: Option<ParsedTime>| when.map(|when| zone.instant(when));
    let filter = Filter { transfer, fsp, since: instant(since), until: instant(until) };
    let zone = zone.chosen();
    let options = PrintOptions { directory, from_seq: from, filter, limit, json, payload, zone };
    let mut output = io::BufWriter::new(Escaping::new(io::stdout().lock()));
    let outcome = print(&options, &mut output, &mut Escaping::new(io::stderr()));
    // Records before the damage are printed.
    let flushed = flush(&mut output);
    outcome.and(flushed)
}

fn audit_directory(arguments: AuditArguments) -> Outcome {
    let AuditArguments { directory, json, allow_live, no_archive } = arguments;
    let report = audit::audit(&AuditOptions { directory, allow_live, with_archive: !no_archive })?;
    write_out(&if json { audit::to_json(&report) } else { audit::to_text(&report) })?;
    if report.is_sound() {
        Ok(())
    } else {
        Err(Failure::new(Exit::Data, format!("{} findings", report.findings_total)))
    }
}

fn audit_trail(arguments: TrailArguments) -> Outcome {
    if let Some(TrailSource::Verify(VerifyArguments { export, first, checkpoints, key })) = arguments.source {
        let options = ExportOptions { export, first, checkpoints: checkpoints.zip(key) };
        return verify_export(&options, &mut Escaping::new(io::stderr()));
    }
    let TrailArguments { directory, json, verify, operator, action, object, outcome, zone, .. } = arguments;
    // Without an export, the arguments have a directory.
    let directory = directory.unwrap_or_default();
    let filter = EntryFilter {
        operator: operator.map(Into::into),
        action: action.map(Into::into),
        object: object.map(Into::into),
        outcome: outcome.as_deref().and_then(trail::AttemptOutcome::parse),
        since: arguments.since.map(|since| zone.instant(since)),
        until: arguments.until.map(|until| zone.instant(until)),
    };
    let options = TrailOptions {
        directory,
        filter,
        limit: arguments.limit,
        verify_only: verify,
        json,
        zone: zone.chosen(),
        checkpoints: arguments.checkpoints.zip(arguments.key),
    };
    let mut output = io::BufWriter::new(Escaping::new(io::stdout().lock()));
    let outcome = trail::trail(&options, &mut output, &mut Escaping::new(io::stderr()));
    let flushed = flush(&mut output);
    outcome.and(flushed)
}

fn make_backup(arguments: &BackupArguments) -> Outcome {
    let report = backup::backup(arguments)?;
    write_out(&if arguments.json { to_json_line(&report)? } else { report.to_text() })
}

fn restore_backup(arguments: &RestoreArguments) -> Outcome {
    let report = backup::restore(arguments)?;
    let data = arguments.data.display();
    if arguments.json {
        write_out(&audit::to_json(&report.audit))?;
    } else {
        let (files, bytes) = (report.files, report.bytes);
        let audit = audit::to_text(&report.audit);
        write_out(&format!("restored {files} files ({bytes} bytes) to {data}\n{audit}"))?;
    }
    let total = report.audit.rule_findings_total;
    match (total, report.is_accepted) {
        (0, _) => Ok(()),
        (_, true) => {
            note(format_args!(
                "{total} findings about rules are accepted; the next start of the hub records this in the audit trail"
            ));
            Ok(())
        }
        (_, false) => Err(Failure::new(
            Exit::Data,
            format!(
                "{data} is restored completely, and its sums are right, but {total} decisions violate the \
                 auditor's rules (see above). No hub starts on it until they are accepted: read them, then repeat the \
                 command with --accept-findings, which the audit trail will record."
            ),
        )),
    }
}

fn to_json_line(value: &impl serde::Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::new(Exit::Software, error))?;
    Ok(text + "\n")
}
