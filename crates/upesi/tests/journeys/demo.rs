//! The demo: everything that its output points to exists.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::support_command::upesi;
use upesi_types::Amount;

/// A demo that is interrupted when the test ends, if not before. It then stops its hub.
pub struct Interrupted(pub Child);

impl Interrupted {
    /// Interrupts it, and waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        self.0.wait().unwrap()
    }
}

impl Drop for Interrupted {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// The places in the last section of the demo's output.
fn places(output: &str) -> Vec<String> {
    let (_, section) = output.split_once("── 5 ──").unwrap_or_else(|| panic!("{output}"));
    let lines = section.lines().skip(1).filter_map(|line| line.strip_prefix("   "));
    let places = lines.take_while(|line| !line.starts_with("Hub and simulators"));
    places.map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect()
}

/// Checks a place: a command must succeed and print something, a file must exist, and an address must be open. Contexts
/// are saved below `home`.
fn follow(place: &str, home: &Path) {
    if let Some(address) = place.strip_prefix("https://") {
        let host = address.split('/').next().unwrap();
        assert!(TcpStream::connect(host).is_ok(), "{place}");
    } else if let Some((command, arguments)) = place.split_once(' ') {
        let output =
            Command::new(command).args(arguments.split(' ')).env("XDG_CONFIG_HOME", home).output().unwrap();
        assert!(output.status.success(), "{place}: {output:?}");
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{place}");
    } else {
        assert!(Path::new(place).is_file(), "{place}");
    }
}

/// An amount in the smallest units. It may be negative.
fn units(amount: &str) -> Option<i64> {
    let (sign, digits) = amount.strip_prefix('-').map_or((1, amount), |digits| (-1, digits));
    Some(sign * Amount::parse_decimal(digits).ok()?.units())
}

/// The nets of dfsp-1 to dfsp-8, computed from the matrix alone: sent less received amounts. The matrix's own sums must
/// agree.
fn nets_of_matrix(text: &str) -> Vec<i64> {
    let (_, matrix) = text.split_once("KES sender by receiver\n").unwrap_or_else(|| panic!("{text}"));
    let lines: Vec<&str> = matrix.lines().take(12).collect();
    assert!(lines.iter().all(|line| line.len() <= 120), "{text}");
    let row = |line: &str, name: &str| -> Vec<i64> {
        let rest = line.trim_start().strip_prefix(name).unwrap_or_else(|| panic!("{name}: {text}"));
        rest.split_whitespace().map(|amount| units(amount).unwrap()).collect()
    };
    let names: Vec<String> = (1..=8).map(|number| format!("dfsp-{number}")).collect();
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>().join(" "), names.join(" ") + " total sent");
    let sent: Vec<Vec<i64>> = names.iter().zip(&lines[1..]).map(|(name, line)| row(line, name)).collect();
    let totals = sent.iter().map(|row| row[..8].iter().sum::<i64>());
    assert!(totals.eq(sent.iter().map(|row| row[8])), "{text}");
    let received: Vec<i64> = (0..8).map(|column| sent.iter().map(|row| row[column]).sum()).collect();
    assert_eq!(row(lines[9], "total received")[..8], received, "{text}");
    assert!(
        received.iter().sum::<i64>() > 0
            && row(lines[9], "total received")[8] == received.iter().sum::<i64>(),
        "{text}"
    );
    let nets: Vec<i64> = sent.iter().zip(&received).map(|(sent, received)| sent[8] - received).collect();
    assert_eq!(row(lines[10], "aggregated net"), nets, "{text}");
    assert_eq!(lines[11].trim(), "check value 0", "{text}");
    nets
}

#[test]
fn demo_names_files_and_commands_that_work_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("demo");
    let output = upesi(&["demo", "--seconds", "1", "--out", out.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let places = places(&text);
    assert_eq!(places.len(), 3, "{text}");
    assert!(!places.iter().any(|place| place.contains("https://")), "the hub has ended: {places:?}");
    // All payments are settled: the nets of the DFSPs sum to zero, and each is in its last state.
    let nets: Vec<i64> = text
        .lines()
        .filter(|line| line.contains(" KES ") && line.trim_start().starts_with("dfsp-"))
        .filter_map(|line| line.contains("SETTLED").then(|| units(line.split_whitespace().nth(2)?)).flatten())
        .collect();
    assert_eq!((nets.len(), nets.iter().sum::<i64>()), (8, 0), "{text}");
    assert_eq!(nets_of_matrix(&text), nets, "{text}");
    places.iter().for_each(|place| follow(place, directory.path()));
}

#[test]
fn demo_names_commands_that_work_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("demo");
    let arguments = ["demo", "--seconds", "1", "--keep", "--out", out.to_str().unwrap()];
    let mut demo = Interrupted(upesi(&arguments).stdout(Stdio::piped()).spawn().unwrap());
    let mut text = String::new();
    let lines = BufReader::new(demo.0.stdout.take().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        text += &line;
        text.push('\n');
        if line.contains("Ctrl-C ends them") {
            break;
        }
    }
    let places = places(&text);
    let calls = places.iter().filter(|place| place.contains(" --context demo")).count();
    assert_eq!((calls, places.len()), (2, 7), "{text}");
    places.iter().for_each(|place| follow(place, directory.path()));
}
