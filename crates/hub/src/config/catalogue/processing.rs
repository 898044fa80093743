//! The settings of what the hub does with messages: ledger, engine, admission, delivery, lookups, quotes, log.

/// Declares the settings given, and behind them those below.
macro_rules! with_processing {
($($before:tt)*) => { settings! {
    $($before)*

    /// The scheme's rules. Changing them never changes what was decided before.
    hub: Hub {
        /// Name of the hub as a participant and in `FSPIOP-Source`.
        name: name = "Hub",
        /// Whether payer and payee of a transfer may be the same DFSP.
        on_us_transfers: flag = "false",
        /// Whether a payee that answered COMMITTED, or aborted, gets a copy from the hub.
        payee_confirmation: flag = "false",
        /// What must stay covered after a withdrawal: the DFSP's `position`, or only a credit on the
        /// `settlement-account`.
        funds_out_guard: choice("position", "settlement-account") = "position",
        /// The error for a PUT about an unknown transfer: `2001`, internal error, as in Mojaloop, or `3208`, transfer
        /// id not found.
        unknown_transfer: choice("2001", "3208") = "2001",
        /// Longest time until the `expiration` of a transfer, in seconds; beyond it the transfer is refused with code
        /// 3100. 0: a day with `security.profile = "production"`, no limit otherwise, as in Mojaloop.
        transfer_validity_max_s: integer(0, 3_153_600_000) = "0",
        /// Amounts with more decimals than their currency (ISO 4217), which no bank can move: `reject` refuses
        /// transfers, items of bulks, FX transfers, quotes and fee rules with such amounts with code 3100. `accept`
        /// takes them, as Mojaloop does; settlements carry over remainders below the currency's smallest unit.
        finer_amounts: choice("accept", "reject") = "accept",
        /// Time until a prepared withdrawal expires, in seconds.
        internal_transfer_validity_s: integer(1, 31_536_000) = "432000",
    }

    /// The engine: the queue through which everything is decided and journalled.
    engine: Engine {
        /// Commands in the queue; beyond it requests are answered 503.
        queue_commands_max: integer(1, 10_000_000) = "65536",
        /// Commands in a batch at most.
        batch_commands_max: integer(1, 1_000_000) = "4096",
        /// Bytes of records after which a batch is closed.
        batch_bytes_max: integer(65_536, 128 * MIB) = "8388608",
        /// Interval of the expiry sweep, in milliseconds. A transfer expires at most this much late.
        tick_interval_ms: integer(1, 60_000) = "100",
        /// Largest step of the wall clock against the monotonic clock between two ticks that is followed, in
        /// milliseconds. A larger one is not, until the clock comes back or an operator accepts it.
        clock_jump_max_ms: integer(1, 3_600_000) = "5000",
        /// Finished transfers in memory that wait for the archive; beyond it prepares are answered 503.
        finished_transfers_max: integer(10_000, 100_000_000) = "1000000",
        /// Whether acknowledged requests are synced to the disk first. `false` is for measurements only: a crash of the
        /// machine then loses acknowledged transfers.
        durable: flag = "true",
    }

    /// Limits and refusals under overload: docs/overload.md. New requests are POST, GET and DELETE; PUT finishes what
    /// was begun and is refused last.
    admission: Admission {
        /// Target for the standing wait for a worker, in microseconds. Over it new requests are limited. 0 sets no
        /// limit by delay.
        delay_target_us: integer(0, 1_000_000) = "20000",
        /// Longest expected wait for the engine, in milliseconds; over it new transfers are answered 503.
        engine_wait_max_ms: integer(20, 600_000) = "500",
        /// New requests per second of all DFSPs together; 0 for no limit.
        rate_max: integer(0, 10_000_000) = "0",
        /// New requests per second of each DFSP; 0 for no limit. A second's worth can be saved up. A request counts
        /// once for each 16 KiB of its body.
        rate_per_dfsp: integer(0, 10_000_000) = "0",
        /// Bytes per second of bodies of each DFSP, in new requests; as many again in `PUT` and `PATCH`. 0 for no
        /// limit. A second's worth can be saved up.
        bytes_per_dfsp: integer(0, 1_048_576 * MIB) = "16777216",
        /// Questions about parties and participants per second of each DFSP; 0 for no limit. As with the next ones, a
        /// second's worth can be saved up, and it counts whose certificate the caller has.
        lookups_per_dfsp: integer(0, 10_000_000) = "0",
        /// Lookups of parties that nobody serves per second of each DFSP; over it all its lookups are refused: a
        /// directory is read out by guessing. 0 for no limit.
        lookup_misses_per_dfsp: integer(0, 10_000_000) = "0",
        /// Changes of the directory per second of each DFSP; 0 for no limit.
        registrations_per_dfsp: integer(0, 10_000_000) = "0",
        /// Messages with a wrong signature per second of each DFSP, if it is known by its certificate; over it the DFSP
        /// is refused for `signature_block_s`, and an alarm is raised. 0 for no limit.
        signature_faults_per_dfsp: integer(0, 10_000_000) = "100",
        /// How long a DFSP is refused after too many wrong signatures, in seconds.
        signature_block_s: integer(1, 86_400) = "60",
        /// DFSPs with other limits than these, such as `greenbank lookups=50 misses=5; bluebank registrations=0`;
        /// what is not named is as for all. The names are `lookups`, `misses`, `registrations` and `signature_faults`.
        exceptions: text(65_536) = "",
        /// Wait of refusals while there are very many, in milliseconds; 0 for none.
        refusal_hold_ms: integer(0, 1_000) = "5",
    }

    /// Callbacks to DFSPs: the limits of each DFSP's lane.
    callbacks: Callbacks {
        /// Time from the first attempt at a callback until it is parked for an operator, in seconds.
        deadline_s: integer(1, 2_592_000) = "900",
        /// Callbacks in flight to one DFSP at a time, and connections to one of its addresses.
        concurrency_max: integer(1, 10_000) = "32",
        /// Callbacks of a lane in memory; further ones wait in the outbox on disk.
        queue_max: integer(1, 10_000_000) = "8192",
        /// Bytes of a lane's callbacks in memory.
        queue_bytes_max: integer(65_536, 4096 * MIB) = "33554432",
        /// Callbacks of a lane in memory that wait for a retry, and as many that wait behind one of them; at most a
        /// quarter of `queue_max`. Further ones wait on disk.
        retrying_max: integer(1, 1_000_000) = "1024",
        /// Longest wait before the first retry, in milliseconds; it doubles with each. The waits are random below it.
        backoff_min_ms: integer(1, 3_600_000) = "200",
        /// Longest wait before any retry, in milliseconds.
        backoff_max_ms: integer(1, 86_400_000) = "30000",
        /// Time to open a connection, in milliseconds.
        connect_timeout_ms: integer(10, 600_000) = "3000",
        /// Time from sending a callback to the end of the response's head, in milliseconds.
        request_timeout_ms: integer(10, 600_000) = "10000",
        /// Whether a connection serves more than one callback. `false` is for measurements.
        keep_alive: flag = "true",
        /// Longest idle time of a connection that is used again, in milliseconds.
        idle_timeout_ms: integer(100, WEEK_MS) = "60000",
        /// Connection failures in a row after which a lane pauses.
        breaker_threshold: integer(1, 1_000_000) = "8",
        /// First pause of a lane, in milliseconds; it doubles with each probe that fails.
        breaker_pause_min_ms: integer(10, 3_600_000) = "500",
        /// Longest pause of a lane, in milliseconds.
        breaker_pause_max_ms: integer(10, 86_400_000) = "30000",
    }

    /// Messages forwarded at once: lookups, quotes, transaction requests, authorizations. They share the lanes of
    /// callbacks, with their own connections.
    relay: Relay {
        /// Accepted requests being forwarded; beyond it requests are answered 503.
        in_flight_max: integer(1, 10_000_000) = "16384",
        /// Bytes of those requests, headers and bodies; beyond it requests are answered 503.
        bytes_max: integer(MIB, 65_536 * MIB) = "67108864",
        /// The same for the requests of one sender.
        sender_bytes_max: integer(MIB, 65_536 * MIB) = "33554432",
        /// Messages in flight to one DFSP at a time.
        concurrency_max: integer(1, 10_000) = "64",
        /// Messages waiting for one of those; messages beyond fail, with an error callback to the sender.
        waiting_max: integer(0, 10_000_000) = "4096",
        /// Bytes of messages to one DFSP in flight or waiting; messages beyond fail, with an error callback to the
        /// sender.
        waiting_bytes_max: integer(MIB, 65_536 * MIB) = "33554432",
        /// Part that the requests of one DFSP may take of shared places, in percent: of `in_flight_max`, of the places
        /// to one DFSP (of their bytes twice that part), of waiting lookups (`lookup.pending_max`), of requests to an
        /// oracle (`oracles.in_flight_max`).
        sender_share_percent: integer(1, 100) = "25",
        /// Whether an answer to a lookup, quote or request is forwarded from a DFSP that the hub did not ask, as in
        /// Mojaloop. Such a DFSP can lead payments to itself.
        unasked_answers: flag = "false",
    }

    /// Account lookup: the DFSP of a party.
    lookup: Lookup {
        /// Deadline for a DFSP's answer to a lookup, in milliseconds; then the hub answers with 3300.
        deadline_ms: integer(10, 3_600_000) = "20000",
        /// Lookups waiting for an answer; beyond it requests are answered 503.
        pending_max: integer(1, 10_000_000) = "65536",
        /// Bytes of headers and paths of waiting lookups.
        pending_bytes_max: integer(MIB, 65_536 * MIB) = "134217728",
        /// Whether the built-in directory serves party-id types without an oracle; otherwise they are answered 3003.
        builtin_directory: flag = "true",
        /// Memory for all parties of the built-in directory, in bytes, about 13 for each. If they need more, or with 0,
        /// lookups read the disk, at 5 to 10 µs of CPU.
        directory_memory_bytes_max: integer(0, 65_536 * MIB) = "268435456",
        /// Whether only a party's own DFSP may change or remove it in the built-in directory.
        ownership_check: flag = "true",
        /// The same for external oracles, at the cost of a request to the oracle for each change or removal.
        external_ownership_check: flag = "true",
        /// Whether a lookup that finds a DFSP unknown to the scheme makes the oracle forget the party, as in Mojaloop.
        remove_stale_parties: flag = "false",
    }

    /// External oracles; each has these limits.
    oracles: Oracles {
        /// Deadline of a request, connecting included, in milliseconds.
        deadline_ms: integer(10, 600_000) = "5000",
        /// Time to open a connection, in milliseconds.
        connect_timeout_ms: integer(10, 600_000) = "3000",
        /// Requests in flight to one oracle; those beyond fail at once.
        in_flight_max: integer(1, 1_000_000) = "1024",
        /// Connections of each worker to one oracle.
        connections_max: integer(1, 10_000) = "64",
        /// Time for which an answer is reused, in milliseconds; 0 for never.
        cache_ttl_ms: integer(0, WEEK_MS) = "0",
        /// Cached answers per oracle; the oldest makes way.
        cache_entries_max: integer(1, 100_000_000) = "65536",
        /// Unanswered requests in a row after which an oracle is not asked for a while.
        breaker_threshold: integer(1, 1_000_000) = "8",
        /// First pause, in milliseconds; it doubles with each probe that fails.
        breaker_pause_min_ms: integer(10, 3_600_000) = "500",
        /// Longest pause, in milliseconds.
        breaker_pause_max_ms: integer(10, 86_400_000) = "10000",
    }

    /// Quotes, bulk quotes and FX quotes.
    quotes: Quotes {
        /// Quotes remembered in memory, so that a changed message under the same id is refused with 3106; the oldest
        /// makes way. 0 turns the check off.
        duplicate_entries: integer(0, 100_000_000) = "200000",
        /// Whether requests past their `expiration`, and answers to such, are refused with 3302. Mojaloop forwards
        /// them.
        refuse_expired: flag = "false",
        /// Whether quotes are stored durably before they are acknowledged; the admin API then shows them.
        persist: flag = "false",
        /// Days for which a stored quote is kept after its first message.
        keep_days: integer(1, 36_500) = "30",
        /// Stored quotes at most; the oldest are deleted.
        keep_max: integer(1, 1_000_000_000) = "1000000",
        /// JSON file of rules that refuse or reroute quotes; empty for none.
        rules_file: text(4096) = "",
    }

    /// The log, on stderr. Message bodies are never logged.
    log: Log {
        /// `off`, `error`, `warn`, `info`, `debug` or `trace`, or directives such as `info,upesi_delivery=debug`. Can
        /// be changed at run time.
        level: text(1024) = "info",
        /// `pretty` for people, `json` for collectors.
        format: choice("pretty", "json") = "pretty",
        /// Whether each request to the FSPIOP port is logged, at `info` under the target `upesi_access`: request,
        /// sender, status, duration. Of ids only those of transfers are shown.
        access: flag = "false",
    }

    /// Metrics, at `GET /metrics` of the admin port.
    metrics: Metrics {
        /// Whether requests, batches and callbacks are timed and counted. `false` is for measuring the cost of that;
        /// values read at scrape time stay, such as positions and queues.
        record: flag = "true",
        /// Address of a port that serves `GET /metrics` and nothing else, for a monitoring system; empty for none. The
        /// admin port serves them in any case.
        listen: text(64) = "",
        /// Shortest time between two computations of the metrics, in milliseconds; requests in between wait for the
        /// next.
        interval_ms: integer(1, 60_000) = "1000",
    }

    /// The end of the process.
    shutdown: Shutdown {
        /// Longest wait of a stop for requests in flight and callbacks being sent, in milliseconds. The others are sent
        /// after the next start.
        drain_deadline_ms: integer(0, 600_000) = "10000",
    }
} };
}

pub(super) use with_processing;
