//! What the hub and the kernel say of the hub, once a second.

use serde_json::Value;
use upesi_lab::{AdminClient, Usage};
use upesi_types::FspId;

/// The hub at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub rss_kib: u64,
    pub engine_queue: u64,
    /// Callbacks in the lane of the lost DFSP.
    pub lane_items: u64,
    /// Callbacks owed, to whomever.
    pub owed: u64,
    pub parked: u64,
}

impl Sample {
    /// The larger of each.
    pub fn most(self, other: Self) -> Self {
        Self {
            rss_kib: self.rss_kib.max(other.rss_kib),
            engine_queue: self.engine_queue.max(other.engine_queue),
            lane_items: self.lane_items.max(other.lane_items),
            owed: self.owed.max(other.owed),
            parked: self.parked.max(other.parked),
        }
    }
}

/// Whoever looks.
#[derive(Debug)]
pub struct Watching {
    pid: u32,
    lost: FspId,
    last: Option<Sample>,
}

impl Watching {
    /// Of a hub by its process, and the DFSP whose lane is of interest.
    pub const fn new(pid: u32, lost: FspId) -> Self {
        Self { pid, lost, last: None }
    }

    /// Asks. `None` when the hub does not answer everything.
    pub async fn look(&mut self, admin: &AdminClient) -> Option<Sample> {
        self.last = None;
        let callbacks = admin.get("/callbacks?limit=1").await.ok()?;
        let lanes = admin.get("/lanes").await.ok()?;
        let metrics = admin.get("/metrics").await.ok()?;
        let (callbacks, lanes): (Value, Value) =
            (serde_json::from_slice(&callbacks).ok()?, serde_json::from_slice(&lanes).ok()?);
        let (pending, parked) =
            (callbacks["totals"]["pending"].as_u64()?, callbacks["totals"]["parked"].as_u64()?);
        let rss = Usage::of(self.pid).map_or(0, |usage| usage.resident_bytes);
        self.last = Some(Sample {
            rss_kib: rss / 1024,
            engine_queue: gauge(std::str::from_utf8(&metrics).ok()?, "upesi_engine_queue_depth"),
            lane_items: lane_items(&lanes, self.lost.as_str()),
            owed: pending + parked,
            parked,
        });
        self.last
    }

    /// Whether nothing was owed when the hub was last asked.
    pub fn owes_nothing(&self) -> bool {
        self.last.is_some_and(|sample| sample.owed == 0)
    }

    /// Whether something was given up then.
    pub fn is_parked(&self) -> bool {
        self.last.is_some_and(|sample| sample.parked > 0)
    }

    /// What was owed then, in words.
    pub fn owes(&self) -> String {
        match self.last {
            Some(Sample { owed, parked, .. }) => format!("{owed} callbacks, {parked} of them parked"),
            None => "the hub does not answer".to_owned(),
        }
    }
}

fn lane_items(lanes: &Value, lost: &str) -> u64 {
    let lane = lanes.as_array().into_iter().flatten().find(|lane| lane["participant"] == lost);
    let Some(lane) = lane else { return 0 };
    ["queued", "retrying", "inFlight"].iter().filter_map(|name| lane[name].as_u64()).sum()
}

/// A metric without labels; 0 where there is none.
fn gauge(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lanes_and_metrics_are_read() {
        let lanes = json!([
            {"participant": "dfsp-1", "queued": 9},
            {"participant": "dfsp-8", "queued": 3, "retrying": 2, "inFlight": 1, "catchingUp": true},
        ]);
        assert_eq!(lane_items(&lanes, "dfsp-8"), 6);
        assert_eq!(lane_items(&lanes, "dfsp-9"), 0);
        let metrics = "# TYPE upesi_engine_queue_depth gauge\nupesi_engine_queue_depth 17\nupesi_engine_queue_depth_x 3\n";
        assert_eq!(gauge(metrics, "upesi_engine_queue_depth"), 17);
        assert_eq!(gauge(metrics, "upesi_nothing"), 0);
    }
}
