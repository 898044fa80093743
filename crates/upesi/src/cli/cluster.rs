//! `upesi cluster`: the log that the nodes of a cluster share.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use upesi_node::cluster::{self, ClusterError, CopyPosition, LogComparison, Status, TopicReplicas};
use upesi_offline::audit;
use upesi_offline::backup::{self, RestoreArguments};
use upesi_process::exit::{Exit, Failure, Outcome, write_out};

use super::hub::{self, HubArguments};
use super::settings::{SettingsArguments, settings};

/// Subcommands of `upesi cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Create the Kafka topic with the required settings. An existing topic is checked and not changed.
    CreateTopic(SettingsArguments),
    /// Create a data directory for a new node from a backup of another node, and check that the topic has the entries
    /// after the backup.
    ///
    /// Use the settings of the new node. Start the node afterwards.
    Add(AddArguments),
    /// Print the leader, the position of the log, and the position of this node's data directory.
    Status(StatusArguments),
    /// Transfer leadership to another node. Call the current leader's admin API.
    HandOver(HandOverArguments),
    /// Make a follower claim leadership immediately, also with cluster.may_lead = false. Call that follower's admin
    /// API.
    ///
    /// If the leader has written anything meanwhile, it stays leader. In that case use hand-over on the leader instead.
    Promote(HubArguments),
    /// Compare the log with a stopped node's copy, after brokers lost entries. With --write, append the entries that
    /// the log lacks.
    ///
    /// Run it on each node, then with --write on the node that has the most. The other nodes find their own
    /// records. An empty topic also receives the records of a standalone hub, which then becomes a node of the cluster.
    Repair(RepairArguments),
    /// Remove a node that will not come back: the topic no longer retains entries for it.
    ///
    /// If it starts again, it is a node as before, as long as the topic has the entries that it needs.
    Remove(RemoveArguments),
}

/// Arguments of `upesi cluster add`.
#[derive(Args, Clone, Debug)]
pub struct AddArguments {
    /// Backup of another node, created by `upesi backup`.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Settings of the new node.
    #[command(flatten)]
    pub settings: SettingsArguments,
}

