//! Converts addresses into the names of functions, including inlined ones.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::Loader;

/// Maximum length of a name, in characters. Names of generic code can be very long.
const NAME_CHARS_MAX: usize = 160;
/// Prefixes of the names of functions that only call others.
const PASSED_ON: [&str; 12] = [
    "std::thread",
    "std::panic",
    "std::sys::backtrace",
    "std::sys::thread",
    "<std::sys::thread",
    "std::rt",
    "core::panic",
    "core::ops::function",
    "alloc::boxed",
    "<alloc::boxed::Box<dyn core::ops::function",
    "tokio::util::once_cell",
    "tokio::runtime::context::scoped",
];

/// Finds the names of functions, and caches them.
pub(crate) struct Symbols<'files> {
    files: &'files [MappedFile],
    /// Opened at the first use; `None` if that failed.
    loaders: HashMap<usize, Option<Loader>>,
    known: HashMap<u64, Vec<Arc<str>>>,
}

impl<'files> Symbols<'files> {
    pub(crate) fn new(files: &'files [MappedFile]) -> Self {
        Self { files, loaders: HashMap::new(), known: HashMap::new() }
    }

    /// The functions at an address, innermost first: the inlined ones, then the function that contains them.
    pub(crate) fn names(&mut self, address: u64) -> &[Arc<str>] {
        if !self.known.contains_key(&address) {
            let names = self.look_up(address);
            self.known.insert(address, names);
        }
        self.known.get(&address).map_or(&[], Vec::as_slice)
    }

    fn look_up(&mut self, address: u64) -> Vec<Arc<str>> {
        let Some(index) = self.files.iter().position(|file| file.range.contains(&address)) else {
            return vec!["(no file)".into()];
        };
        let file = &self.files[index];
        let unnamed = || {
            let name = file.path.file_name().map_or_else(|| "?".into(), |name| name.to_string_lossy());
            vec![format!("({name})").into()]
        };
        let loader = self.loaders.entry(index).or_insert_with(|| Loader::new(&file.path).ok());
        let Some(loader) = loader else { return unnamed() };
        let probe = address - file.base() + loader.relative_address_base();
        let mut names = Vec::new();
        if let Ok(mut frames) = loader.find_frames(probe) {
            while let Ok(Some(frame)) = frames.next() {
                let Some(name) =
                    frame.function.and_then(|function| function.raw_name().ok().map(String::from))
                else {
                    continue;
                };
                let module = frame.location.and_then(|location| location.file).and_then(module_of);
                names.push(full_name(module.as_deref(), &name));
            }
        }
        if names.is_empty() {
            names.extend(loader.find_symbol(probe).map(|name| full_name(None, name)));
        }
        if names.is_empty() {
            return unnamed();
        }
        // Functions that only pass a call on are noise.
        names.retain(|name| !PASSED_ON.iter().any(|start| name.starts_with(start)));
        names
    }
}

/// The module of a source file: `crates/engine/src/decider.rs` is `upesi_engine::decider`, and
/// `…/tokio-1.54.0/src/runtime/task/mod.rs` is `tokio::runtime::task`. Line tables contain names of functions without
/// their module, so the module must come from the file.
fn module_of(file: &str) -> Option<String> {
    let (before, inside) = file.rsplit_once("/src/")?;
    let directory = before.rsplit('/').next()?;
    // The standard library also has parts in a directory named `crates`.
    let is_own = ["crates", "tools"].iter().any(|wing| {
        before == format!("{wing}/{directory}")
            || (before.ends_with(&format!("/{wing}/{directory}")) && !before.starts_with("/rustc/"))
    });
    let package = match directory.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|letter: char| letter.is_ascii_digit()) => name,
        _ => directory,
    };
    let mut module =
        if is_own && package != "upesi" { format!("upesi_{package}") } else { package.to_owned() };
    let inside = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    if !matches!(inside, "lib" | "main") {
        module.extend(inside.split('/').flat_map(|part| ["::", part]));
    }
    Some(module.replace('-', "_"))
}

fn full_name(module: Option<&str>, name: &str) -> Arc<str> {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    // Type parameters make names long, and the surrounding frames show the types anyway.
    let bare = match name.find('<') {
        Some(start) if start > 0 => &name[..start],
        _ => &name,
    };
    match module {
        Some(module) if !bare.contains("::") && !bare.starts_with('<') => short(&format!("{module}::{bare}")),
        _ => short(&name),
    }
}

/// Truncates a long name.
fn short(name: &str) -> Arc<str> {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        None => name.into(),
        Some((end, _)) => format!("{}…", &name[..end]).into(),
    }
}

// The files that are mapped as code, and their addresses.

