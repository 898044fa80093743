//! The settings of the cluster, as the options of its log and of this node.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use upesi_cluster::{Claim, ClusterId, Incarnation, LEVEL, NodeId, StandbyTimeouts};
use upesi_kafka::{KafkaSettings, Members, Replicas, Sasl, Security as BrokerSecurity};
use upesi_keys::PrivateKeyLocation;
use upesi_replication::{CHECKPOINT_FILE, NodeSettings};
use upesi_settings::{
    BrokerSasl, Choice as _, Cluster, ClusterLog, SaslMechanism, Settings, Tls, TlsMode, TopicReplicas,
};
use upesi_tls::{ClientFiles, Identity, Trust};

use super::error::ClusterError;

/// Rejects the use of a node's copy as a standalone hub's journal, because it would continue without the other nodes.
pub(crate) fn expect_alone(settings: &Settings) -> Result<(), ClusterError> {
    let place = settings.data.dir.join(CHECKPOINT_FILE);
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
        return Err(missing("cluster.log = kafka needs cluster.brokers"));
    }
    let (brokers, topic) = (cluster.brokers.join(","), cluster.topic.clone());
    Ok(KafkaSettings::new(brokers, topic, security_of(settings)?)?)
}

/// The files of TLS to the brokers; `None` without TLS. The checks of the settings ensure that no file is missing.
pub(crate) fn broker_files(settings: &Settings) -> Result<Option<ClientFiles>, ClusterError> {
    let Tls { mode, anchors_file, certificate_file, key_file, .. } = &settings.broker_tls;
    let identity = match (mode, certificate_file, key_file.as_ref().and_then(PrivateKeyLocation::file)) {
        (TlsMode::Plain, ..) => return Ok(None),
        (TlsMode::Tls, ..) => None,
        (TlsMode::Mutual, Some(certificate_file), Some(key_file)) => {
            Some(Identity { certificate_file: certificate_file.clone(), key_file: key_file.to_owned() })
        }
        (TlsMode::Mutual, ..) => {
            return Err(missing("broker_tls.mode = mutual needs certificate_file and key_file"));
        }
    };
    let anchors_file = anchors_file.clone().ok_or_else(|| missing("broker_tls.mode needs anchors_file"))?;
    let servers = Trust { anchors_file, crl_file: None, refuses_stale_crls: false };
    Ok(Some(ClientFiles { servers, identity }))
}

fn missing(text: &str) -> ClusterError {
    ClusterError::Settings(text.to_owned())
}

fn security_of(settings: &Settings) -> Result<BrokerSecurity, ClusterError> {
    let BrokerSasl { mechanism, username, password_file } = &settings.broker_sasl;
    let sasl = match (mechanism, username, password_file) {
        (SaslMechanism::None, ..) => None,
        (mechanism, Some(username), Some(password_file)) => Some(Sasl {
            mechanism: mechanism.word().to_owned(),
            username: username.clone(),
            password_file: password_file.clone(),
        }),
        _ => return Err(missing("broker_sasl.mechanism needs username and password_file")),
    };
    Ok(BrokerSecurity { tls: broker_files(settings)?, sasl })
}

pub(crate) fn replicas_of(cluster: &Cluster) -> Replicas {
    match cluster.replicas {
        TopicReplicas::Three => Replicas::SHIPPED,
        TopicReplicas::One => Replicas::TRIAL,
    }
}

pub(crate) fn id_of(cluster: &Cluster) -> Result<ClusterId, ClusterError> {
    cluster.id.map(ClusterId).ok_or_else(|| {
        missing(
            "cluster.log = kafka needs cluster.id: a random UUID, with or without dashes; Linux prints one with \
             `cat /proc/sys/kernel/random/uuid`",
        )
    })
}

/// The number of this node, if the settings are of a cluster.
pub(crate) fn number_of(settings: &Settings) -> Option<u32> {
    (settings.cluster.log != ClusterLog::None).then_some(settings.cluster.node)
}

/// Interval between reports of the end of the copy to the brokers. Other nodes without a running hub need only
/// this report to start.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub(crate) fn node_of(settings: &Settings) -> Result<NodeSettings, ClusterError> {
    let cluster = &settings.cluster;
    Ok(NodeSettings {
        cluster: id_of(cluster)?,
        node: NodeId(cluster.node),
        claim: Claim {
            incarnation: Incarnation(RandomState::new().build_hasher().finish()),
            level: LEVEL,
            address: cluster.address.clone(),
        },
        patience: StandbyTimeouts::of_rank(cluster.rank),
        may_claim: cluster.may_lead,
        is_promoted: Arc::default(),
        is_unfit: Arc::default(),
        report_every: cluster.trim_interval_s.min(TELL_EVERY),
    })
}

/// The nodes of the cluster, and the entries that they need.
pub(crate) fn members(settings: &Settings) -> Result<Members, ClusterError> {
    Ok(Members::new(log_of(settings)?, id_of(&settings.cluster)?))
}
