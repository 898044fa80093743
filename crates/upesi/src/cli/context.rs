//! `upesi context`: hubs that are saved by name, so that commands need no further flags.
//!
//! The contexts are stored in one file of the user, `$XDG_CONFIG_HOME/upesi/contexts.toml` or
//! `~/.config/upesi/contexts.toml`. The file contains only names of files, never a token. The session of a context
//! without a token file is stored next to it.

use std::collections::BTreeMap;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use serde_json::json;
use upesi_admin::replace_private;
use upesi_keys::read_limited_text;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;

use super::hub::{load_tls, read_token};
use super::table::{Cell, Column, ListArguments, Table};

/// Maximum size of the file of contexts, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Maximum length of a context's name, in characters.
const NAME_CHARS_MAX: usize = 64;
/// Write permission of other users and of the group.
const OTHERS_WRITE: u32 = 0o022;

/// Subcommands of `upesi context`.
#[derive(Debug, Subcommand)]
pub enum ContextCommand {
    /// Save a hub under a name.
    ///
    /// The files are read to check that they can be used. The hub is not called. The first context becomes the current
    /// one. Without --token-file, `upesi admin login` stores the session's token next to the contexts.
    Add(AddArguments),
    /// List the saved contexts.
    List(ListArguments),
    /// Select the current context, for commands without --context.
    Use(NameArguments),
    /// Show a context, by default the current one.
    Show(ShowArguments),
    /// Remove a context and its session's token.
    Remove(NameArguments),
}

/// Arguments of `upesi context add`.
#[derive(Args, Clone, Debug)]
pub struct AddArguments {
    /// Name of the context: letters, digits, hyphens, underscores and dots.
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,
    /// Base URL of the hub's admin API.
    #[arg(long, value_name = "URL")]
    pub admin: String,
    /// PEM file of the authorities that may have issued the admin port's certificate. Required for https:// addresses.
    #[arg(long, value_name = "FILE")]
    pub anchors: Option<PathBuf>,
    /// PEM file of the operator's certificate, if the admin port requires one.
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// File with the operator's token. It may be created later.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Replace the existing context of this name.
    #[arg(long)]
    pub replace: bool,
}

/// Arguments of `upesi context use` and `upesi context remove`.
#[derive(Args, Clone, Debug)]
pub struct NameArguments {
    /// The context.
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,
}

/// Arguments of `upesi context show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// The context.
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Parses the name of a context, which is also used as the name of a file.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let fits =
        (1..=NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_plain) && !text.starts_with('.');
    fits.then(|| text.to_owned()).ok_or_else(|| {
        format!(
            "give 1 to {NAME_CHARS_MAX} letters, digits, hyphens, underscores and dots, with no dot first"
        )
    })
}

/// A saved hub. The paths of its files are absolute.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    /// Base URL of the admin API.
    pub admin: String,
    /// The authorities of the admin port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchors: Option<PathBuf>,
    /// The operator's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// The file of the operator's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// All saved contexts.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// The context of commands without --context.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    context: BTreeMap<String, Context>,
}

/// The directory of the user's contexts.
fn directory() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = of("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    config.or_else(|| Some(of("HOME")?.join(".config"))).map(|config| config.join("upesi"))
}

fn needed_directory() -> Result<PathBuf, Failure> {
    directory()
        .ok_or_else(|| Failure::new(Exit::CannotCreate, "contexts need XDG_CONFIG_HOME or HOME to be set"))
}

impl Contexts {
    /// Reads the file, which may be missing.
    ///
    /// # Errors
    /// 64 if it cannot be used.
    pub fn read() -> Result<Self, Failure> {
        let Some(file) = directory().map(|directory| directory.join("contexts.toml")) else {
            return Ok(Self::default());
        };
        let refuse =
            |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
        let mode = match fs::metadata(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            found => found.map_err(|error| refuse(&error))?.permissions().mode(),
        };
        if mode & OTHERS_WRITE != 0 {
            return Err(refuse(
                &"other users can change this file, and so send your token to another host; run chmod go-w",
            ));
        }
        let text = read_limited_text(&file, FILE_BYTES_MAX).map_err(|error| refuse(&error))?;
        toml::from_str(&text).map_err(|error| refuse(&error))
    }

    fn write(&self) -> Outcome {
        let directory = needed_directory()?;
        let file = directory.join("contexts.toml");
        let refuse = |error: &dyn std::fmt::Display| {
            Failure::new(Exit::CannotCreate, format!("{}: {error}", file.display()))
        };
        let text = toml::to_string(self).map_err(|error| refuse(&error))?;
        make_directory(&directory)?;
        replace_private(&file, &text).map_err(|error| refuse(&error))
    }

    /// The context of this name.
    ///
    /// # Errors
    /// 64 if no context has this name.
    pub fn named(mut self, name: &str) -> Result<(String, Context), Failure> {
        match self.context.remove_entry(name) {
            Some(found) => Ok(found),
            None => Err(self.unknown(name)),
        }
    }

