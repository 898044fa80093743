//! The demo: what it points to at its end is there.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn upesi(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upesi"));
    command.args(arguments).stdin(Stdio::null());
    // What the environment of a developer says must not matter.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("UPESI_")) {
        command.env_remove(name);
    }
    command
}

/// A demo that is interrupted at the latest when the test ends; it ends its hub then.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// What the last section of the demo's output points to.
fn places(output: &str) -> Vec<String> {
    let (_, section) = output.split_once("── 6 ──").unwrap_or_else(|| panic!("{output}"));
    let lines = section.lines().skip(1).filter_map(|line| line.strip_prefix("   "));
    let places = lines.take_while(|line| !line.starts_with("Hub and simulators"));
    places.map(|line| line.split("  ").next().unwrap_or_default().to_owned()).collect()
}

/// Goes where a line points to: a URL that is to answer 200, a command that is to succeed, a file that is to be there.
fn follow(place: &str) {
    let target = place.strip_prefix("curl ").unwrap_or(place);
    if let Some(rest) = target.strip_prefix("http://") {
        let (host, path) = rest.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap_or_else(|error| panic!("{place}: {error}"));
        let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK"),
            "{place}: {}",
            answer.lines().next().unwrap_or_default()
        );
    } else if let Some((command, arguments)) = place.split_once(' ') {
        let output = Command::new(command).args(arguments.split(' ')).output().unwrap();
        assert!(output.status.success(), "{place}: {output:?}");
        assert!(!output.stdout.is_empty(), "{place}");
    } else {
        assert!(Path::new(place).is_file(), "{place}");
    }
}

#[test]
fn the_demo_points_to_what_is_there_after_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("demo");
    let output = upesi(&["demo", "--seconds", "1", "--out", out.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let places = places(&text);
    assert_eq!(places.len(), 3, "{text}");
    assert!(!places.iter().any(|place| place.contains("http://")), "the hub has ended: {places:?}");
    places.iter().for_each(|place| follow(place));
}

#[test]
fn the_demo_points_to_what_answers_while_it_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("demo");
    let arguments = ["demo", "--seconds", "1", "--keep", "--out", out.to_str().unwrap()];
    let mut demo = Demo(upesi(&arguments).stdout(Stdio::piped()).spawn().unwrap());
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
    let urls = places.iter().filter(|place| place.contains("http://")).count();
    assert_eq!((urls, places.len()), (4, 7), "{text}");
    places.iter().for_each(|place| follow(place));
}
