//! Whole jobs, as users do them: the demo, a day of the lab, an operator's day, the lab, monitoring.

#[path = "../common/mod.rs"]
mod common;
mod day;
mod demo;
mod lab_isolated;
mod lab_scenarios;
mod monitoring;
mod operator;
#[path = "../support_command/mod.rs"]
mod support_command;
#[path = "../support_trial/mod.rs"]
mod support_trial;
