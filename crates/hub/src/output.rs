//! Output of commands.

use std::io::{self, Write};

use crate::exit::{Exit, Failure, Outcome};

/// Writes to stdout; a reader that went away is no failure.
///
/// # Errors
/// When stdout cannot be written.
pub fn write_out(text: &str) -> Outcome {
    let mut output = io::stdout().lock();
    let written = output.write_all(text.as_bytes());
    tolerate_closed_pipe(written)?;
    flush(&mut output)
}

/// Flushes; a reader that went away is no failure.
///
/// # Errors
/// When the output cannot be written.
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
