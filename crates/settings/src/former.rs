//! Settings of earlier versions, and their replacements.

/// Keys with the words of an error message.
const FORMER: [(&str, &str); 9] = [
    ("fspiop.address_lists", "write `networks` in the DFSP's table [[dfsp]], or UPESI__DFSP__NAME__NETWORKS"),
    (
        "admission.exceptions",
        "write `lookups_per_s`, `lookup_misses_per_s`, `registrations_per_s` or `signature_faults_per_s` in the \
         DFSP's table [[dfsp]], or UPESI__DFSP__NAME__LOOKUPS_PER_S and so on",
    ),
    ("jws.exceptions", "write `signatures` in the DFSP's table [[dfsp]], or UPESI__DFSP__NAME__SIGNATURES"),
    ("data.archive_cache_bytes", FIXED),
    ("store.cache_bytes", FIXED),
    ("callbacks.idle_timeout_ms", FIXED),
    ("oracles.connections_max", FIXED),
    ("oracles.cache_entries_max", FIXED),
    (
        "fspiop.workers_pinned",
        "delete it; the hub pins a thread to each core if fspiop.workers is 0 or the number of cores",
    ),
];

const FIXED: &str = "delete it; the hub has a fixed value";

/// The replacement of a former key, as the rest of an error message.
pub fn successor(key: &str) -> Option<&'static str> {
    FORMER.iter().find(|(former, _)| *former == key).map(|(_, successor)| *successor)
}