/// A file whose code is mapped into this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedFile {
    /// Path by which the file can be read. For the program, this works even after the file was replaced on disk.
    pub(crate) path: PathBuf,
    /// The addresses from the start of the first mapping to the end of the last one.
    pub(crate) range: Range<u64>,
}

impl MappedFile {
    /// The address of the file's first byte.
    pub(crate) const fn base(&self) -> u64 {
        self.range.start
    }
}

pub(crate) fn of_this_process() -> Vec<MappedFile> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
    read(&maps, &program)
}

/// Reads the format of `/proc/PID/maps`, see proc(5).
fn read(maps: &str, program: &Path) -> Vec<MappedFile> {
    let mut files: Vec<(MappedFile, bool)> = Vec::new();
    for line in maps.lines() {
        let Some((range, permissions, path)) = fields(line) else { continue };
        let is_code = permissions.contains('x');
        let path = if Path::new(path) == program { Path::new("/proc/self/exe") } else { Path::new(path) };
        match files.iter_mut().find(|(file, _)| file.path == path) {
            Some((file, has_code)) => {
                file.range.end = file.range.end.max(range.end);
                *has_code |= is_code;
            }
            None => files.push((MappedFile { path: path.to_owned(), range }, is_code)),
        }
    }
    files.into_iter().filter(|(_, has_code)| *has_code).map(|(file, _)| file).collect()
}

/// Range, permissions and path of a line about a file.
fn fields(line: &str) -> Option<(Range<u64>, &str, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let path = line.get(line.find('/')?..)?;
    let address = |text| u64::from_str_radix(text, 16).ok();
    Some((address(start)?..address(end)?, permissions, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_name_has_the_module_of_the_source() {
        for (module, name, expected) in [
            (None, "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            (Some("ignored"), "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            (None, "memcpy", "memcpy"),
            (Some("upesi_engine::decider"), "run<upesi::hub::Effects>", "upesi_engine::decider::run"),
            (Some("tokio::task"), "{closure#0}", "tokio::task::{closure#0}"),
            (Some("ignored"), "<std::net::TcpStream as Read>::read", "<std::net::TcpStream as Read>::read"),
        ] {
            assert_eq!(&*full_name(module, name), expected);
        }
        let long = short(&"ü".repeat(200));
        assert_eq!(long.chars().count(), NAME_CHARS_MAX + 1);
    }

    #[test]
    fn module_of_follows_the_path_of_the_file() {
        for (file, expected) in [
            ("crates/engine/src/decider.rs", Some("upesi_engine::decider")),
            ("/work/crates/http/src/lib.rs", Some("upesi_http")),
            ("/work/crates/upesi/src/cli/run.rs", Some("upesi::cli::run")),
            ("tools/lab/src/drive/load.rs", Some("upesi_lab::drive::load")),
            ("/r/index-1/hyper-util-0.1.21/src/rt/tokio.rs", Some("hyper_util::rt::tokio")),
            ("/rustc/0a1b/library/core/src/ptr/mod.rs", Some("core::ptr")),
            ("/rustc/0a1b/library/stdarch/crates/core_arch/src/x86/sha.rs", Some("core_arch::x86::sha")),
            ("main.c", None),
        ] {
            assert_eq!(module_of(file).as_deref(), expected, "{file}");
        }
    }

    #[test]
    fn names_of_an_address_outside_all_files_show_that() {
        assert_eq!(Symbols::new(&[]).names(1)[0].as_ref(), "(no file)");
    }

    const MAPS: &str = "\
    55d0c0000000-55d0c0100000 r--p 00000000 fe:01 77 /opt/upesi (deleted)
    55d0c0100000-55d0c0900000 r-xp 00100000 fe:01 77 /opt/upesi (deleted)
    55d0c0900000-55d0c0a00000 rw-p 00900000 fe:01 77 /opt/upesi (deleted)
    55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0 [heap]
    7f0000000000-7f0000100000 rw-s 00000000 fe:01 90 /data/a file
    7f0000200000-7f0000228000 r--p 00000000 fe:01 12 /lib/libc.so.6
    7f0000228000-7f00003bd000 r-xp 00028000 fe:01 12 /lib/libc.so.6
    7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
    ";

    #[test]
    fn read_finds_files_with_code_and_the_replaced_program() {
        let files = read(MAPS, Path::new("/opt/upesi (deleted)"));
        let file = |path: &str, range| MappedFile { path: path.into(), range };
        let expected = [
            file("/proc/self/exe", 0x55d0_c000_0000..0x55d0_c0a0_0000),
            file("/lib/libc.so.6", 0x7f00_0020_0000..0x7f00_003b_d000),
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn this_process_has_a_program() {
        assert!(of_this_process().iter().any(|file| file.path == Path::new("/proc/self/exe")));
    }
}
