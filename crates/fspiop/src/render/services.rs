//! The body that tells who provides a service (FSPIOP API v2.0).

use alloc::vec::Vec;

use super::ByteWriter;

/// Appends the body of the callback that answers `GET /services/FXP…`: `{"providers":["fxmaker"]}`.
pub fn write_providers<'a>(out: &mut Vec<u8>, providers: impl IntoIterator<Item = &'a str>) {
    out.extend_from_slice(b"{\"providers\":[");
    for (index, provider) in providers.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        ByteWriter(out).text(provider);
    }
    out.extend_from_slice(b"]}");
}