/// Arguments of `upesi cluster repair`.
#[derive(Args, Clone, Debug)]
pub struct RepairArguments {
    /// Settings of the node.
    #[command(flatten)]
    pub settings: SettingsArguments,
    /// Append the entries that the log lacks.
    #[arg(long)]
    pub write: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `upesi cluster remove`.
#[derive(Args, Clone, Debug)]
pub struct RemoveArguments {
    /// Number of the node.
    #[arg(value_name = "NODE")]
    pub node: u32,
    /// Settings of any other node.
    #[command(flatten)]
    pub settings: SettingsArguments,
}

/// Arguments of `upesi cluster hand-over`.
#[derive(Args, Clone, Debug)]
pub struct HandOverArguments {
    /// The next leader. Without it, any other node takes over.
    #[arg(long, value_name = "NODE")]
    pub to: Option<u32>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi cluster status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArguments {
    /// Settings of the node.
    #[command(flatten)]
    pub settings: SettingsArguments,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

pub(super) fn run(command: ClusterCommand) -> Outcome {
    match command {
        ClusterCommand::CreateTopic(arguments) => {
            let topic = cluster::create(&settings(&arguments)?.settings).map_err(failure)?;
            write_out(&format!("the topic {topic} has the required settings\n"))
        }
        ClusterCommand::Add(arguments) => add(arguments),
        ClusterCommand::Status(StatusArguments { settings: arguments, json }) => {
            let status = cluster::status(&settings(&arguments)?.settings).map_err(failure)?;
            write_out(&if json { as_json(&status) } else { as_text(&status) })
        }
        ClusterCommand::Remove(RemoveArguments { node, settings: arguments }) => {
            match cluster::remove(&settings(&arguments)?.settings, node).map_err(failure)? {
                true => write_out(&format!("the topic no longer retains entries for node {node}\n")),
                false => Err(Failure::new(Exit::NoInput, format!("the topic has no node {node}"))),
            }
        }
        ClusterCommand::Repair(RepairArguments { settings: arguments, write, json }) => {
            let found = cluster::repair(&settings(&arguments)?.settings, write).map_err(failure)?;
            write_out(&if json { found_as_json(&found) } else { found_as_text(&found) })
        }
        ClusterCommand::HandOver(HandOverArguments { to, hub }) => hand_over(to, hub),
        ClusterCommand::Promote(hub) => promote(hub),
    }
}

fn add(AddArguments { from, settings: arguments }: AddArguments) -> Outcome {
    let settings = settings(&arguments)?.settings;
    // A mistake in the settings is found before anything is copied.
    let node = settings.cluster.node;
    if cluster::knows(&settings).map_err(failure)? {
        let text = format!(
            "node {node} already exists: give the new node another number, or run `upesi cluster remove {node}` first to replace it"
        );
        return Err(Failure::new(Exit::Usage, text));
    }
    let data = settings.data.dir.clone();
    let arguments = RestoreArguments { from, data, alone: false, accept_findings: false, json: false };
    let restored = backup::restore(&arguments)?;
    if !restored.is_accepted {
        let (from, data) = (arguments.from.display(), arguments.data.display());
        let text = format!(
            "{}\nto accept these findings: upesi restore --from {from} --data {data} --accept-findings",
            audit::to_text(&restored.audit)
        );
        return Err(Failure::new(Exit::Data, text));
    }
    let status = cluster::status(&settings).map_err(failure)?;
    let (last, data) = (restored.audit.last_seq, settings.data.dir.display());
    let behind = status.accepted.saturating_sub(last);
    write_out(&format!(
        "{data} has record {last} and passed the audit; the topic has the {behind} records after it: start node {node}\n"
    ))
}

fn promote(hub: HubArguments) -> Outcome {
    let (api, runtime) = hub::connect(hub)?;
    let call = api.post::<Value>("/cluster/promote", "application/json", "{}".to_owned().into());
    let answer = runtime.block_on(call).map_err(|error| hub::failure(&error))?;
    write_out(&format!(
        "node {} claims leadership: `upesi cluster status` shows the leader\n",
        answer["node"]
    ))
}

fn hand_over(to: Option<u32>, hub: HubArguments) -> Outcome {
    let (api, runtime) = hub::connect(hub)?;
    let body = to.map_or_else(|| json!({}), |to| json!({ "to": to })).to_string();
    let call = api.post::<Value>("/cluster/hand-over", "application/json", body.into());
    let answer = runtime.block_on(call).map_err(|error| hub::failure(&error))?;
    let named = to.map_or_else(|| "any other node".to_owned(), |to| format!("node {to}"));
    write_out(&format!("node {} has handed over to {named}\n", answer["from"]))
}

fn failure(error: ClusterError) -> Failure {
    Failure::new(error.exit(), error)
}

fn as_json(status: &Status) -> String {
    let leader = status.leader.as_ref().map(|(node, address)| json!({ "node": node, "address": address }));
    let Status { epoch, accepted, copied, store_accepted, store_copied, .. } = status;
    let Status { begin, end, needs, told, brokers, .. } = status;
    let told = told.iter().map(|(node, has)| (node.to_string(), record_of(has))).collect::<Map<_, _>>();
    let store = json!({ "accepted": store_accepted, "copied": store_copied });
    format!(
        "{}\n",
        json!({
            "epoch": epoch,
            "leader": leader,
            "accepted": accepted,
            "copied": copied,
            "store": store,
            "begin": begin,
            "end": end,
            "needs": needs,
            "told": told,
            "brokers": { "leader": brokers.leader, "inSync": brokers.in_sync, "behind": brokers.behind },
        })
    )
}

fn as_text(status: &Status) -> String {
    let leader = match &status.leader {
        Some((node, Some(address))) => format!("node {node} at {address}"),
        Some((node, None)) => format!("node {node}"),
        None => "none".to_owned(),
    };
    let copied = match (status.copied, status.store_copied) {
        (Some(seq), Some(store)) => format!("record {seq}, store {store}"),
        _ => "nothing yet".to_owned(),
    };
    let Status { epoch, accepted, store_accepted, begin, end, .. } = status;
    let mut text = format!(
        "leader    {leader}, epoch {epoch}\naccepted  record {accepted}, store {store_accepted}\nhere      {copied}\n\
         log       offsets {begin} to {end}\nbrokers   {}\n",
        brokers_of(&status.brokers)
    );
    for (node, offset) in &status.needs {
        let has =
            status.told.get(node).map_or_else(String::new, |has| format!(", which had {}", text_of(has)));
        let _ = writeln!(text, "needed    from offset {offset} by node {node}{has}");
    }
    text
}

/// The brokers: leader of the topic's partition and replicas in sync.
fn brokers_of(TopicReplicas { leader, in_sync, behind }: &TopicReplicas) -> String {
    let list = |brokers: &[u32]| brokers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let leads = leader.map_or_else(|| "no leader".to_owned(), |broker| format!("leader {broker}"));
    let behind = if behind.is_empty() { String::new() } else { format!("; behind: {}", list(behind)) };
    format!("{leads}; in sync: {}{behind}", list(in_sync))
}

fn text_of(CopyPosition { seq, store_seq }: &CopyPosition) -> String {
    format!("record {seq}, store {store_seq}")
}

fn record_of(CopyPosition { seq, store_seq }: &CopyPosition) -> Value {
    json!({ "record": seq, "store": store_seq })
}

fn found_as_json(found: &LogComparison) -> String {
    let others = found
        .others
        .iter()
        .map(|(node, has)| (node.to_string(), has.as_ref().map_or(Value::Null, record_of)));
    format!(
        "{}\n",
        json!({
            "compared": { "from": found.compared.0, "to": found.compared.1 },
            "log": record_of(&found.log),
            "here": record_of(&found.here),
            "others": others.collect::<Map<_, _>>(),
            "lacking": found.is_lacking(),
            "repaired": found.is_repaired,
        })
    )
}

fn found_as_text(found: &LogComparison) -> String {
    let (from, to) = found.compared;
    let mut text = format!(
        "compared  offsets {from} to {to}\nlog       {}\nhere      {}\n",
        text_of(&found.log),
        text_of(&found.here)
    );
    for (node, has) in &found.others {
        let has =
            has.as_ref().map_or_else(|| "has not reported".to_owned(), |has| format!("had {}", text_of(has)));
        let _ = writeln!(text, "node {node:<4} {has}");
    }
    let verdict = match (found.is_lacking(), found.is_repaired, found.longer()) {
        (false, ..) => "the log has all records of this node".to_owned(),
        (true, true, _) => "the log now has all records of this node: start the nodes".to_owned(),
        (true, false, Some((node, _))) => {
            format!("the log lost its end; node {node} has more records: repair the log there")
        }
        (true, false, None) if found.log == CopyPosition::default() => {
            "the log is empty: fill it from this node with --write".to_owned()
        }
        (true, false, None) => {
            "the log lost its end: repair it from this node with --write if no other node has more".to_owned()
        }
    };
    text + &verdict + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_shows_leader_and_positions() {
        let status = |leader, copied: Option<u64>| Status {
            epoch: 3,
            leader,
            accepted: 90,
            copied,
            store_accepted: 7,
            store_copied: copied.map(|_| 6),
            begin: 30,
            end: 120,
            needs: [(1, 119), (2, 31)].into(),
            told: [(2, CopyPosition { seq: 60, store_seq: 5 })].into(),
            brokers: TopicReplicas { leader: Some(3), in_sync: vec![2, 3], behind: vec![1] },
        };
        let known = status(Some((2, Some("https://hub-2:4000".to_owned()))), Some(88));
        assert_eq!(
            as_text(&known),
            "leader    node 2 at https://hub-2:4000, epoch 3\naccepted  record 90, store 7\nhere      record 88, store 6\n\
             log       offsets 30 to 120\nbrokers   leader 3; in sync: 2, 3; behind: 1\n\
             needed    from offset 119 by node 1\n\
             needed    from offset 31 by node 2, which had record 60, store 5\n"
        );
        let text = as_text(&status(Some((2, None)), None));
        assert!(text.contains("leader    node 2, epoch 3\n") && text.contains("nothing yet"), "{text}");
        assert!(as_text(&status(None, None)).contains("leader    none,"));
        let object: serde_json::Value = serde_json::from_str(&as_json(&known)).unwrap();
        assert_eq!((&object["leader"]["node"], &object["copied"]), (&2.into(), &88.into()));
        assert_eq!((&object["begin"], &object["needs"]), (&30.into(), &json!({ "1": 119, "2": 31 })));
        assert_eq!(object["store"], json!({ "accepted": 7, "copied": 6 }));
        assert_eq!(object["told"], json!({ "2": { "record": 60, "store": 5 } }));
        assert_eq!(object["brokers"], json!({ "leader": 3, "inSync": [2, 3], "behind": [1] }));
        let nobody = TopicReplicas { leader: None, in_sync: vec![2], behind: Vec::new() };
        assert_eq!(brokers_of(&nobody), "no leader; in sync: 2");
    }

    #[test]
    fn missing_records_of_the_log_are_shown_with_a_remedy() {
        let copied = |seq| CopyPosition { seq, store_seq: 4 };
        let found = |other, is_repaired| LogComparison {
            compared: (3, 40),
            log: copied(80),
            here: copied(100),
            others: [(2, Some(copied(other))), (3, None)].into(),
            is_repaired,
        };
        assert_eq!(
            found_as_text(&found(90, false)),
            "compared  offsets 3 to 40\nlog       record 80, store 4\nhere      record 100, store 4\n\
             node 2    had record 90, store 4\nnode 3    has not reported\n\
             the log lost its end: repair it from this node with --write if no other node has more\n"
        );
        assert!(
            found_as_text(&found(101, false)).ends_with("node 2 has more records: repair the log there\n")
        );
        assert!(found_as_text(&found(90, true)).ends_with("start the nodes\n"));
        let empty = LogComparison { log: CopyPosition::default(), ..found(90, false) };
        assert!(found_as_text(&empty).ends_with("the log is empty: fill it from this node with --write\n"));
        let whole = LogComparison { log: copied(100), ..found(90, false) };
        assert!(found_as_text(&whole).ends_with("the log has all records of this node\n"));
        let object: Value = serde_json::from_str(&found_as_json(&found(90, false))).unwrap();
        assert_eq!((&object["lacking"], &object["others"]["2"]["record"]), (&true.into(), &90.into()));
    }
}
