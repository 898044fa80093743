//! Payments with DFSPs of another scheme, through their proxy: from a telephone number to the money.

mod common;

use common::World;
use common::dialogue::hold;

/// bridge is a proxy; farbank and farwallet are behind it.
fn world() -> World {
    let mut world = World::with_lookups(&[]);
    world.join_proxy("bridge");
    let base_url = world.dfsp("bridge").base_url();
    world.set_all_endpoints("bridge", &base_url);
    for name in ["farbank", "farwallet"] {
        world.operate("POST", "/participants/bridge/proxied", &format!(r#"{{"name":"{name}"}}"#));
    }
    world
}

/// Of payer or payee of this scheme, and of the proxy.
fn positions(world: &World) -> [String; 3] {
    ["greenbank", "bluewallet", "bridge"].map(|name| world.position(name))
}

#[test]
fn payments_through_a_proxy_message_by_message() {
    let mut world = world();
    hold(&mut world, include_str!("dialogues/proxies.txt"));
    // greenbank paid 10 and then 4 to DFSPs behind the proxy; one of them paid 10 to bluewallet and 3 to greenbank.
    assert_eq!(positions(&world), ["11", "-10", "-1"]);
    let listed = world.operate("GET", "/participants/bridge/proxied", "");
    assert_eq!(listed.to_string(), r#"[{"isActive":1,"name":"farbank"},{"isActive":1,"name":"farwallet"}]"#);
    world.stop_and_audit();
}
