//! `upesi cluster`: the log that the nodes of a cluster share.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use upesi_hub::cluster::{self, ClusterError, Status};
use upesi_hub::exit::{Exit, Failure, Outcome};
use upesi_hub::output::write_out;

use super::admin::{self, HubArguments};
use super::arguments::SettingsArguments;
use super::run::settings;

/// Subcommands of `upesi cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Create the topic with the settings that it must have. One that is there is checked, and left as it is.
    CreateTopic(SettingsArguments),
    /// Print who leads, and how far the log and this node's data directory are.
    Status(StatusArguments),
    /// Let another node lead, in order: ask the node that leads, by its admin API.
    HandOver(HandOverArguments),
    /// Forget a node that does not come back: the topic keeps nothing for it any more.
    ///
    /// If it starts again it is a node as before, as long as the topic has what it needs.
    Remove(RemoveArguments),
}

/// Arguments of `upesi cluster remove`.
#[derive(Args, Clone, Debug)]
pub struct RemoveArguments {
    /// The number of the node.
    #[arg(value_name = "NODE")]
    pub node: u32,
    /// The settings of another node.
    #[command(flatten)]
    pub settings: SettingsArguments,
}

/// Arguments of `upesi cluster hand-over`.
#[derive(Args, Clone, Debug)]
pub struct HandOverArguments {
    /// The node that is to lead; without it, any other.
    #[arg(long, value_name = "NODE")]
    pub to: Option<u32>,
    #[command(flatten)]
    pub hub: HubArguments,
}

/// Arguments of `upesi cluster status`.
#[derive(Args, Clone, Debug)]
pub struct StatusArguments {
    /// The settings of the node.
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
            write_out(&format!("the topic {topic} is as it must be\n"))
        }
        ClusterCommand::Status(StatusArguments { settings: arguments, json }) => {
            let status = cluster::status(&settings(&arguments)?.settings).map_err(failure)?;
            write_out(&if json { as_json(&status) } else { as_text(&status) })
        }
        ClusterCommand::Remove(RemoveArguments { node, settings: arguments }) => {
            match cluster::remove(&settings(&arguments)?.settings, node).map_err(failure)? {
                true => write_out(&format!("the topic keeps nothing for node {node} any more\n")),
                false => Err(Failure::new(Exit::NoInput, format!("the topic knows of no node {node}"))),
            }
        }
        ClusterCommand::HandOver(HandOverArguments { to, hub }) => hand_over(to, hub),
    }
}

fn hand_over(to: Option<u32>, hub: HubArguments) -> Outcome {
    let (api, runtime) = admin::connect(hub)?;
    let body = to.map_or_else(|| json!({}), |to| json!({ "to": to })).to_string();
    let call = api.post::<Value>("/cluster/hand-over", "application/json", body.into());
    let answer = runtime.block_on(call).map_err(|error| admin::failure(&error))?;
    let named = to.map_or_else(|| "any other node".to_owned(), |to| format!("node {to}"));
    write_out(&format!("node {} has handed over to {named}\n", answer["from"]))
}

fn failure(error: ClusterError) -> Failure {
    Failure::new(error.exit(), error)
}

fn as_json(status: &Status) -> String {
    let leader = status.leader.as_ref().map(|(node, address)| json!({ "node": node, "address": address }));
    let Status { epoch, accepted, copied, store_accepted, store_copied, begin, end, needs, .. } = status;
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
         log       offsets {begin} to {end}\n"
    );
    for (node, offset) in &status.needs {
        let _ = writeln!(text, "needed    from offset {offset} by node {node}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_who_leads_and_how_far_everything_is() {
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
        };
        let known = status(Some((2, Some("https://hub-2:4000".to_owned()))), Some(88));
        assert_eq!(
            as_text(&known),
            "leader    node 2 at https://hub-2:4000, epoch 3\naccepted  record 90, store 7\nhere      record 88, store 6\n\
             log       offsets 30 to 120\nneeded    from offset 119 by node 1\n\
             needed    from offset 31 by node 2\n"
        );
        let text = as_text(&status(Some((2, None)), None));
        assert!(text.contains("leader    node 2, epoch 3\n") && text.contains("nothing yet"), "{text}");
        assert!(as_text(&status(None, None)).contains("leader    none,"));
        let object: serde_json::Value = serde_json::from_str(&as_json(&known)).unwrap();
        assert_eq!((&object["leader"]["node"], &object["copied"]), (&2.into(), &88.into()));
        assert_eq!((&object["begin"], &object["needs"]), (&30.into(), &json!({ "1": 119, "2": 31 })));
        assert_eq!(object["store"], json!({ "accepted": 7, "copied": 6 }));
    }
}
