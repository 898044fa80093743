//! How a command ended.

use std::process::Output;

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}
