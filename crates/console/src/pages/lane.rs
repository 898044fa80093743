//! The state of a lane, for several pages.

use upesi_admin::reads::LaneReport;

use crate::table::Tone;
use crate::words::Words;

/// The state of a lane.
pub(super) fn lane_tone(lane: &LaneReport) -> Tone {
    match lane.lane.state() {
        "sending" => Tone::Good,
        "elsewhere" => Tone::Plain,
        "probing" | "refused" => Tone::Warning,
        _ => Tone::Bad,
    }
}

/// The state of a lane in plain words.
pub(super) fn lane_word<'a>(state: &'a str, words: &Words) -> &'a str {
    match state {
        "sending" => words.lane_sending,
        "refused" => words.lane_refused,
        "paused" => words.lane_paused,
        "probing" => words.lane_probing,
        "elsewhere" => words.lane_elsewhere,
        other => other,
    }
}
