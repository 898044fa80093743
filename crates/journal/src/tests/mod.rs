mod contract;
mod crash;
mod damage;
mod data_directory;
mod failure;
mod reading;
mod snapshots;
mod world;
