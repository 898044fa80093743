//! `upesi settlement report`, as CSV or XLSX: a settlement by the sums of its windows, pair by pair. If the sums do not
//! agree with the nets of the settlement, no report is written.

mod figures;
mod tables;
#[cfg(test)]
pub(super) mod tests;

use std::io::Write;
use std::path::PathBuf;

use upesi_process::csv;
use upesi_process::exit::{Exit, Failure, Outcome, write_to};
use upesi_types::FspId;

use super::cell::Cell;
use super::error::{Done, SettlementError};
use super::hub::{Hub, HubOptions};
use super::job::JobName;
use crate::settlement::workbook;
pub(super) use figures::SettlementFigures;

/// Version of the columns.
const REPORT_VERSION: u64 = 1;

/// Options of a report.
#[derive(Clone, Debug)]
pub struct Report {
    pub settlement: u32,
    pub kind: ReportKind,
    /// The output file, as XLSX if its name ends so; without it CSV to stdout.
    pub out: Option<PathBuf>,
}

/// Contents of a report.
#[derive(Clone, Debug)]
pub enum ReportKind {
    /// Each DFSP's net.
    Multilateral,
    /// Each pair of DFSPs, netted.
    Bilateral,
    /// A table with all senders as rows and all receivers as columns.
    Matrix,
    /// One DFSP by its counterparties.
    Dfsp(FspId),
    /// The file for the settlement bank to fill in.
    Bank,
}

impl ReportKind {
    const fn name(&self) -> &'static str {
        match self {
            Self::Multilateral => "multilateral",
            Self::Bilateral => "bilateral",
            Self::Matrix => "matrix",
            Self::Dfsp(_) => "dfsp",
            Self::Bank => "bank",
        }
    }
}

/// Writes a report.
///
/// # Errors
/// 69 if the hub does not answer, 1 if it rejects a call, 65 if its figures contradict each other, 73 if the file
/// cannot be written.
pub async fn report(options: &HubOptions, report: &Report, output: &mut (dyn Write + Send)) -> Outcome {
    let hub = Hub::connect(options).await?;
    let figures = hub.figures(report.settlement).await.map_err(SettlementError::into_failure)?;
    figures.check().map_err(|text| Failure::new(Exit::Data, text))?;
    let Some(path) = &report.out else { return write_to(output, &to_csv(&render(&figures, &report.kind)?)) };
    let is_sheet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xlsx"));
    std::fs::write(path, render_to(&figures, &report.kind, is_sheet)?)
        .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", path.display())))
}

/// Prints the amounts between DFSPs in the settlements of a job, in columns for a terminal.
///
/// # Errors
/// As in [`report`].
pub async fn matrix(options: &HubOptions, job: &JobName, output: &mut (dyn Write + Send)) -> Outcome {
    let hub = Hub::connect(options).await?;
    let settlements = hub.settlements_of(job).await.map_err(SettlementError::into_failure)?;
    for settlement in settlements.iter().filter(|settlement| settlement.state != "ABORTED") {
        let figures = hub.figures(settlement.id).await.map_err(SettlementError::into_failure)?;
        figures.check().map_err(|text| Failure::new(Exit::Data, text))?;
        write_to(output, &tables::for_a_terminal(&figures))?;
    }
    Ok(())
}

impl Hub {
    /// All figures of a settlement.
    pub(super) async fn figures(&self, id: u32) -> Done<SettlementFigures> {
        let settlement = self.api.settlement(id).await?;
        let mut figures = SettlementFigures::new(&settlement, &self.api.names().await?);
        for window in &settlement.settlement_windows {
            let mut after = None;
            loop {
                let page = self.api.pairs(window.id, after.as_deref()).await?;
                for pair in &page.pairs {
                    figures.add(window, pair);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(figures)
    }
}

/// The bytes of a report's file.
pub(super) fn render_to(
    figures: &SettlementFigures,
    kind: &ReportKind,
    is_sheet: bool,
) -> Result<Vec<u8>, Failure> {
    let rows = render(figures, kind)?;
    if !is_sheet {
        return Ok(to_csv(&rows).into_bytes());
    }
    workbook::write(&rows, &figures.changed).map_err(|error| Failure::new(Exit::Software, error))
}

fn render(figures: &SettlementFigures, kind: &ReportKind) -> Result<Vec<Vec<Cell>>, Failure> {
    let rows = match kind {
        ReportKind::Multilateral => tables::multilateral(figures),
        ReportKind::Bilateral => tables::bilateral(figures),
        ReportKind::Matrix => tables::matrix(figures),
        ReportKind::Dfsp(name) => {
            let missing = || format!("settlement {}: {name} has no account in it", figures.id);
            tables::of_dfsp(figures, name.as_str()).ok_or_else(|| Failure::new(Exit::Failure, missing()))?
        }
        // Banks read it by its rows, so nothing precedes them.
        ReportKind::Bank => return Ok(tables::bank(figures)),
    };
    let mut all = head(figures, kind, rows.len() as u64 - 1);
    all.push(Vec::new());
    all.extend(rows);
    Ok(all)
}

fn head(figures: &SettlementFigures, kind: &ReportKind, rows: u64) -> Vec<Vec<Cell>> {
    let windows: Vec<String> = figures.windows.iter().map(u32::to_string).collect();
    let line = |name: &str, value: Cell| vec![Cell::text(name), value];
    let mut head = vec![
        line("report", Cell::text(kind.name())),
        line("report-version", Cell::Number(REPORT_VERSION)),
        line("settlement", Cell::Number(figures.id.into())),
        line("model", Cell::text(&figures.model)),
        line("state", Cell::text(&figures.state)),
        line("as of", Cell::text(&figures.changed)),
        line("windows", Cell::text(&windows.join(" "))),
        line("windows opened", Cell::text(&figures.opened)),
        line("windows closed", Cell::text(&figures.closed)),
        line("transfers", Cell::Number(figures.transfers())),
        line("rows", Cell::Number(rows)),
    ];
    if let ReportKind::Dfsp(name) = kind {
        head.push(line("dfsp", Cell::text(name.as_str())));
    }
    head
}

fn to_csv(rows: &[Vec<Cell>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            csv::push_cell(&cell.to_csv(), &mut text);
        }
        text.push_str("\r\n");
    }
    text
}
