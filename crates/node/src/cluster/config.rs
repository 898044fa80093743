//! The settings of the cluster, as the options of its log and of this node.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{Claim, ClusterId, Incarnation, LEVEL, NodeId, Patience};
use upesi_kafka::{KafkaSettings, Members, Replicas, Sasl, Security as BrokerSecurity};
use upesi_replication::{NodeSettings, PLACE_FILE};
use upesi_settings::{Cluster, Settings};
use upesi_tls::{ClientFiles, Identity, Trust};

use super::error::ClusterError;

/// Rejects the use of a node's copy as a standalone hub's journal, because it would continue without the other nodes.
pub(crate) fn expect_alone(settings: &Settings) -> Result<(), ClusterError> {
    let place = settings.data.dir.join(PLACE_FILE);
    if !place.exists() {
        return Ok(());
    }
    Err(ClusterError::Settings(format!(
        "{} is the copy of a node of a cluster: serve it with the node's settings of `cluster`, or restore a backup to another directory",
        settings.data.dir.display()
    )))
}

/// Settings of the log's client.
pub(crate) fn log_of(settings: &Settings) -> Result<KafkaSettings, ClusterError> {
    let cluster = &settings.cluster;
    if cluster.brokers.is_empty() {
        return Err(ClusterError::Settings("cluster.log = kafka needs cluster.brokers".to_owned()));
    }
    let (brokers, topic) = (cluster.brokers.clone(), cluster.topic.clone());
    Ok(KafkaSettings::new(brokers, topic, security_of(settings))?)
}

/// The files of TLS to the brokers, if it is used. The settings were validated.
pub(crate) fn broker_files(settings: &Settings) -> Option<ClientFiles> {
    let tls = &settings.broker_tls;
    let trust = || Trust {
        anchors_file: PathBuf::from(&tls.anchors_file),
        crl_file: None,
        refuses_stale_crls: false,
    };
    let identity = (tls.mode == "mutual").then(|| Identity {
        certificate_file: PathBuf::from(&tls.certificate_file),
        key_file: PathBuf::from(&tls.key_file),
    });
    (tls.mode != "plain").then(|| ClientFiles { servers: trust(), identity })
}

/// The settings were validated.
fn security_of(settings: &Settings) -> BrokerSecurity {
    let sasl = &settings.broker_sasl;
    BrokerSecurity {
        tls: broker_files(settings),
        sasl: (sasl.mechanism != "none").then(|| Sasl {
            mechanism: sasl.mechanism.to_owned(),
            username: sasl.username.clone(),
            password_file: PathBuf::from(&sasl.password_file),
        }),
    }
}

pub(crate) fn replicas_of(cluster: &Cluster) -> Replicas {
    if cluster.replicas == "1" { Replicas::TRIAL } else { Replicas::SHIPPED }
}

pub(crate) fn id_of(cluster: &Cluster) -> Result<ClusterId, ClusterError> {
    read_id(&cluster.id).ok_or_else(|| {
        let text = "cluster.log = kafka needs cluster.id: a random UUID, with or without dashes; Linux prints one \
                    with `cat /proc/sys/kernel/random/uuid`";
        ClusterError::Settings(text.to_owned())
    })
}

fn read_id(uuid: &str) -> Option<ClusterId> {
    let digits = uuid.replace('-', "");
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(&digits, 16).ok().filter(|_| is_id).map(ClusterId)
}

/// The number of this node, if the settings are of a cluster.
pub(crate) fn number_of(settings: &Settings) -> Option<u32> {
    (settings.cluster.log != "none").then(|| small(settings.cluster.node))
}

/// Numbers of nodes and ranks have a limit far below.
pub(crate) fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Interval in seconds at which a node reports the end of its copy to the brokers. Other nodes without a running hub
/// need only this report to start.
const TELL_EVERY_S: u64 = 10;

pub(crate) fn node_of(settings: &Settings) -> Result<NodeSettings, ClusterError> {
    let cluster = &settings.cluster;
    Ok(NodeSettings {
        cluster: id_of(cluster)?,
        node: NodeId(small(cluster.node)),
        claim: Claim {
            incarnation: Incarnation(RandomState::new().build_hasher().finish()),
            level: LEVEL,
            address: cluster.address.clone(),
        },
        patience: Patience::of_rank(small(cluster.rank)),
        may_claim: cluster.may_lead,
        is_promoted: Arc::default(),
        is_unfit: Arc::default(),
        tell_every: Duration::from_secs(cluster.trim_interval_s.min(TELL_EVERY_S)),
    })
}

/// The nodes of the cluster, and the entries that they need.
pub(crate) fn members(settings: &Settings) -> Result<Members, ClusterError> {
    Ok(Members::new(log_of(settings)?, id_of(&settings.cluster)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_a_uuid_with_or_without_dashes() {
        let id = Some(0x5b1c_1a6a_6f1f_4f0d_9a4f_8a2b_7a3c_9d10);
        for (text, expected) in [
            ("5b1c1a6a6f1f4f0d9a4f8a2b7a3c9d10", id),
            ("5b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d10", id),
            ("5B1C1A6A-6F1F-4F0D-9A4F-8A2B7A3C9D10", id),
            ("", None),
            ("5b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d1", None),
            ("+b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d10", None),
            ("5b1c1a6a6f1f4f0d9a4f8a2b7a3c9d10ff", None),
        ] {
            assert_eq!(read_id(text).map(|id| id.0), expected, "{text}");
        }
    }
}
