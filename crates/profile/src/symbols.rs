//! From addresses to the names of functions, inlined ones included.

use std::collections::HashMap;
use std::sync::Arc;

use addr2line::Loader;

use crate::maps::MappedFile;

/// Longest name, in characters; those of generic code have no bound.
const NAME_CHARS_MAX: usize = 160;

/// Names functions. What was looked up once is remembered.
pub(crate) struct Symbols<'files> {
    files: &'files [MappedFile],
    /// Opened when first needed; `None` where that failed.
    loaders: HashMap<usize, Option<Loader>>,
    known: HashMap<u64, Vec<Arc<str>>>,
}

impl<'files> Symbols<'files> {
    pub(crate) fn new(files: &'files [MappedFile]) -> Self {
        Self { files, loaders: HashMap::new(), known: HashMap::new() }
    }

    /// The functions at an address, innermost first: what was inlined there, then the function itself.
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
                let name =
                    frame.function.and_then(|function| function.raw_name().ok().map(|name| short(&name)));
                names.extend(name);
            }
        }
        if names.is_empty() {
            names.extend(loader.find_symbol(probe).map(short));
        }
        if names.is_empty() { unnamed() } else { names }
    }
}

/// As the source has it, without the hash at its end, and not too long.
fn short(name: &str) -> Arc<str> {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    match name.char_indices().nth(NAME_CHARS_MAX) {
        None => name.into(),
        Some((end, _)) => format!("{}…", &name[..end]).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        assert_eq!(&*short("_ZN4core3fmt5write17h0123456789abcdefE"), "core::fmt::write");
        assert_eq!(&*short("memcpy"), "memcpy");
        let long = short(&"ü".repeat(200));
        assert_eq!(long.chars().count(), NAME_CHARS_MAX + 1);
    }

    #[test]
    fn an_address_outside_all_files_is_said_to_be_that() {
        assert_eq!(Symbols::new(&[]).names(1)[0].as_ref(), "(no file)");
    }
}
