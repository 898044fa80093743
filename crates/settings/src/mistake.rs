//! Mistakes in settings, and the origins of values.

use std::fmt;

/// Origin of a value. Later variants take precedence over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueOrigin {
    /// The default of the catalogue.
    Default,
    /// A line of a file.
    File {
        /// The path, as given on the command line or in the environment.
        path: String,
        /// The line, from 1; 0 if it is not known.
        line: usize,
    },
    /// An environment variable.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => f.write_str(path),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Environment(name) => write!(f, "env {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Origin of the wrong value.
    pub origin: ValueOrigin,
    /// Description of the mistake and of the correct form.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}
