//! Which files are mapped as code, and where.

use std::ops::Range;
use std::path::{Path, PathBuf};

/// A file whose code is mapped into this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MappedFile {
    /// Where the file can be read; the program itself even after it was replaced on disk.
    pub(crate) path: PathBuf,
    /// From the first mapping's beginning to the last one's end.
    pub(crate) range: Range<u64>,
}

impl MappedFile {
    /// The address that the file's address 0 has.
    pub(crate) const fn base(&self) -> u64 {
        self.range.start
    }
}

/// The mapped files of this process.
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
    fn files_with_code_are_found_and_the_program_even_when_it_was_replaced() {
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
