//! `upesi directory`: imports into and reads the hub's built-in party directory.
//!
//! # How an import resumes
//! An import has a name, and the hub stores its next line together with the entries. The default name is the SHA-256 of
//! the file. So the same file continues at the line where an earlier import stopped, whichever client sends it and
//! however that import ended. A file with a changed byte is another import. Reading the file twice costs a second per
//! few hundred megabytes. A name that consists of the length and a few bytes would mistake an edited file for the old
//! one and skip its lines.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use upesi_http::{Bytes, ClientTls};
use upesi_keys::OtherForm;
use upesi_parties::import::{CHUNK_LINES_MAX, Columns, IMPORT_ID_CHARS_MAX, ImportId, LINE_BYTES_MAX};
use upesi_process::exit::{Exit, Failure, Outcome, write_to};
use upesi_types::hex;
use upesi_types::text::{Escaped, path, url_part};

use crate::admin_api::{AdminApi, AdminError, AdminToken};
use crate::await_hub::await_admin;

/// Maximum size of a chunk: with its last line it stays below the largest body that the admin API accepts.
const CHUNK_BYTES_MAX: usize = upesi_admin::BODY_BYTES_MAX - 2 * LINE_BYTES_MAX;
/// Maximum number of rejected lines in the output.
const REFUSALS_SHOWN_MAX: usize = 1_000;
const READ_BUFFER_BYTES: usize = 1 << 20;
/// Number of characters of the SHA-256 in an import's name.
const NAME_DIGITS: usize = 32;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    pub file: PathBuf,
    /// Base URL of the hub's admin API.
    pub admin_url: String,
    /// TLS for an `https://` URL.
    pub admin_tls: Option<ClientTls>,
    /// The operator's token, if the admin port requires one.
    pub admin_token: Option<AdminToken>,
    /// Time to wait for a hub that does not answer yet.
    pub wait: Duration,
    /// Name of the import; by default it is derived from the file's content.
    pub name: Option<String>,
    /// Whether a line replaces the registration of another DFSP.
    pub replace: bool,
    /// Print one JSON object instead of text.
    pub json: bool,
}

/// Result of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub import: String,
    /// Accepted lines of this and earlier attempts.
    pub taken: u64,
    /// Rejected lines of this and earlier attempts.
    pub refused: u64,
    pub first_line: u64,
    /// Rejected lines of this attempt; not all of them if there are very many.
    pub refusals: Vec<RefusedLine>,
}

/// Imports a file and prints the result; rejected lines are written to `notes`.
///
/// # Errors
/// 66 if the file cannot be read, 65 for a file without a header, 69 if the hub does not answer, 75 if it stays busy, 1
/// if it rejects the import or some of its lines.
pub async fn import(
    options: &ImportOptions,
    output: &mut (dyn Write + Send),
    notes: &mut (dyn Write + Send),
) -> Outcome {
    let summary = send(options).await?;
    for refusal in &summary.refusals {
        // A closed output is not a failure.
        let _ = writeln!(notes, "line {}: {}", refusal.line, Escaped(&refusal.reason));
    }
    let text = if options.json {
        let json = serde_json::to_string(&summary).map_err(|error| Failure::new(Exit::Software, error))?;
        format!("{json}\n")
    } else {
        let Summary { import, taken, refused, .. } = &summary;
        format!("import {import}: {taken} lines accepted, {refused} rejected\n")
    };
    write_to(output, &text)?;
    match summary.refused {
        0 => Ok(()),
        refused => Err(Failure::new(Exit::Failure, format!("rejected lines: {refused}"))),
    }
}

/// Prints the entries of an identifier.
///
/// # Errors
/// 69 if the hub does not answer, 1 if it rejects the request or no DFSP serves the party.
pub async fn get(
    api: &AdminApi,
    kind: &str,
    id: &str,
    json: bool,
    output: &mut (dyn Write + Send),
) -> Outcome {
    let party = get_party(api, kind, id).await?;
    if json {
        let json = serde_json::to_string(&party).map_err(|error| Failure::new(Exit::Software, error))?;
        write_to(output, &format!("{json}\n"))?;
    } else {
        let text: String = party
            .entries
            .iter()
            .map(|entry| {
                let sub_id = Escaped(entry.party_sub_id_or_type.as_deref().unwrap_or("-"));
                let currency = Escaped(entry.currency.as_deref().unwrap_or("-"));
                format!("{}\t{currency}\t{sub_id}\n", Escaped(&entry.fsp_id))
            })
            .collect();
        write_to(output, &text)?;
    }
    match party.entries.is_empty() {
        false => Ok(()),
        true => Err(Failure::new(Exit::Failure, format!("no DFSP is registered for {kind} {id}"))),
    }
}

