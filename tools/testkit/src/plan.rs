//! The plan of a world: its size, its faults, and a planted bug.

use clap::ValueEnum;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The kinds of faults that a world may have. The seed determines time, place and number.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Faults {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Faults {
            pub const NONE: Self = Self { $($name: false,)* };
            /// All faults that one machine may have, except rot, which would end most worlds early.
            pub const ALL: Self = Self { rot: false, nodes: false, ..Self { $($name: true,)* } };

            /// Switches a kind on. Returns false if the name is unknown.
            pub fn add(&mut self, name: &str) -> bool {
                match name {
                    $(stringify!($name) => self.$name = true,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

faults! {
    /// The process is killed, or the machine loses power at any operation of the disk. Several restarts follow each
    /// other quickly.
    crashes,
    /// Operations of the disk fail, including reads, and the disk fills up.
    disk,
    /// The hub's clock jumps, drifts and stands still.
    clock,
    /// Requests, answers and callbacks are lost, repeated, delayed, reordered, and replayed much later.
    network,
    /// DFSPs are down or slow for a while, or answer with errors.
    outages,
    /// DFSPs lie: wrong fulfilments, modified and repeated prepares, fulfils after aborts, other DFSPs' transfers.
    lies,
    /// Operators deactivate participants, set caps, move funds and change endpoints in the meantime.
    operators,
    /// Operators make changes at the worst moments: between a transfer's reservation and its end, right before a crash,
    /// right after a start.
    ambushes,
    /// The disk loses or changes data of journal and snapshots. Bits flip, both in a running hub and between two lives.
    /// Writes report success and are lost, go elsewhere, or leave a sector unchanged. A hub that detects this and stops
    /// has kept its promise, so the world ends there.
    rot,
    /// Finished transfers are exported and removed after a while, in half of the worlds after a long one. Their
    /// requests are sent again, and the archive is lost between two lives.
    retention,
    /// Operators close and settle windows in the meantime, account by account. They abort settlements, switch between
    /// models (one may settle gross), and send requests that must be rejected.
    settlements,
    /// Payments in two currencies, with FX transfers on the payer's side, on the payee's side and on both. Their
    /// transfer comes first, last or never, and their FXP answers late, twice, wrongly or never.
    conversions,
    /// Bulk transfers of one item to a thousand, in both currencies if there are two. Some are too large, and some
    /// contain an id twice. Their payee answers in part, late, twice, wrongly or never.
    bulks,
    /// In half of the worlds one DFSP is a proxy with one or two DFSPs of another scheme behind it. Their transfers are
    /// on the proxy's accounts.
    proxies,
    /// The hub is one of two or three nodes that share a log, and their clocks differ. When the leader's process ends,
    /// another node may become leader. The leader hands over, or freezes and resumes when another node is leader.
    /// Entries are lost, duplicated or delayed, and acknowledgements are lost. Followers lag and lose power.
    nodes,
}

/// A bug that can be planted in a hub, to prove that the auditor would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// The hub answers before the record is durable.
    AcknowledgesEarly,
    /// The disk reports syncs that it did not perform.
    SyncsNothing,
    ForgetsFinished,
    /// The hub commits a payment a second time, under a new id.
    PaysTwice,
    /// The hub skips a callback and records it as delivered.
    DropsCallback,
    /// The hub treats any answer to a callback as success.
    BelievesEveryAnswer,
    /// The hub sends a callback with a body that differs from the DFSP's.
    AltersBodies,
    /// The hub accepts another DFSP's fulfil as the payee's.
    BelievesStrangers,
    /// The hub confirms a cap to the operator, and sets another one.
    IgnoresCaps,
    /// The hub never checks deadlines.
    NeverExpires,
    /// The hub does not read its outbox after a restart.
    ForgetsOutbox,
    /// The hub always follows the wall clock, even if it jumps.
    FollowsJumps,
    /// Windows contain the payer's leg of a transfer and not the payee's.
    SettlesOneLeg,
    /// Windows count a transfer twice.
    SettlesTwice,
    /// Closing a window also closes the next one.
    ClosesTwice,
    /// A stage of a settlement moves its money twice.
    MovesTwice,
    LeavesCapsRaised,
    /// Transfers of a gross model are left to the open window.
    IgnoresGross,
    /// The hub commits without charging fees.
    ForgetsFees,
    /// A transfer is committed without its FX transfers.
    StrandsConversions,
    /// A transfer is committed and its FX transfers are aborted.
    SplitsEnds,
    /// The hub accepts another DFSP's fulfil as the FXP's.
    BelievesAnyFxp,
    /// The hub reserves another amount for an FX transfer than its initiator requested.
    AltersRates,
    /// The hub reserves another amount for an item of a bulk transfer than its payer requested.
    AltersItems,
    /// The hub reserves an item of a bulk transfer and does not request it from the payee.
    HidesItems,
    /// The hub ignores a result of the payee.
    LosesResults,
    /// An item that the payee has fulfilled in time expires.
    ExpiresAnswered,
    /// At the end of a bulk transfer, the hub notifies only the payer.
    TellsPayerOnly,
    /// The hub notifies the payer of a wrong outcome of an item.
    TellsOtherwise,
    /// The hub accepts another DFSP's answer to a bulk transfer as the payee's.
    BelievesAnyPayee,
    /// A transfer from a DFSP behind a proxy is booked on its payee's account, not on its proxy's.
    ForgetsProxies,
}

/// The size of a world, and the faults that it may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of DFSPs, 2 to 16.
    pub dfsps: usize,
    /// Number of transfers that DFSPs start on their own.
    pub transfers: u32,
    /// Duration of faults and of new transfers, in simulated milliseconds.
    pub trouble_ms: u64,
    /// Maximum time after that for everything accepted to finish, in simulated milliseconds.
    pub patience_ms: u64,
    pub faults: Faults,
    /// The planted bug; `None` for the hub as it is.
    pub bug: Option<Bug>,
    /// Whether the event log is kept as text. Its hash is always computed.
    pub keep_log: bool,
}

impl Plan {
    /// The mixed-fault world with a disk that loses or changes written data.
    pub fn rotten() -> Self {
        Self {
            faults: Faults { rot: true, retention: false, proxies: false, ..Faults::ALL },
            ..Self::default()
        }
    }
}

impl Plan {
    /// The mixed-fault world of a cluster.
    pub fn of_nodes() -> Self {
        Self { faults: Faults { nodes: true, ..Faults::ALL }, ..Self::default() }
    }
}

impl Default for Plan {
    /// The mixed-fault world of the tests.
    fn default() -> Self {
        Self {
            dfsps: 4,
            transfers: 40,
            trouble_ms: 12_000,
            patience_ms: 240_000,
            faults: Faults::ALL,
            bug: None,
            keep_log: false,
        }
    }
}
