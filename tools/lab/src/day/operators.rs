//! The operators of a day: they work with commands of `upesi`, as people do.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Program, Stdio};

use serde::Deserialize;
use upesi_client::admin_api::{AdminApi, AdminToken};
use upesi_process::exit::{Exit, Failure, Outcome};

use super::story::{Command, Decision};
use crate::failures::unavailable;

/// The second person.
const APPROVER: &str = "amina";

pub(super) struct Operators {
    pub binary: PathBuf,
    /// Directory of the tokens.
    pub out: PathBuf,
    pub data: PathBuf,
    pub admin_url: String,
}

/// The end of a command.
struct Ended {
    code: i32,
    /// The end of its output, for messages.
    said: String,
}

#[derive(Deserialize)]
struct Page {
    approvals: Vec<Approval>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    approval_id: u64,
}

impl Operators {
    /// Makes a command of the story, with the decision of the second person. Returns what happened, as lines. Fails if
    /// the command ends otherwise than the story says.
    pub async fn work(&self, command: &Command) -> Result<Vec<String>, Failure> {
        let pending = match (&command.by, command.run.contains("{pending}")) {
            (Some(by), true) => Some(self.newest_pending(by).await?),
            _ => None,
        };
        let mut words = self.words(&command.run, pending);
        for (flag, text) in [("--reference", &command.reference), ("--reason", &command.reason)] {
            words.extend(text.iter().flat_map(|text| [flag.to_owned(), text.clone()]));
        }
        let mut lines = vec![shown(&words, command.by.as_deref())];
        loop {
            let ended = self.run(&words, command.by.as_deref())?;
            let is_proposed = ended.code == i32::from(Exit::Temporary.code());
            match command.decision {
                _ if command.is_refused && ended.code == i32::from(Exit::Failure.code()) => {
                    lines.push("  the hub refuses it".to_owned());
                    return Ok(lines);
                }
                Some(decision) if is_proposed && !command.is_refused => {
                    lines.push(self.decide(command, decision).await?);
                    if !command.repeat {
                        return Ok(lines);
                    }
                }
                None if ended.code == 0 && !command.is_refused => return Ok(lines),
                Some(Decision::Approve) if ended.code == 0 && command.repeat => return Ok(lines),
                _ => {
                    let text = format!("{}: it ended with {}\n{}", lines[0], ended.code, ended.said);
                    return Err(Failure::new(Exit::Failure, text));
                }
            }
        }
    }

    async fn decide(&self, command: &Command, decision: Decision) -> Result<String, Failure> {
        let id = self.newest_pending(command.by.as_deref().unwrap_or_default()).await?;
        let (verb, done) = match decision {
            Decision::Approve => ("approve", "approves it"),
            Decision::Reject => ("reject", "rejects it"),
            Decision::Leave => return Ok(format!("  proposal {id} waits for {APPROVER}")),
        };
        let mut words = vec!["admin".to_owned(), verb.to_owned(), id.to_string()];
        words.extend(command.comment.iter().flat_map(|text| ["--comment".to_owned(), text.clone()]));
        let ended = self.run(&words, Some(APPROVER))?;
        if ended.code != 0 {
            let text =
                format!("{}: it ended with {}\n{}", shown(&words, Some(APPROVER)), ended.code, ended.said);
            return Err(Failure::new(Exit::Failure, text));
        }
        Ok(format!("  proposal {id}: {APPROVER} {done}"))
    }

    /// The newest pending proposal of an operator.
    async fn newest_pending(&self, by: &str) -> Result<u64, Failure> {
        let path = format!("/approvals?state=pending&maker={by}&limit=1000");
        let page: Page = self.api(Some(by))?.get(&path).await.map_err(unavailable)?;
        let newest = page.approvals.iter().map(|approval| approval.approval_id).max();
        newest.ok_or_else(|| unavailable(format_args!("{by} has no pending proposal")))
    }

    /// A client of the admin API, with the token of an operator.
    pub fn api(&self, by: Option<&str>) -> Result<AdminApi, Failure> {
        let read = |by| std::fs::read_to_string(self.token_file(by));
        let token = by.map(read).transpose().map_err(unavailable)?;
        let token = token.and_then(|token| AdminToken::new(&token));
        Ok(AdminApi::new(&self.admin_url).map_err(unavailable)?.with_token(token))
    }

    /// Audits the data directory of the running hub.
    pub fn audit(&self) -> Outcome {
        let words = self.words("audit {data} --allow-live", None);
        let ended = self.run(&words, None)?;
        if ended.code == 0 { Ok(()) } else { Err(Failure::new(Exit::Data, ended.said)) }
    }

    fn token_file(&self, by: &str) -> PathBuf {
        self.out.join(format!("{by}.token"))
    }

    fn words(&self, run: &str, pending: Option<u64>) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        let (data, out) = (path(&self.data), path(&self.out));
        let pending = pending.map(|id| id.to_string()).unwrap_or_default();
        let filled =
            |word: &str| word.replace("{data}", &data).replace("{out}", &out).replace("{pending}", &pending);
        run.split_whitespace().map(filled).collect()
    }

    fn run(&self, words: &[String], by: Option<&str>) -> Result<Ended, Failure> {
        let mut program = Program::new(&self.binary);
        program.args(words).stdin(Stdio::null());
        if let Some(by) = by {
            program.args(["--admin", &self.admin_url, "--token-file"]).arg(self.token_file(by));
        }
        let is_setting = |(name, _): &(std::ffi::OsString, _)| name.to_string_lossy().starts_with("UPESI_");
        for (name, _) in std::env::vars_os().filter(is_setting) {
            program.env_remove(name);
        }
        let output = program.output().map_err(|error: io::Error| unavailable(error))?;
        let code = output.status.code().unwrap_or(-1);
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        Ok(Ended { code, said })
    }
}

/// A command as a person would type it.
fn shown(words: &[String], by: Option<&str>) -> String {
    let quoted = |word: &String| {
        if word.contains(char::is_whitespace) { format!("\"{word}\"") } else { word.clone() }
    };
    let line: Vec<_> = words.iter().map(quoted).collect();
    let by = by.map_or(String::new(), |by| format!("{by} "));
    format!("{by}$ upesi {}", line.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let words = ["cap", "set", "--reason", "agreed until Friday"].map(str::to_owned);
        assert_eq!(shown(&words, Some("deploy")), r#"deploy $ upesi cap set --reason "agreed until Friday""#);
    }

    #[tokio::test]
    async fn command_that_ends_otherwise_than_told_is_a_failure() {
        let operators = Operators {
            binary: "false".into(),
            out: "out".into(),
            data: "a b".into(),
            admin_url: "http://127.0.0.1:1".to_owned(),
        };
        assert_eq!(operators.words("audit {data} x", None), ["audit", "a b", "x"]);
        let command = |text: &str| toml::from_str::<Command>(text).unwrap();
        assert!(operators.work(&command("run = 'audit {data}'")).await.is_err());
        assert!(operators.work(&command("run = 'audit {data}'\nis_refused = true")).await.is_ok());
        let succeeds = Operators { binary: "true".into(), ..operators };
        assert!(succeeds.work(&command("run = 'audit {data}'")).await.is_ok());
        assert!(succeeds.work(&command("run = 'audit {data}'\nis_refused = true")).await.is_err());
        assert!(succeeds.work(&command("run = 'audit {data}'\ndecision = 'leave'")).await.is_err());
    }
}
