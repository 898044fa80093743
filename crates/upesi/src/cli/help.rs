//! `upesi help`: the manual of a command, and other topics. The overview lists the commands in groups.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Subcommand};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};

use super::arguments::Cli;
use super::install::{self, CompletionsArguments, ManArguments};

/// Maximum width of help, in columns: longer lines are hard to read.
const WIDTH_MAX: usize = 110;

/// The groups of the overview, each with its commands.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Run a hub", &["serve", "config", "demo", "sim"]),
    ("Set up a scheme", &["scheme", "dfsp", "cap", "directory", "pki"]),
    (
        "Operate a hub",
        &[
            "transfer",
            "position",
            "funds",
            "settlement",
            "callback",
            "lane",
            "block",
            "admin",
            "hub",
            "cluster",
            "context",
        ],
    ),
    (
        "Work on a data directory",
        &["init", "journal", "audit", "trail", "backup", "restore", "export", "trim"],
    ),
    ("Measure a hub", &["lab"]),
    ("Get help", &["help"]),
];

/// Arguments of `upesi help`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct HelpArguments {
    /// Another topic than a command.
    #[command(subcommand)]
    pub topic: Option<HelpTopic>,
    /// The command, such as `scheme apply`.
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Topics of `upesi help` that are not commands.
#[derive(Clone, Debug, Subcommand)]
pub enum HelpTopic {
    /// Print the meaning of each exit code and its remedy, as Markdown.
    ExitCodes,
    /// Print shell completions: `upesi help completions bash > /etc/bash_completion.d/upesi`.
    Completions(CompletionsArguments),
    /// Write man pages, one for each command.
    Man(ManArguments),
}

/// Prints the manual of a command, or a topic.
///
/// # Errors
/// 64 if the command does not exist, and the errors of the topic.
pub fn run(arguments: &HelpArguments) -> Outcome {
    match &arguments.topic {
        Some(HelpTopic::ExitCodes) => write_out(&Exit::reference()),
        Some(HelpTopic::Completions(arguments)) => install::completions(arguments, definition(None)),
        Some(HelpTopic::Man(arguments)) => install::man(arguments, definition(None)),
        None => show(&arguments.command),
    }
}

fn show(path: &[String]) -> Outcome {
    let mut command = definition(None);
    // Propagates the shared arguments, and sets the full name of each command.
    command.build();
    for name in path {
        let Some(inner) = command.find_subcommand(name).cloned() else {
            let _ = command.error(ErrorKind::InvalidSubcommand, format!("unknown command '{name}'")).print();
            return Err(Failure::new(Exit::Usage, ""));
        };
        command = inner;
    }
    // The reader may have closed the output, as after `| head`.
    let _ = command.print_long_help();
    Ok(())
}

/// The definition of the command line, with an overview in groups. `width` replaces the width of the terminal.
pub fn definition(width: Option<usize>) -> clap::Command {
    let command = of_width(Cli::command(), width);
    let overview = overview(&command, width);
    command.help_template(overview)
}

fn of_width(command: clap::Command, width: Option<usize>) -> clap::Command {
    match width {
        None => command.max_term_width(WIDTH_MAX),
        Some(width) => command.term_width(width),
    }
}

/// The template of the help: usage, the commands of each group, options.
fn overview(command: &clap::Command, width: Option<usize>) -> StyledStr {
    let header = *command.get_styles().get_header();
    let longest = command.get_subcommands().map(|one| one.get_name().len()).max().unwrap_or_default();
    let mut text = StyledStr::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        // Only clap knows the width of the terminal, so it wraps the lines.
        let list = of_width(clap::Command::new("upesi"), width).help_template("{subcommands}");
        let list = list.disable_help_flag(true).disable_help_subcommand(true);
        let found = names.iter().filter_map(|name| command.find_subcommand(name));
        let mut list = list.subcommands(found.map(|one| {
            // All groups have the same columns.
            let line = clap::Command::new(format!("{:longest$}", one.get_name()));
            line.about(one.get_about().cloned().unwrap_or_default())
        }));
        let _ = write!(text, "\n{header}{heading}:{header:#}\n{}", list.render_help().ansi());
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

/// Whether these words name a command that has subcommands.
pub(super) fn is_group(words: &[&str]) -> bool {
    let root = Cli::command();
    let found = words.iter().try_fold(&root, |command, word| command.find_subcommand(word));
    found.is_some_and(clap::Command::has_subcommands)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Terminal widths; clap uses 100 without a terminal.
    const WIDTHS: [usize; 3] = [80, 100, 120];

    fn check(command: &clap::Command, path: &str, width: usize, checked: &mut usize) {
        let mut wrapped = command.clone();
        for help in [wrapped.render_help(), wrapped.render_long_help()] {
            let text = help.to_string();
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{path} at {width}: {line}");
            }
        }
        *checked += 1;
        for inner in command.get_subcommands() {
            check(inner, &format!("{path} {}", inner.get_name()), width, checked);
        }
    }

    #[test]
    fn help_is_not_wider_than_the_terminal() {
        for width in WIDTHS {
            let mut command = definition(Some(width));
            command.build();
            let mut checked = 0;
            check(&command, "upesi", width, &mut checked);
            assert!(checked > 60, "{checked} commands");
        }
    }

    #[test]
    fn overview_has_each_command_in_one_group() {
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        let command = Cli::command();
        let commands: BTreeSet<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), commands);
        assert_eq!(listed.len(), commands.len());
    }

    #[test]
    fn overview_aligns_commands_of_all_groups() {
        let text = definition(Some(100)).render_help().to_string();
        let lines: Vec<_> = text.lines().collect();
        for (heading, names) in GROUPS {
            let at = lines.iter().position(|line| *line == format!("{heading}:")).unwrap();
            for (name, line) in names.iter().zip(&lines[at + 1..]) {
                assert!(line.starts_with(&format!("  {name:10}  ")), "{line}");
                assert!(!line[14..].starts_with(' '), "{line}");
            }
            assert_eq!(lines[at - 1], "", "a blank line before {heading}");
        }
        assert!(text.contains("\nOptions:\n  -h, --help"), "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.ends_with("`upesi help exit-codes` describes them."), "{text}");
    }
}
