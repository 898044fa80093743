//! The settings: the one place where a key, its kind, its range, its default and its meaning are written down.

use super::setting::{Setting, Values, field_kind, field_type, settings};

/// 2^20 bytes.
const MIB: u64 = 1 << 20;
/// Seven days in milliseconds: the longest of any wait.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

settings! {
    /// The data directory: the journal, snapshots of the state, and the archive of finished transfers.
    data: Data {
        /// Directory of everything that must survive. Made where it does not exist; one process at a time may use it.
        dir: path = "data",
        /// Length of a journal segment in bytes. Space is reserved one segment ahead.
        segment_bytes: integer(MIB, 4096 * MIB) = "67108864",
        /// Journal segments that are archived and covered by a snapshot: `all` are kept, so that the whole history can be
        /// audited, or only those that are still `needed` for a restart and for callbacks.
        keep_segments: choice("all", "needed") = "all",
        /// A snapshot is written whenever this many records were folded since the last one.
        snapshot_every_records: integer(1_000, 1_000_000_000) = "262144",
        /// Memory for archived transfers that are read again, in bytes.
        archive_cache_bytes: integer(MIB, 65_536 * MIB) = "33554432",
    }

    /// How long finished transfers are kept.
    archive: Archive {
        /// Days after which finished transfers leave the hub, and the journal's segments after them; 0 keeps them for ever.
        /// They leave in portions, at most an eighth of this late. What left is answered like a transfer that never was.
        keep_days: integer(0, 36_500) = "0",
        /// Directory to which they are exported before they leave; empty for none. What cannot be exported stays.
        export_dir: text(4096) = "",
        /// How they are exported: as `upesi export --format` does.
        export_format: choice("csv", "jsonl", "parquet") = "csv",
    }

    /// The store in `store/` of the data directory: the built-in directory, the registry of oracles, kept quotes.
    store: Store {
        /// Memory for blocks of the store that are read again, in bytes.
        cache_bytes: integer(MIB, 65_536 * MIB) = "16777216",
        /// Room that has to be left on the disk, in bytes; below it nothing more is stored, and reads go on.
        free_bytes_min: integer(64 * MIB, 1_048_576 * MIB) = "536870912",
    }

    /// The port that DFSPs call (FSPIOP API).
    fspiop: Fspiop {
        /// Where to listen. Port 0 takes any free one.
        listen: address = "127.0.0.1:4000",
        /// Threads that serve connections and deliver callbacks; 0 takes one per core.
        workers: integer(0, 256) = "0",
        /// Whether each of them keeps to a core of its own, where there are as many threads as cores. Turn it off where other
        /// programs keep cores of this machine busy.
        workers_pinned: flag = "true",
        /// Longest request body in bytes; longer ones are answered 400 with code 3104.
        body_bytes_max: integer(1024, 64 * MIB) = "5242880",
        /// The same of messages about transfers, which the journal keeps: their longest member has 32 KiB.
        transfer_body_bytes_max: integer(1024, 64 * MIB) = "65536",
        /// Bytes of bodies over 64 KiB that may be in the hub at a time, from their first byte until they are passed on or
        /// given up; requests beyond are answered 503.
        large_bodies_bytes_max: integer(MIB, 65_536 * MIB) = "67108864",
        /// Longest request line and headers in bytes; longer ones are answered 431.
        head_bytes_max: integer(8192, MIB) = "65536",
        /// Connections served at a time. For a further one those make room that carried no request of a participant yet, the
        /// longest idle first, then those of participants that have been idle for ten seconds; where none can go, it is
        /// answered 503. Where the limit of open files has no room for so many, there are fewer, and a warning tells.
        connections_max: integer(1, 1_000_000) = "10000",
        /// Connections of one address that carried no request of a participant yet; for a further one the longest idle of that
        /// address makes room. IPv6 addresses count by their first 64 bits.
        strangers_per_address_max: integer(1, 1_000_000) = "2000",
        /// Time from the first byte of a request's head to its last, in milliseconds.
        head_deadline_ms: integer(10, 600_000) = "10000",
        /// Time from the end of a request's head to the end of its body, in milliseconds.
        body_deadline_ms: integer(10, 600_000) = "30000",
        /// How long a connection may idle between requests, in milliseconds.
        idle_timeout_ms: integer(100, WEEK_MS) = "120000",
        /// Protocol versions that requests may have, in the order in which version errors list them.
        versions_accepted: versions = "1.0,1.1,2.0",
        /// Protocol version of messages that the hub makes itself.
        version_default: version = "1.1",
        /// Whether `GET` and `DELETE` need a `Content-Type` too, as the standard demands of every request; without it they are
        /// answered 400 with code 3102. A DFSP may refuse what is passed on to it without.
        content_type_required: flag = "true",
        /// How far in the future the `completedTimestamp` of a fulfil may lie, in milliseconds.
        completed_timestamp_lag_ms: integer(0, 3_600_000) = "200",
        /// How far in the past the `completedTimestamp` of a fulfil may lie, in seconds.
        completed_timestamp_age_s_max: integer(1, 604_800) = "300",
        /// Whether paths may have the party-id types CONSENT and THIRD_PARTY_LINK, which only third-party schemes use.
        extended_party_id_types: flag = "false",
    }

    /// The port of the admin API, health and metrics. It has no authentication of its own: keep it on a private network.
    admin: Admin {
        /// Where to listen. Port 0 takes any free one.
        listen: address = "127.0.0.1:4001",
        /// Host that participants' `id` and `links.self` name in answers.
        hostname: text(253) = "central-ledger",
        /// Hosts by which the port may be called, beside `localhost`, loopback addresses and the address of `admin.listen` (any
        /// address if that is 0.0.0.0 or [::]): names or addresses without a port, with commas between them; `*` for all.
        /// Requests that name another host are answered 421, so that pages in an operator's browser cannot reach the port.
        allowed_hosts: text(4096) = "",
        /// Connections served at a time; for a further one the longest idle makes room. One address may have half of them.
        connections_max: integer(2, 100_000) = "64",
        /// Whether `GET /debug/profile` and `GET /debug/heap` show where CPU time and memory go. They cost nothing until
        /// they are asked.
        profiling: flag = "true",
    }

    /// The scheme's rules. Changing them never changes what was decided before.
    hub: Hub {
        /// Name under which the hub itself appears as a participant and as `FSPIOP-Source`.
        name: name = "Hub",
        /// Whether payer and payee of a transfer may be the same DFSP.
        on_us_transfers: flag = "false",
        /// Whether a payee that answered COMMITTED, or aborted, gets a courtesy copy from the hub.
        payee_confirmation: flag = "false",
        /// What must still be covered after a withdrawal: the DFSP's present `position`, or only that the
        /// `settlement-account` stays in credit.
        funds_out_guard: choice("position", "settlement-account") = "position",
        /// The error that answers a PUT about a transfer that nobody knows: `2001`, an internal error, as the reference hub
        /// says, or `3208`, transfer id not found.
        unknown_transfer: choice("2001", "3208") = "2001",
        /// How far ahead the `expiration` of a transfer may lie, in seconds; beyond it the transfer is refused with code 3100.
        transfer_validity_max_s: integer(1, 3_153_600_000) = "86400",
        /// How long a prepared withdrawal holds the money before it is given back, in seconds.
        internal_transfer_validity_s: integer(1, 31_536_000) = "432000",
    }

    /// The engine: the one queue through which everything is decided and journalled.
    engine: Engine {
        /// Commands that may wait; over it callers are answered 503 at once.
        queue_commands_max: integer(1, 10_000_000) = "65536",
        /// Commands decided and made durable together at most.
        batch_commands_max: integer(1, 1_000_000) = "4096",
        /// A batch is closed when its records exceed this, in bytes.
        batch_bytes_max: integer(65_536, 128 * MIB) = "8388608",
        /// How often deadlines are looked at, in milliseconds. A transfer expires at most this much late.
        tick_interval_ms: integer(1, 60_000) = "100",
        /// How far the machine's wall clock may part from its monotonic clock between two ticks, in milliseconds. A jump beyond
        /// is not followed until the clock comes back or an operator accepts it.
        clock_jump_max_ms: integer(1, 3_600_000) = "5000",
        /// Finished transfers in memory that wait for the archive at most; over it prepares are answered 503.
        finished_transfers_max: integer(10_000, 100_000_000) = "1000000",
        /// Whether what is acknowledged is synced to the disk before. `false` is for measurements only: a crash of the
        /// machine then loses acknowledged transfers.
        durable: flag = "true",
    }

    /// What is refused, and of whom, when more is asked than the hub can do: docs/overload.md. New requests are POST, GET and
    /// DELETE; PUT finishes what was begun and is refused last.
    admission: Admission {
        /// How long what is ready to run may have to wait for a worker, all the time, in microseconds. Over it new requests
        /// are limited. 0 sets no limit by delay.
        delay_target_us: integer(0, 1_000_000) = "20000",
        /// How long new transfers may be expected to wait for the engine, in milliseconds; over it they are answered 503.
        engine_wait_max_ms: integer(20, 600_000) = "500",
        /// New requests per second of all DFSPs together, to which a busy hub can be kept below what it could do; 0 for no
        /// bound.
        rate_max: integer(0, 10_000_000) = "0",
        /// New requests per second of each DFSP; 0 for no bound. It can save up a second's worth. A request counts once for
        /// each 16 KiB of its body that it has begun.
        rate_per_dfsp: integer(0, 10_000_000) = "0",
        /// Bytes per second of bodies over 16 KiB in new requests of each DFSP; 0 for no bound. It can save up a second's worth.
        bytes_per_dfsp: integer(0, 1_048_576 * MIB) = "16777216",
        /// How long refusals wait before they leave where there are very many, in milliseconds; 0 lets all leave at once.
        refusal_hold_ms: integer(0, 1_000) = "5",
    }

    /// Callbacks to DFSPs: every DFSP has a lane of its own, within these bounds.
    callbacks: Callbacks {
        /// From the first attempt at a callback to its being parked for an operator, in seconds.
        deadline_s: integer(1, 2_592_000) = "900",
        /// Callbacks in flight to one DFSP at a time, and connections to one of its addresses.
        concurrency_max: integer(1, 10_000) = "32",
        /// Callbacks that a lane holds in memory; further ones wait in the outbox on disk.
        queue_max: integer(1, 10_000_000) = "8192",
        /// Bytes of callbacks that a lane holds in memory.
        queue_bytes_max: integer(65_536, 4096 * MIB) = "33554432",
        /// Callbacks of a lane that wait in memory to be repeated, and as many that wait behind one of them; a quarter of `queue_max` at most. Further ones wait on disk.
        retrying_max: integer(1, 1_000_000) = "1024",
        /// Longest wait before the first repetition, in milliseconds; it doubles with each. The waits are random below it.
        backoff_min_ms: integer(1, 3_600_000) = "200",
        /// Longest wait before any repetition, in milliseconds.
        backoff_max_ms: integer(1, 86_400_000) = "30000",
        /// Time to open a connection, in milliseconds.
        connect_timeout_ms: integer(10, 600_000) = "3000",
        /// Time from sending a callback to the end of the response's head, in milliseconds.
        request_timeout_ms: integer(10, 600_000) = "10000",
        /// Whether a connection serves more than one callback. `false` is for measurements.
        keep_alive: flag = "true",
        /// How long a connection may idle before it is used no more, in milliseconds.
        idle_timeout_ms: integer(100, WEEK_MS) = "60000",
        /// Connection failures in a row after which a lane pauses.
        breaker_threshold: integer(1, 1_000_000) = "8",
        /// First pause of a lane, in milliseconds; it doubles with each probe that fails.
        breaker_pause_min_ms: integer(10, 3_600_000) = "500",
        /// Longest pause of a lane, in milliseconds.
        breaker_pause_max_ms: integer(10, 86_400_000) = "30000",
    }

    /// Messages that are passed on at once: lookups, quotes, transaction requests, authorizations. They share the lanes of
    /// callbacks, with connections of their own.
    relay: Relay {
        /// Accepted requests that are still being passed on; over it callers are answered 503 at once.
        in_flight_max: integer(1, 10_000_000) = "16384",
        /// Bytes of those requests, headers and bodies; over it callers are answered 503 at once.
        bytes_max: integer(MIB, 65_536 * MIB) = "67108864",
        /// Messages in flight to one DFSP at a time.
        concurrency_max: integer(1, 10_000) = "64",
        /// Messages that wait for one of those at a time; those beyond fail, and their senders are told.
        waiting_max: integer(0, 10_000_000) = "1024",
        /// Bytes of messages to one DFSP that are in flight or wait; those beyond fail, and their senders are told.
        waiting_bytes_max: integer(MIB, 65_536 * MIB) = "16777216",
    }

    /// Account lookup: which DFSP serves a party.
    lookup: Lookup {
        /// How long the DFSP that serves a party may take to answer a lookup, in milliseconds. Then the hub answers with
        /// 3300.
        deadline_ms: integer(10, 3_600_000) = "20000",
        /// Lookups that wait for an answer; over it callers are answered 503 at once.
        pending_max: integer(1, 10_000_000) = "65536",
        /// Bytes of headers and paths of the lookups that wait for an answer.
        pending_bytes_max: integer(MIB, 65_536 * MIB) = "134217728",
        /// Whether the built-in directory serves party-id types for which no oracle is registered. Without it they are
        /// answered 3003.
        builtin_directory: flag = "true",
        /// Memory in which all parties of the built-in directory are kept, so that lookups need no disk, in bytes: about 13
        /// for each party. Where they need more, and with 0, they are read from disk, at 5 to 10 µs of CPU a lookup.
        directory_memory_bytes_max: integer(0, 65_536 * MIB) = "268435456",
        /// Whether only the DFSP that a party belongs to may change or remove it in the built-in directory.
        ownership_check: flag = "true",
        /// The same for external oracles, at the cost of a question to the oracle for each removal.
        external_ownership_check: flag = "false",
        /// Whether a lookup that finds a DFSP unknown to the scheme makes the oracle forget the party, as reference hubs do.
        remove_stale_parties: flag = "false",
    }

    /// External oracles; each has these bounds of its own.
    oracles: Oracles {
        /// From a question to the end of its answer, in milliseconds; connecting included.
        deadline_ms: integer(10, 600_000) = "5000",
        /// Time to open a connection, in milliseconds.
        connect_timeout_ms: integer(10, 600_000) = "3000",
        /// Questions on their way to one oracle; those beyond fail at once.
        in_flight_max: integer(1, 1_000_000) = "256",
        /// Connections that each worker may have open to one oracle.
        connections_max: integer(1, 10_000) = "64",
        /// How long an answer may be used again, in milliseconds; 0 asks every time.
        cache_ttl_ms: integer(0, WEEK_MS) = "0",
        /// Answers kept per oracle; the oldest makes way.
        cache_entries_max: integer(1, 100_000_000) = "65536",
        /// Questions without an answer in a row after which an oracle is not asked for a while.
        breaker_threshold: integer(1, 1_000_000) = "8",
        /// First pause, in milliseconds; it doubles with each probe that fails.
        breaker_pause_min_ms: integer(10, 3_600_000) = "500",
        /// Longest pause, in milliseconds.
        breaker_pause_max_ms: integer(10, 86_400_000) = "10000",
    }

    /// Quotes, bulk quotes and FX quotes.
    quotes: Quotes {
        /// Quotes whose requests and answers are remembered in memory, so that a changed message under the same id is refused
        /// with 3106; the oldest is forgotten for a new one. 0 turns the check off.
        duplicate_entries: integer(0, 100_000_000) = "200000",
        /// Whether requests whose `expiration` is past, and answers to such, are refused with 3302. Reference hubs pass them
        /// on.
        refuse_expired: flag = "false",
        /// Whether quotes are kept, durably, before they are acknowledged; the admin API then shows them.
        persist: flag = "false",
        /// Days after its first message for which a kept quote is kept.
        keep_days: integer(1, 36_500) = "30",
        /// Kept quotes at most; the oldest go.
        keep_max: integer(1, 1_000_000_000) = "1000000",
        /// JSON file of rules that refuse or reroute quotes; empty for none.
        rules_file: text(4096) = "",
    }

    /// The log, on stderr. Message bodies are never logged.
    log: Log {
        /// `off`, `error`, `warn`, `info`, `debug` or `trace`, or directives such as `info,upesi_delivery=debug`. Can be
        /// changed while the hub runs.
        level: text(1024) = "info",
        /// `pretty` for people, `json` for collectors.
        format: choice("pretty", "json") = "pretty",
        /// Whether each request to the FSPIOP port gets a line, at `info` under the target `upesi_access`: what was asked, by
        /// whom, how it was answered, and how long that took. Of ids only those of transfers show.
        access: flag = "false",
    }

    /// Metrics, at `GET /metrics` of the admin port.
    metrics: Metrics {
        /// Whether requests, batches and callbacks are timed and counted as they pass. `false` is for measuring what that
        /// costs; what is read at the moment of asking stays, such as positions and queues.
        record: flag = "true",
        /// They are made at most once in this time, in milliseconds; who asks again before waits for the next.
        interval_ms: integer(1, 60_000) = "1000",
    }

    /// How the process ends.
    shutdown: Shutdown {
        /// How long a stop waits for requests in flight and for callbacks being sent, in milliseconds. Callbacks that
        /// remain are sent after the next start.
        drain_deadline_ms: integer(0, 600_000) = "10000",
    }
}