async fn send(options: &ImportOptions) -> Result<Summary, Failure> {
    let api = AdminApi::with_tls(&options.admin_url, options.admin_tls.clone())
        .map_err(|error| failure_of(&error))?;
    let unreadable = |error: io::Error| {
        Failure::new(Exit::NoInput, format!("{} cannot be read: {error}", options.file.display()))
    };
    let mut file = open_regular(&options.file).map_err(unreadable)?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => name_of(&mut file, options.replace).map_err(unreadable)?,
    };
    if ImportId::parse(&name).is_none() {
        let rule = format!("an import's name has 1 to {IMPORT_ID_CHARS_MAX} letters, digits, - and _");
        return Err(Failure::new(Exit::Usage, rule));
    }
    file.rewind().map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, file);
    let mut header = Vec::new();
    let header_bytes = read_line(&mut reader, &mut header, LINE_BYTES_MAX).map_err(unreadable)?;
    let header = check_header(&options.file, header)?;
    await_admin(&options.admin_url, options.admin_tls.as_ref(), options.wait).await?;
    let import = HubImport::new(api, &name, &header, options.replace);
    let mut progress = import.progress().await?;
    // Line 1 is the header.
    let first_line = progress.next_line.max(2);
    let bar = progress_bar(length);
    bar.inc(header_bytes);
    let (mut line, mut refusals) = (2, Vec::new());
    loop {
        let chunk = Chunk::read(&mut reader, &mut line, progress.next_line).map_err(unreadable)?;
        bar.inc(chunk.file_bytes);
        if chunk.lines.is_empty() {
            break;
        }
        progress = import.take(chunk.from, chunk.lines.into()).await?;
        let room = REFUSALS_SHOWN_MAX - refusals.len();
        refusals.extend(progress.chunk.take().into_iter().flat_map(|chunk| chunk.refusals).take(room));
        bar.set_message(format!("{} accepted, {} rejected", progress.taken, progress.refused));
    }
    bar.finish_and_clear();
    let (taken, refused) = (progress.taken, progress.refused);
    Ok(Summary { import: name, taken, refused, first_line, refusals })
}

/// Opens a regular file, because it is read twice and must have an end.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Lines to send.
struct Chunk {
    /// Number of the first line.
    from: u64,
    lines: Vec<u8>,
    /// Their size in the file, including skipped lines.
    file_bytes: u64,
}

impl Chunk {
    /// Reads the next lines of the file from `next_line` on; `line` is the reader's current line. Empty at the end of
    /// the file.
    fn read(reader: &mut impl io::BufRead, line: &mut u64, next_line: u64) -> io::Result<Self> {
        let mut chunk = Self { from: next_line, lines: Vec::new(), file_bytes: 0 };
        let mut passed_over = Vec::new();
        let mut count = 0;
        while count < CHUNK_LINES_MAX && chunk.lines.len() < CHUNK_BYTES_MAX {
            let is_wanted = *line >= next_line;
            let into = if is_wanted { &mut chunk.lines } else { &mut passed_over };
            let taken = read_line(reader, into, LINE_BYTES_MAX)?;
            if taken == 0 {
                break;
            }
            chunk.file_bytes += taken;
            if is_wanted {
                if count == 0 {
                    chunk.from = *line;
                }
                chunk.lines.push(b'\n');
                count += 1;
            }
            passed_over.clear();
            *line += 1;
        }
        Ok(chunk)
    }
}

/// The header as text, if it is valid.
fn check_header(file: &Path, header: Vec<u8>) -> Result<String, Failure> {
    if let Some(form) = OtherForm::of(&header) {
        return Err(Failure::new(Exit::Data, format!("{}: {}", file.display(), form.instead_of_csv())));
    }
    let header = String::from_utf8(header).map_err(|_| "it is not UTF-8".to_owned());
    let header = header.and_then(|header| Columns::parse(&header).map(|_| header));
    header.map_err(|mistake| {
        let text = format!("{}: the first line is not a header: {mistake}", file.display());
        Failure::new(Exit::Data, text)
    })
}

