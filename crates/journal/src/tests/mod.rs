mod contract;
mod crash;
mod damage;
mod data_directory;
mod failure;
mod forged;
mod reading;
mod snapshots;
