//! Settings of a cluster: its log, its nodes, its brokers.

use crate::choices::{ClusterLog, SaslMechanism, TopicReplicas};
use crate::kind::{Flag, Hours, Integer, List, Optional, Seconds};
use crate::maps::Nodes;
use crate::setting::group;
use crate::words::{Address, FilePath, Host, Text, Uuid};

group! {
    /// The section `cluster`.
    Cluster {
        /// `none`: this hub is standalone and has its own journal. `kafka`: this hub is a node of a cluster whose
        /// journal is an Apache Kafka topic; the leader processes all requests. A data directory cannot be changed from
        /// one to the other.
        log: ClusterLog = "none",
        /// Identifier of the cluster: a random UUID that all nodes share.
        id: Optional<Uuid> = "",
        /// Number of this node, unique within the cluster.
        node: Integer<0, 1_000_000, u32> = "0",
        /// Failover priority, 0 first. Each rank waits 300 ms longer before it takes over.
        rank: Integer<0, 100, u32> = "0",
        /// URL of this node, as other nodes show it in error messages, such as `https://hub-1.example:4000`.
        address: Host = "",
        /// Addresses of some of the brokers, such as `kafka-1:9092`.
        brokers: List<Host> = "",
        /// Name of the Kafka topic.
        topic: Text<249> = "upesi-journal" expert,
        /// Number of replicas that the topic must have: `3` (two of them must acknowledge each entry), or `1` for
        /// trials.
        replicas: TopicReplicas = "3",
        /// Whether this node may become leader. If not, it stays a follower, even if a handover names it; `upesi
        /// cluster promote` still makes it leader. Turn it off while it is uncertain whether the topic contains
        /// everything that any node has acknowledged.
        may_lead: Flag = "true" expert,
        /// Whether this node, as a follower, delivers callbacks to its share of the DFSPs. This needs `cluster.listen`
        /// on the leader.
        may_deliver: Flag = "true" expert,
        /// Minimum time that the topic retains entries, in hours. Older entries are deleted once every node has copied
        /// them.
        keep_hours: Hours<0, 876_000> = "168" expert,
        /// Interval in seconds between the leader's searches for entries to delete.
        trim_interval_s: Seconds<1, 86_400> = "600" expert,
        /// Address and port for requests that other nodes forward to this node while it is the leader, such as
        /// `0.0.0.0:4003`. With it, a follower also accepts requests from DFSPs and forwards them to the leader. Empty:
        /// only the leader accepts requests from DFSPs.
        listen: Optional<Address> = "",
        /// Table of the nodes' numbers with their hosts and ports for forwarded requests, such as
        /// `1 = "hub-1.example:4003"`. As a text: `1=hub-1.example:4003, 2=hub-2.example:4003`. It must be the same on
        /// all nodes and include this node.
        nodes: Nodes = "",
    }

    /// The section `broker_sasl`.
    BrokerSasl {
        /// How the hub logs in, instead of or in addition to its certificate; `none`: no login. `PLAIN` requires TLS.
        mechanism: SaslMechanism = "none",
        /// User name of the hub.
        username: Optional<Text<256>> = "",
        /// File with the password, on one line. The hub does not start if every user of the machine can read it.
        password_file: Optional<FilePath> = "",
    }
}