/// The default name of an import: a digest of the file's content.
fn name_of(file: &mut File, replace: bool) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let digits = hex(&hasher.finalize());
    // With replacement, the same file has another effect.
    Ok(format!("{}{}", &digits[..NAME_DIGITS], if replace { "-replace" } else { "" }))
}

/// A progress bar on stderr, if that is a terminal.
fn progress_bar(length: u64) -> ProgressBar {
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {msg}, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

// Reads lines of a file up to a maximum length.

/// Reads the next line without its line break, appending it to `line`. If a line is longer than `bytes_max`, this many
/// bytes and one more are stored, which shows that it is too long. Returns the number of bytes read from the file; 0 at
/// the end.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<u64> {
    let (mut taken, mut room) = (0, bytes_max + 1);
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let kept = part.len().min(room);
        line.extend_from_slice(&part[..kept]);
        room -= kept;
        let used = part.len() + usize::from(end.is_some());
        taken += used as u64;
        reader.consume(used);
        if end.is_some() || used == 0 {
            return Ok(taken);
        }
    }
}

// Calls to the hub, and its answers.

/// Maximum number of attempts to send a chunk.
const ATTEMPTS_MAX: u32 = 8;
/// Delay after the first attempt; it doubles each time.
const RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    next_line: u64,
    taken: u64,
    refused: u64,
    #[serde(default)]
    chunk: Option<ChunkAnswer>,
}

#[derive(Debug, Deserialize)]
struct ChunkAnswer {
    refusals: Vec<RefusedLine>,
}

/// A rejected line.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct RefusedLine {
    /// Its number in the file.
    pub line: u64,
    pub reason: String,
}

/// An identifier's entries.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Party {
    party_id_type: String,
    party_identifier: String,
    entries: Vec<PartyEntry>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartyEntry {
    fsp_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<String>,
}

/// An import into a hub.
struct HubImport {
    api: AdminApi,
    name: String,
    /// The part of every chunk's query after `from`.
    query: String,
}

impl HubImport {
    fn new(api: AdminApi, name: &str, header: &str, replace: bool) -> Self {
        let replace = if replace { "&replace=true" } else { "" };
        let query = format!("&columns={}{replace}", url_part(header));
        Self { api, name: url_part(name), query }
    }

    async fn progress(&self) -> Result<Progress, Failure> {
        self.api.get(&format!("/directory/imports/{}", self.name)).await.map_err(|error| failure_of(&error))
    }

    /// Sends a chunk, repeatedly if necessary: a chunk that was already accepted gets the same answer.
    async fn take(&self, from: u64, lines: Bytes) -> Result<Progress, Failure> {
        let path = format!("/directory/imports/{}/chunks?from={from}{}", self.name, self.query);
        let mut delay = RETRY_DELAY;
        for _ in 1..ATTEMPTS_MAX {
            match self.api.post(&path, "text/csv", lines.clone()).await {
                Err(AdminError::Send { .. } | AdminError::Refused { status: 503, .. }) => {}
                other => return other.map_err(|error| failure_of(&error)),
            }
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
        self.api.post(&path, "text/csv", lines).await.map_err(|error| {
            let failure = failure_of(&error);
            let again = "accepted lines stay registered; the same command continues from there";
            Failure::new(failure.exit, format!("{failure}\n{again}"))
        })
    }
}

async fn get_party(api: &AdminApi, kind: &str, id: &str) -> Result<Party, Failure> {
    let path = path(&["directory", "parties", kind, id]);
    api.get(&path).await.map_err(|error| failure_of(&error))
}

fn failure_of(error: &AdminError) -> Failure {
    let exit = match error {
        AdminError::Url(_) => Exit::Usage,
        AdminError::Refused { status: 503, .. } => Exit::Temporary,
        AdminError::Send { .. } | AdminError::Tls { .. } | AdminError::Malformed { .. } => Exit::Unavailable,
        AdminError::WrongPort { .. } => Exit::Usage,
        AdminError::Refused { .. } => Exit::Failure,
        AdminError::Waiting { .. } => Exit::Temporary,
    };
    Failure::new(exit, error)
}
