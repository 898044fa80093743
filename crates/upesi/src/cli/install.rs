//! Shell completions and man pages, generated from the definition of the arguments.

use std::path::PathBuf;
use std::{fs, io};

use clap::Args;
use clap_complete::Shell;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};

/// Arguments of `upesi help completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArguments {
    /// The shell.
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Arguments of `upesi help man`.
#[derive(Args, Clone, Debug)]
pub struct ManArguments {
    /// Output directory, such as /usr/local/share/man/man1; created if missing.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Prints the completions of a shell for a command line.
///
/// # Errors
/// 74 if stdout cannot be written to.
pub fn completions(arguments: &CompletionsArguments, mut command: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "upesi", &mut script);
    write_out(&String::from_utf8_lossy(&script))
}

/// Writes a man page for each command of a command line, and prints their number.
///
/// # Errors
/// 73 if the directory or a page cannot be written.
pub fn man(arguments: &ManArguments, command: clap::Command) -> Outcome {
    let out = &arguments.out;
    let cannot = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", out.display()));
    fs::create_dir_all(out).map_err(cannot)?;
    let pages = pages(command).map_err(cannot)?;
    for (name, page) in &pages {
        fs::write(out.join(name), page).map_err(cannot)?;
    }
    write_out(&format!("{} pages written to {}\n", pages.len(), out.display()))
}

/// Every page with the name of its file.
fn pages(mut command: clap::Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    // Propagates the shared arguments, and sets the full name of each command.
    command.build();
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        let man = clap_mangen::Man::new(command.clone());
        let mut page = Vec::new();
        man.render(&mut page)?;
        pages.push((man.get_filename(), page));
        waiting.extend(command.get_subcommands().filter(|below| !below.is_hide_set()).cloned());
    }
    pages.sort();
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::help::definition;

    /// Full names of a command and of all its subcommands, as the names of their man pages.
    fn names(command: &clap::Command, name: &str, found: &mut Vec<String>) {
        found.push(format!("{name}.1"));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            names(below, &format!("{name}-{}", below.get_name()), found);
        }
    }

    #[test]
    fn man_page_of_each_command_names_its_options() {
        let pages = pages(definition(None)).unwrap();
        let mut expected = Vec::new();
        names(&definition(None), "upesi", &mut expected);
        expected.sort();
        let found: Vec<_> = pages.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(found, expected);
        let page = |name: &str| {
            let (_, page) = pages.iter().find(|(found, _)| found == name).unwrap();
            String::from_utf8(page.clone()).unwrap().replace('\\', "")
        };
        assert!(page("upesi-scheme-apply.1").contains("--wait"), "{}", page("upesi-scheme-apply.1"));
        assert!(page("upesi-serve.1").contains("--log-level"), "{}", page("upesi-serve.1"));
        assert!(page("upesi.1").contains("Exit codes: 0 success"), "{}", page("upesi.1"));
    }
}
