//! What a world may go through.

use clap::ValueEnum;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The kinds of trouble that a world may have. The seed decides when, where and how much.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Faults {
            $($(#[$doc])* pub $name: bool,)*
        }

        impl Faults {
            pub const NONE: Self = Self { $($name: false,)* };
            /// Everything at once that may befall one machine, but rot, which would end most worlds early.
            pub const ALL: Self = Self { rot: false, nodes: false, ..Self { $($name: true,)* } };

            /// Switches a kind on; false where there is none of that name.
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
    /// The process is killed, or the machine loses power at any operation of the disk; restarts in quick succession.
    crashes,
    /// Operations of the disk fail, reads included, and the disk fills up.
    disk,
    /// The hub's clock jumps, drifts and stands still.
    clock,
    /// Requests, answers and callbacks are lost, repeated, delayed, reordered, and replayed much later.
    network,
    /// DFSPs are dead or slow for a while, or answer with errors.
    outages,
    /// DFSPs lie: wrong fulfilments, modified and repeated prepares, fulfils after aborts, others' transfers.
    lies,
    /// Operators deactivate, set caps, move funds and change endpoints meanwhile.
    operators,
    /// They do so at the worst moments: between a transfer's reservation and its end, right before a crash, right after
    /// a start.
    ambushes,
    /// The disk does not keep what was written to journal and snapshots: bits flip, under a running hub and while the
    /// process is down; writes report success and are lost, go elsewhere, or leave a sector as it was. A hub that finds
    /// that out and stops has done what it promises, so the world ends there.
    rot,
    /// What has finished is exported and removed after a while, half of the worlds long; its requests come again; and
    /// the archive is lost between two lives.
    retention,
    /// Operators close windows and settle them meanwhile, account by account, give settlements up, change between
    /// models, one of which may be gross, and ask for what cannot be.
    settlements,
    /// Payments in two currencies: conversions on the payer's side, on the payee's and on both, whose transfer comes
    /// first, last or never, and whose FXP answers late, twice, wrong or never.
    conversions,
    /// Bulks of one item to a thousand, in both currencies where there are two, some too large, some with an id twice,
    /// whose payee answers in part, late, twice, wrong or never.
    bulks,
    /// In half of the worlds one of the DFSPs is a proxy, and one or two of another scheme are behind it: what they
    /// send and receive is on its accounts.
    proxies,
    /// The hub is one of two or three nodes that share a log, clocks apart: when its process ends another one may lead;
    /// it hands over, or stands still and comes back when another one leads. Entries are lost, come twice or late, and
    /// acknowledgements are lost. The nodes that follow lag, and lose their power.
    nodes,
}

/// A mistake that a hub may be given on purpose, to prove that the auditor would find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bug {
    /// It answers before the record is durable.
    AcknowledgesEarly,
    /// Its disk says that it synced and did not.
    SyncsNothing,
    ForgetsFinished,
    /// It commits a payment a second time, under an id of its own.
    PaysTwice,
    /// It leaves a callback out and believes that it was delivered.
    DropsCallback,
    /// It takes any answer to a callback for a good one.
    BelievesEveryAnswer,
    /// It sends a callback with another body than the DFSP's.
    AltersBodies,
    /// It takes a stranger's fulfil for the payee's.
    BelievesStrangers,
    /// It tells the operator that a cap is set, and sets another.
    IgnoresCaps,
    /// It never looks at deadlines.
    NeverExpires,
    /// After a restart it does not look into its outbox.
    ForgetsOutbox,
    /// It takes whatever the wall clock says for the time.
    FollowsJumps,
    /// Its windows keep the payer's leg of a transfer and lose the payee's.
    SettlesOneLeg,
    /// Its windows count a transfer twice.
    SettlesTwice,
    /// It closes the next window too.
    ClosesTwice,
    /// A stage of a settlement moves its money twice.
    MovesTwice,
    LeavesCapsRaised,
    /// It leaves transfers of a gross model to the open window.
    IgnoresGross,
    /// It commits without charging fees.
    ForgetsFees,
    /// A transfer is committed and leaves its conversions behind.
    StrandsConversions,
    /// A transfer is committed and its conversions are aborted.
    SplitsEnds,
    /// It takes a stranger's fulfil for the FXP's.
    BelievesAnyFxp,
    /// It reserves another amount for a conversion than its initiator asked for.
    AltersRates,
    /// It reserves another amount for an item of a bulk than its payer asked for.
    AltersItems,
    /// It reserves an item of a bulk and does not ask the payee for it.
    HidesItems,
    /// It leaves a result of the payee out.
    LosesResults,
    /// An item that the payee has fulfilled in time expires.
    ExpiresAnswered,
    /// At the end of a bulk it tells the payer only.
    TellsPayerOnly,
    /// It tells the payer of another outcome of an item than came about.
    TellsOtherwise,
    /// It takes a stranger's answer to a bulk for the payee's.
    BelievesAnyPayee,
    /// What a DFSP behind a proxy sends is on its payee's account, not on its proxy's.
    ForgetsProxies,
}

/// How large a world is, and what may happen to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// DFSPs, 2 to 16.
    pub dfsps: usize,
    /// Transfers that DFSPs begin by themselves.
    pub transfers: u32,
    /// How long faults go on and transfers are begun, in simulated milliseconds.
    pub trouble_ms: u64,
    /// How long everything accepted may take to finish after that, in simulated milliseconds.
    pub patience_ms: u64,
    pub faults: Faults,
    /// A mistake that the hub is given; `None` for the hub as it is.
    pub bug: Option<Bug>,
    /// Whether the event log is kept as text; its hash is made in any case.
    pub keep_log: bool,
}

impl Plan {
    /// The mixed-fault world with a disk that does not keep what was written.
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
