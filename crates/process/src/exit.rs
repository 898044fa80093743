//! Exit codes and the errors that end a command.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;

use upesi_keys::read_limited_text;
use upesi_types::text::escape_lines;

/// Result of a command. The numbers from 64 on come from BSD's `sysexits.h`, so that scripts and service managers can
/// distinguish mistakes to correct from conditions that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Success = 0,
    /// The command ran, but its work or its check failed.
    Failure = 1,
    /// The command line or the configuration is wrong.
    Usage = 64,
    /// Stored or given data is damaged or contradicts itself.
    Data = 65,
    /// An input file or directory does not exist or cannot be read.
    NoInput = 66,
    /// A needed resource is not available: a port, another server.
    Unavailable = 69,
    /// The program detected a fault of its own.
    Software = 70,
    /// The data directory or an output file cannot be created or written.
    CannotCreate = 73,
    /// The disk or the network failed while the command ran.
    InputOutput = 74,
    /// The resource is in use: try again later.
    Temporary = 75,
}

impl Exit {
    /// Every code, in order.
    pub const ALL: [Self; 10] = [
        Self::Success,
        Self::Failure,
        Self::Usage,
        Self::Data,
        Self::NoInput,
        Self::Unavailable,
        Self::Software,
        Self::CannotCreate,
        Self::InputOutput,
        Self::Temporary,
    ];

    /// The exit code in the shell.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Name, meaning and remedy.
    pub const fn explain(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Success => ("success", "The command succeeded.", "Nothing."),
            Self::Failure => (
                "failure",
                "The command ran, but its work or its check failed. Examples: a scheme could not be applied completely, \
                 lines of an import were rejected, the audit of a lab run failed.",
                "Read the last lines on stderr.",
            ),
            Self::Usage => (
                "usage",
                "The command line, the configuration file or an environment variable is wrong. Nothing was started or \
                 changed. The command reports every mistake.",
                "Correct the mistakes; `upesi config` shows the settings in effect.",
            ),
            Self::Data => (
                "data",
                "Stored data is damaged or contradicts itself (journal, snapshot, archive), or a given file has \
                 invalid contents (scheme). Nothing was overwritten.",
                "For a data directory: do not change it, run `upesi audit` on a copy, restore the named file from a backup. \
                 For a scheme file: correct the named lines.",
            ),
            Self::NoInput => (
                "no input",
                "An input file or directory does not exist or cannot be read.",
                "Check the path and its permissions.",
            ),
            Self::Unavailable => (
                "unavailable",
                "A port is in use or not permitted, or a server that the command needs does not answer.",
                "Stop the other process or choose another port; check that the hub is running at the given address.",
            ),
            Self::Software => (
                "software",
                "The program detected a fault of its own and stopped. A process that aborts while it is running exits with 134 \
                 (SIGABRT) in the shell; stderr then names the place in the source.",
                "Keep the data directory and the log, and report the fault.",
            ),
            Self::CannotCreate => (
                "cannot create",
                "The data directory or an output file cannot be created or written to.",
                "Give the user write access, or choose another path.",
            ),
            Self::InputOutput => (
                "input/output",
                "The disk or the network failed, or output could not be written. Acknowledged requests are safe: a hub \
                 stops at the first failed write.",
                "Check the disk, then start again; the hub recovers by itself.",
            ),
            Self::Temporary => (
                "temporary",
                "Another process is using the data directory, a system limit is reached, or a change needs the approval \
                 of a second person.",
                "Try again when the other process has exited, or the change has been approved.",
            ),
        }
    }

    /// Every code with its meaning and remedy, as Markdown.
    pub fn reference() -> String {
        let mut page = String::from(
            "# Exit codes\n\n\
             Every `upesi` command exits with one of these codes. Data goes to stdout; the reason of a failure is the last \
             text on stderr.\n\nCodes from 64 on follow BSD's `sysexits.h`. For a process that was killed by a signal, the\n\
             shell shows 128 + the number of the signal.\n\n\
             | code | name | meaning | what to do |\n|---|---|---|---|\n",
        );
        for exit in Self::ALL {
            let (name, meaning, remedy) = exit.explain();
            page.push_str(&format!("| {} | {name} | {meaning} | {remedy} |\n", exit.code()));
        }
        page
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Reason for the end of a command, with its exit code.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// Text for stderr; one or more lines.
    pub message: String,
}

impl Failure {
    /// A failure with its code.
    pub fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The result of a command.
pub type Outcome = Result<(), Failure>;

// Input and output of commands.

/// Reads the text of a file that an operator has named.
///
/// # Errors
/// 66 if it cannot be read, 65 if it is too large or not UTF-8.
pub fn read_named(file: &Path, bytes_max: u64) -> Result<String, Failure> {
    read_limited_text(file, bytes_max).map_err(|error| {
        let is_wrong = matches!(error.kind(), ErrorKind::FileTooLarge | ErrorKind::InvalidData);
        let exit = if is_wrong { Exit::Data } else { Exit::NoInput };
        Failure::new(exit, format!("{}: {error}", file.display()))
    })
}

/// Writes to stdout, with hidden characters escaped. A closed pipe is not a failure.
///
/// # Errors
/// If stdout cannot be written.
pub fn write_out(text: &str) -> Outcome {
    let mut output = io::stdout().lock();
    let written = output.write_all(escape_lines(text).as_bytes());
    tolerate_closed_pipe(written)?;
    flush(&mut output)
}

/// Writes to an output. A closed pipe is not a failure, because it must not stop changes half-way.
///
/// # Errors
/// If the output cannot be written.
pub fn write_to(output: &mut (dyn Write + Send), text: &str) -> Outcome {
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::new(Exit::InputOutput, format!("cannot write: {error}"))),
    }
}

/// Flushes the output. A closed pipe is not a failure.
///
/// # Errors
/// If the output cannot be written.
pub fn flush(output: &mut dyn Write) -> Outcome {
    tolerate_closed_pipe(output.flush())
}

fn tolerate_closed_pipe(result: io::Result<()>) -> Outcome {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => {
            other.map_err(|error| Failure::new(Exit::InputOutput, format!("cannot write to stdout: {error}")))
        }
    }
}
