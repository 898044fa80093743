//! Archive, store and the boundary to the LSM library, on disk.

mod archive {
    mod contract;
    mod crash;
    mod damage;
    mod divisions;
    mod support;
    mod watermark;
}
mod lsm;
mod store {
    mod crash;
    mod faults;
    mod following;
    mod in_memory;
    mod model;
    mod support;
    mod updates;
}
mod support;
