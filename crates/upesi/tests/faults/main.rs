//! Crashes, power losses, full disks, wrong clocks and hostile peers, for real processes.

mod armies;
mod bad_luck;
#[path = "../common/mod.rs"]
mod common;
mod crash_registrations;
mod crash_run;
mod crash_settlement;
mod full_disk;
mod power_loss;
#[path = "../support_crash/mod.rs"]
mod support_crash;
#[path = "../support_faults/mod.rs"]
mod support_faults;
#[path = "../support_power/mod.rs"]
mod support_power;
#[path = "../support_registrations/mod.rs"]
mod support_registrations;
mod torture_faults;
mod upkeep_faults;
mod wrong_clock;
