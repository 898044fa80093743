//! A directory in one small file. Segments end in many zeros, which are left out.

use std::fs;
use std::path::Path;

/// A file, its path relative to the data directory.
pub struct PackedFile {
    pub path: String,
    pub bytes: Vec<u8>,
}

/// The files under a directory whose relative path is wanted, sorted.
pub fn read(directory: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<PackedFile> {
    let mut pending = vec![directory.to_owned()];
    let mut files = Vec::new();
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
                continue;
            }
            let relative = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
            if is_wanted(&relative) {
                files.push(PackedFile { path: relative, bytes: fs::read(&path).unwrap() });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}

/// Writes the files below a directory.
pub fn unpack(files: &[PackedFile], directory: &Path) {
    for file in files {
        let path = directory.join(&file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, &file.bytes).unwrap();
    }
}

/// Per file: length of the path, the path, length, length without the zeros at the end, the bytes without them.
pub fn encode(files: &[PackedFile]) -> Vec<u8> {
    let mut packed = Vec::new();
    for PackedFile { path, bytes } in files {
        let kept = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        for number in [path.len(), bytes.len(), kept] {
            packed.extend_from_slice(&(number as u64).to_le_bytes());
        }
        packed.extend_from_slice(path.as_bytes());
        packed.extend_from_slice(&bytes[..kept]);
    }
    packed
}

/// Reads the output of [`encode`].
pub fn decode(mut packed: &[u8]) -> Vec<PackedFile> {
    let mut files = Vec::new();
    while !packed.is_empty() {
        let mut numbers = [0_usize; 3];
        for number in &mut numbers {
            *number = u64::from_le_bytes(packed[..8].try_into().unwrap()) as usize;
            packed = &packed[8..];
        }
        let [path_bytes, length, kept] = numbers;
        let path = String::from_utf8(packed[..path_bytes].to_vec()).unwrap();
        let mut bytes = packed[path_bytes..path_bytes + kept].to_vec();
        bytes.resize(length, 0);
        packed = &packed[path_bytes + kept..];
        files.push(PackedFile { path, bytes });
    }
    files
}
