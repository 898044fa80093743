//! Settings of message processing: ledger, engine, admission, delivery, lookups, quotes, log.

use upesi_ledger::{FundsOutGuard, UnknownTransfer};

use crate::choices::{FinerAmounts, LogFormat};
use crate::kind::{Flag, Integer, Microseconds, Milliseconds, Optional, Seconds};
use crate::setting::group;
use crate::words::{LogLevel, Name, QuoteRulesFile};

/// 2^20 bytes.
const MIB: u64 = 1 << 20;
/// Seven days in milliseconds, the maximum of idle times and cache times.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

group! {
    /// The section `hub`.
    Hub {
        /// Name of the hub as a participant and in `FSPIOP-Source`.
        name: Name = "Hub",
        /// Whether payer and payee of a transfer may be the same DFSP.
        on_us_transfers: Flag = "false" expert,
        /// Whether the hub also sends the outcome to a payee that fulfilled or aborted the transfer itself.
        payee_confirmation: Flag = "false" expert,
        /// Minimum credit of the settlement account after a withdrawal. `position`: the DFSP's position.
        /// `settlement-account`: zero.
        funds_out_guard: FundsOutGuard = "position" expert,
        /// Error code for a PUT about an unknown transfer: `2001`, internal error, as in Mojaloop, or `3208`, transfer
        /// id not found.
        unknown_transfer: UnknownTransfer = "2001" expert,
        /// Maximum time until the `expiration` of a transfer, in seconds. Transfers beyond it are rejected with code
        /// 3100. 0: one day with `security.profile = "production"`, otherwise no limit, as in Mojaloop.
        transfer_validity_max_s: Seconds<0, 3_153_600_000> = "0" expert,
        /// Handling of amounts with more decimals than their currency has (ISO 4217), which no bank can move. `reject`:
        /// reject transfers, items of bulk transfers, FX transfers, quotes and fee rules with such amounts with code
        /// 3100. `accept`: accept them, as Mojaloop does; settlements carry over remainders below the currency's
        /// smallest unit.
        finer_amounts: FinerAmounts = "accept" expert,
        /// Time until a prepared withdrawal expires, in seconds.
        internal_transfer_validity_s: Seconds<1, 31_536_000> = "432000" expert,
    }

    /// The section `engine`.
    Engine {
        /// Maximum number of commands in the queue. Requests beyond it are answered 503.
        queue_commands_max: Integer<1, 10_000_000, usize> = "65536" expert,
        /// Maximum number of commands in a batch.
        batch_commands_max: Integer<1, 1_000_000, usize> = "4096" expert,
        /// Maximum size of the records of a batch, in bytes. The batch is closed when it reaches this size.
        batch_bytes_max: Integer<65_536, { 128 * MIB }, usize> = "8388608" expert,
        /// Interval between searches for expired transfers, in milliseconds. A transfer expires at most this much late.
        tick_interval_ms: Milliseconds<1, 60_000> = "100" expert,
        /// Largest wall-clock jump, relative to the monotonic clock between two ticks, that the hub follows, in
        /// milliseconds. After a larger jump, the hub continues with the monotonic clock until the wall clock returns
        /// or an operator accepts the jump.
        clock_jump_max_ms: Milliseconds<1, 3_600_000> = "5000" expert,
        /// Maximum number of finished transfers in memory that wait to be archived. Beyond it, prepares are answered
        /// 503.
        finished_transfers_max: Integer<10_000, 100_000_000, usize> = "1000000" expert,
        /// Whether the hub syncs requests to disk before it acknowledges them. `false` is for measurements only: if the
        /// machine crashes, acknowledged transfers are lost.
        durable: Flag = "true" expert,
    }

    /// The section `admission`.
    Admission {
        /// Target for the time that ready work waits for a worker, in microseconds. If this time stays above the
        /// target, the hub limits new requests. 0: this delay limits nothing.
        delay_target_us: Microseconds<0, 1_000_000> = "20000" expert,
        /// Maximum expected wait for the engine, in milliseconds. Beyond it, new transfers are answered 503.
        engine_wait_max_ms: Milliseconds<20, 600_000> = "500" expert,
        /// Rate limit on new requests of all DFSPs together, per second; 0 for no limit.
        rate_max: Integer<0, 10_000_000> = "0" expert,
        /// Rate limit on new requests of each DFSP, per second; 0 for no limit. Unused capacity of up to one second
        /// carries over. A request counts once per 16 KiB of its body.
        rate_per_dfsp: Integer<0, 10_000_000> = "0",
        /// Rate limit on bodies of new requests of each DFSP, in bytes per second; 0 for no limit. `PUT` and `PATCH`
        /// have a separate limit of the same size. Unused capacity of up to one second carries over.
        bytes_per_dfsp: Integer<0, { 1_048_576 * MIB }> = "16777216" expert,
        /// Rate limit on lookups of parties and participants by each DFSP, per second; 0 for no limit. Unused
        /// capacity of up to one second carries over. A request counts for the DFSP that the client's certificate
        /// identifies. The next three limits work in the same way.
        lookups_per_dfsp: Integer<0, 10_000_000> = "0" expert,
        /// Rate limit on lookups of unknown parties by each DFSP, per second; 0 for no limit. Beyond it, all lookups of
        /// the DFSP are rejected. This prevents enumeration of the directory.
        lookup_misses_per_dfsp: Integer<0, 10_000_000> = "0",
        /// Rate limit on changes of the directory by each DFSP, per second; 0 for no limit.
        registrations_per_dfsp: Integer<0, 10_000_000> = "0" expert,
        /// Rate limit on messages with a wrong signature from each DFSP, if its certificate identifies it, per second;
        /// 0 for no limit. Beyond it, all requests of the DFSP are rejected for `signature_block_s`, and an alert is
        /// raised.
        signature_faults_per_dfsp: Integer<0, 10_000_000> = "100" expert,
        /// Time for which a DFSP is blocked after too many wrong signatures, in seconds.
        signature_block_s: Seconds<1, 86_400> = "60" expert,
        /// Delay before a rejection is sent when rejections are very frequent, in milliseconds; 0 disables it.
        refusal_hold_ms: Milliseconds<0, 1_000> = "5" expert,
    }

    /// The section `callbacks`.
    Callbacks {
        /// Time from the first attempt to deliver a callback until it is parked for an operator, in seconds.
        deadline_s: Seconds<1, 2_592_000> = "900" expert,
        /// Maximum number of callbacks in flight to one DFSP, and of connections to one of its addresses.
        concurrency_max: Integer<1, 10_000, usize> = "32" expert,
        /// Maximum number of callbacks of a lane in memory. Further ones wait in the outbox on disk.
        queue_max: Integer<1, 10_000_000, usize> = "8192" expert,
        /// Maximum size of a lane's callbacks in memory, in bytes.
        queue_bytes_max: Integer<65_536, { 4096 * MIB }, usize> = "33554432" expert,
        /// Maximum number of a lane's callbacks in memory that wait for a retry, and of callbacks that wait behind an
        /// earlier one of the same transfer. Each is at most a quarter of `queue_max`. Further ones wait on disk.
        retrying_max: Integer<1, 1_000_000, usize> = "1024" expert,
        /// Maximum delay before the first retry, in milliseconds. It doubles with each retry. The actual delay is
        /// random, up to this maximum.
        backoff_min_ms: Milliseconds<1, 3_600_000> = "200" expert,
        /// Maximum delay before any retry, in milliseconds.
        backoff_max_ms: Milliseconds<1, 86_400_000> = "30000" expert,
        /// Time limit for opening a connection, in milliseconds.
        connect_timeout_ms: Milliseconds<10, 600_000> = "3000" expert,
        /// Time limit from sending a callback to the end of the response's head, in milliseconds.
        request_timeout_ms: Milliseconds<10, 600_000> = "10000" expert,
        /// Whether a connection is used for more than one callback. `false` is for measurements.
        keep_alive: Flag = "true" expert,
        /// Number of consecutive connection failures after which a lane pauses.
        breaker_threshold: Integer<1, 1_000_000, u32> = "8" expert,
        /// First pause of a lane, in milliseconds. It doubles with each failed probe.
        breaker_pause_min_ms: Milliseconds<10, 3_600_000> = "500" expert,
        /// Longest pause of a lane, in milliseconds.
        breaker_pause_max_ms: Milliseconds<10, 86_400_000> = "30000" expert,
    }

    /// The section `relay`.
    Relay {
        /// Maximum number of accepted requests that are being forwarded. Requests beyond it are answered 503.
        in_flight_max: Integer<1, 10_000_000, usize> = "16384" expert,
        /// Maximum size of these requests in bytes, with headers and bodies. Requests beyond it are answered 503.
        bytes_max: Integer<MIB, { 65_536 * MIB }, usize> = "67108864" expert,
        /// Maximum size of these requests for one sender, in bytes.
        sender_bytes_max: Integer<MIB, { 65_536 * MIB }, usize> = "33554432" expert,
        /// Maximum number of messages in flight to one DFSP.
        concurrency_max: Integer<1, 10_000, usize> = "64" expert,
        /// Maximum number of messages that wait to be sent to one DFSP. Messages beyond it fail, and the sender
        /// receives an error callback.
        waiting_max: Integer<0, 10_000_000, usize> = "4096" expert,
        /// Maximum size in bytes of the messages to one DFSP, in flight and waiting. Messages beyond it fail, and the
        /// sender receives an error callback.
        waiting_bytes_max: Integer<MIB, { 65_536 * MIB }, usize> = "33554432" expert,
        /// Share of common limits that the requests of one DFSP may use, in percent. The limits are `in_flight_max`,
        /// `lookup.pending_max` and `oracles.in_flight_max`, and the limits on messages to one DFSP. For the bytes of
        /// these messages, a DFSP may use twice this share.
        sender_share_percent: Integer<1, 100, usize> = "25" expert,
        /// Whether the hub forwards an answer to a lookup, quote or request from a DFSP that did not receive the
        /// request. Mojaloop does this. Such a DFSP can redirect payments to itself.
        unasked_answers: Flag = "false" expert,
    }

    /// The section `lookup`.
    Lookup {
        /// Time limit for a DFSP's answer to a lookup, in milliseconds. After it, the hub answers with 3300.
        deadline_ms: Milliseconds<10, 3_600_000> = "20000" expert,
        /// Maximum number of lookups that wait for an answer. Requests beyond it are answered 503.
        pending_max: Integer<1, 10_000_000, usize> = "65536" expert,
        /// Maximum size of the headers and paths of waiting lookups, in bytes.
        pending_bytes_max: Integer<MIB, { 65_536 * MIB }, usize> = "134217728" expert,
        /// Whether the built-in directory serves party-id types that have no oracle. If not, requests for these types
        /// are answered with 3003.
        builtin_directory: Flag = "true" expert,
        /// Memory for all parties of the built-in directory, in bytes, about 13 per party. If the parties need more, or
        /// with 0, lookups read from disk, which costs 5 to 10 µs of CPU time.
        directory_memory_bytes_max: Integer<0, { 65_536 * MIB }> = "268435456" expert,
        /// Whether only a party's own DFSP may change or remove it in the built-in directory.
        ownership_check: Flag = "true" expert,
        /// Whether only a party's own DFSP may change or remove it in an external oracle. Each change or removal then
        /// needs an additional request to the oracle.
        external_ownership_check: Flag = "true" expert,
        /// Whether the hub deletes a party from the oracle when a lookup finds that its DFSP is unknown to the scheme,
        /// as in Mojaloop.
        remove_stale_parties: Flag = "false" expert,
    }

    /// The section `oracles`.
    Oracles {
        /// Time limit for a request, including the connection, in milliseconds.
        deadline_ms: Milliseconds<10, 600_000> = "5000" expert,
        /// Time limit for opening a connection, in milliseconds.
        connect_timeout_ms: Milliseconds<10, 600_000> = "3000" expert,
        /// Maximum number of requests in flight to one oracle. Requests beyond it fail immediately.
        in_flight_max: Integer<1, 1_000_000, usize> = "1024" expert,
        /// How long an answer is cached, in milliseconds; 0 disables the cache.
        cache_ttl_ms: Milliseconds<0, WEEK_MS> = "0" expert,
        /// Number of consecutive unanswered requests after which the hub pauses requests to an oracle.
        breaker_threshold: Integer<1, 1_000_000, u32> = "8" expert,
        /// First pause, in milliseconds. It doubles with each failed probe.
        breaker_pause_min_ms: Milliseconds<10, 3_600_000> = "500" expert,
        /// Longest pause, in milliseconds.
        breaker_pause_max_ms: Milliseconds<10, 86_400_000> = "10000" expert,
    }

    /// The section `quotes`.
    Quotes {
        /// Number of quotes to remember in memory; the oldest is evicted. A changed message with the same id is
        /// rejected with 3106. 0 turns the check off. Not used with `persist`, which checks against stored quotes.
        duplicate_entries: Integer<0, 100_000_000, usize> = "200000" expert,
        /// Whether quote requests past their `expiration`, and answers to such requests, are rejected with 3302.
        /// Mojaloop forwards them.
        refuse_expired: Flag = "false" expert,
        /// Whether quotes are stored durably before they are acknowledged. The admin API then shows them.
        persist: Flag = "false" expert,
        /// Retention of a stored quote after its first message, in days.
        keep_days: Integer<1, 36_500, u32> = "30" expert,
        /// Maximum number of stored quotes. Beyond it, the oldest are deleted.
        keep_max: Integer<1, 1_000_000_000> = "1000000" expert,
        /// JSON file with rules that reject or reroute quotes; empty for none.
        rules_file: Optional<QuoteRulesFile> = "" expert,
    }

    /// The section `log`.
    Log {
        /// `off`, `error`, `warn`, `info`, `debug` or `trace`, or directives such as `info,upesi_delivery=debug`. The
        /// level can be changed at run time.
        level: LogLevel = "info",
        /// `pretty` for people, `json` for log collectors.
        format: LogFormat = "pretty",
        /// Whether each request to the FSPIOP port is logged, at `info` with the target `upesi_access`: request,
        /// sender, status, duration. The ids of transfers are logged, but no other ids.
        access: Flag = "false" expert,
    }

    /// The section `shutdown`.
    Shutdown {
        /// Maximum time that a shutdown waits for requests and callbacks in flight, in milliseconds. Undelivered
        /// callbacks are sent after the next start.
        drain_deadline_ms: Milliseconds<0, 600_000> = "10000" expert,
    }
}
