//! Moments at which a hub is killed.

use super::Chance;
use super::events::{FileEvents, patience};
use super::load::Load;
use super::world::World;

/// When a life of the hub ends.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// As soon as there is a process.
    Spawned,
    /// At its first log line.
    FirstLine,
    /// At the n-th change or opening of a file since its start: within the recovery, or soon after.
    Recovery(u64),
    /// After n further transfers were answered 202.
    Accepted(u64),
    /// At the n-th file that comes, goes or changes its name under load: segments, snapshots, the archive's tables.
    Files(u64),
}

impl Moment {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(20) {
            0 => Self::Spawned,
            1 => Self::FirstLine,
            2..=6 => Self::Recovery(chance.spread(160)),
            7..=11 => Self::Files(chance.spread(16)),
            _ => Self::Accepted(chance.spread(512)),
        }
    }

    /// One life of a hub under load, to this moment. Whether it came to serve.
    pub fn live(self, world: &World, load: &Load) -> bool {
        let mut serves = false;
        let hub = match self {
            Self::Spawned => world.start(),
            Self::FirstLine => {
                let mut hub = world.start();
                assert!(hub.logs(""), "the hub ended without a word");
                hub
            }
            Self::Recovery(count) => {
                let events = FileEvents::of_recovery(&world.data);
                let hub = world.start();
                events.wait(count, patience());
                hub
            }
            Self::Accepted(count) => {
                let mut hub = world.start();
                hub.serves();
                load.wait_for_accepted(count);
                serves = true;
                hub
            }
            Self::Files(count) => {
                let mut hub = world.start();
                hub.serves();
                let events = FileEvents::of_structure(&world.data);
                events.wait(count, patience());
                serves = true;
                hub
            }
        };
        hub.kill();
        serves
    }
}
