//! Plots that a file requests.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A plot of runs: a figure over a parameter. In a file, the plot has no runs yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SuitePlot {
    /// Its heading.
    pub title: String,
    /// Parameter on the horizontal axis.
    pub x: String,
    /// Parameter that separates the lines.
    pub series: Option<String>,
    /// The plotted figure.
    pub y: String,
    /// Indices into `runs`.
    pub runs: Vec<usize>,
}

impl SuitePlot {
    pub(crate) fn over(&self, runs: Range<usize>) -> Self {
        Self { runs: runs.collect(), ..self.clone() }
    }
}