    /// The current context, if one is selected.
    ///
    /// # Errors
    /// 64 if it does not exist.
    pub fn current(mut self) -> Result<Option<(String, Context)>, Failure> {
        self.current.take().map(|name| self.named(&name)).transpose()
    }

    fn unknown(&self, name: &str) -> Failure {
        let known: Vec<_> = self.context.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "none is saved".to_owned()
        } else {
            format!("saved: {}", known.join(", "))
        };
        Failure::new(Exit::Usage, format!("context {name} does not exist ({known}); see upesi context add"))
    }

    /// The session file of a context, or of an address in the form of a URL part; `None` if the user has no
    /// configuration directory.
    pub fn session_file(name: &str) -> Option<PathBuf> {
        Some(directory()?.join(format!("{name}.session")))
    }
}

/// Creates the directory of contexts and sessions, which only its owner can read.
pub(super) fn make_directory(directory: &Path) -> Outcome {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", directory.display())))
}

/// Runs a subcommand.
pub fn run(command: ContextCommand) -> Outcome {
    match command {
        ContextCommand::Add(arguments) => add(arguments),
        ContextCommand::List(arguments) => list(&arguments),
        ContextCommand::Use(NameArguments { name }) => {
            let mut contexts = Contexts::read()?;
            if !contexts.context.contains_key(&name) {
                return Err(contexts.unknown(&name));
            }
            contexts.current = Some(name);
            contexts.write()
        }
        ContextCommand::Show(ShowArguments { name, json }) => show(name, json),
        ContextCommand::Remove(NameArguments { name }) => remove(&name),
    }
}

fn add(arguments: AddArguments) -> Outcome {
    let AddArguments { name, admin, anchors, certificate, key, token_file, replace } = arguments;
    let absolute = |file: Option<PathBuf>| match file {
        None => Ok(None),
        Some(file) => std::path::absolute(&file)
            .map(Some)
            .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", file.display()))),
    };
    let (anchors, certificate, key) = (absolute(anchors)?, absolute(certificate)?, absolute(key)?);
    let token_file = absolute(token_file)?;
    load_tls(&admin, anchors.clone(), certificate.clone(), key.clone())?;
    if let Some(file) = token_file.as_deref().filter(|file| file.exists()) {
        read_token(file)?;
    }
    let mut contexts = Contexts::read()?;
    if contexts.context.contains_key(&name) && !replace {
        return Err(Failure::new(
            Exit::Usage,
            format!("the context {name} already exists; use --replace to replace it"),
        ));
    }
    contexts.context.insert(name.clone(), Context { admin, anchors, certificate, key, token_file });
    let current = contexts.current.get_or_insert_with(|| name.clone()).clone();
    contexts.write()?;
    match current == name {
        true => note(format_args!("{name} is the current context, which commands use by default")),
        false => note(format_args!(
            "the current context is still {current}; to change it: upesi context use {name}"
        )),
    }
    Ok(())
}

const COLUMNS: &[Column] = &[Column::text("name"), Column::text("current"), Column::text("admin")];

fn list(arguments: &ListArguments) -> Outcome {
    let contexts = Contexts::read()?;
    let mut table = Table::new(COLUMNS);
    for (name, context) in &contexts.context {
        let is_current = contexts.current.as_ref() == Some(name);
        let current = if is_current { "yes" } else { "" };
        let cells = vec![Cell::text(name), Cell::text(current), Cell::text(&context.admin)];
        let shown = json!({"name": name, "isCurrent": is_current, "context": context});
        table.add(cells, shown.to_string());
    }
    table.print(arguments, "name")
}

fn show(name: Option<String>, json: bool) -> Outcome {
    let contexts = Contexts::read()?;
    let found = match name {
        Some(name) => Some(contexts.named(&name)?),
        None => contexts.current()?,
    };
    let Some((name, context)) = found else {
        return Err(Failure::new(Exit::NoInput, "no context is selected; see upesi context add and use"));
    };
    if json {
        return write_out(&format!("{:#}\n", json!({"name": name, "context": context})));
    }
    let file = |file: &Option<PathBuf>| file.as_ref().map(|file| file.display().to_string());
    let session = Contexts::session_file(&name);
    let lines = [
        ("name", Some(name)),
        ("admin", Some(context.admin.clone())),
        ("anchors", file(&context.anchors)),
        ("certificate", file(&context.certificate)),
        ("key", file(&context.key)),
        ("token file", file(&context.token_file).or(file(&session))),
    ];
    let lines = lines.into_iter().filter_map(|(what, value)| Some(format!("{what:<13}{}\n", value?)));
    write_out(&lines.collect::<String>())
}

fn remove(name: &str) -> Outcome {
    let mut contexts = Contexts::read()?;
    if contexts.context.remove(name).is_none() {
        return Err(contexts.unknown(name));
    }
    contexts.current = contexts.current.filter(|current| current != name);
    contexts.write()?;
    let Some(session) = Contexts::session_file(name) else { return Ok(()) };
    match fs::remove_file(&session) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::new(Exit::InputOutput, format!("{}: {error}", session.display())))
        }
        _ => Ok(()),
    }
}
