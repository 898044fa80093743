//! Compresses the served files once, during the build.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::GzEncoder;

/// The files, relative to this crate's directory. The last parts of their paths are their names in `OUT_DIR`.
const FILES: [&str; 8] = [
    "../../docs/openapi/fspiop.yaml",
    "../../docs/openapi/admin.yaml",
    "page/fspiop.html",
    "page/admin.html",
    "page/page.js",
    "page/page.css",
    "vendor/swagger-ui-dist/swagger-ui-bundle.js",
    "vendor/swagger-ui-dist/swagger-ui.css",
];

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
        let content = fs::read(file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let name = Path::new(file).file_name().expect("a file has a name").to_string_lossy();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let compressed = encoder.write_all(&content).and_then(|()| encoder.finish());
        let compressed = compressed.unwrap_or_else(|error| panic!("{file}: {error}"));
        fs::write(Path::new(&out).join(format!("{name}.gz")), compressed).expect("OUT_DIR can be written");
    }
}
