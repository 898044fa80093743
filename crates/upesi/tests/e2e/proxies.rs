//! Payments with DFSPs of another scheme, through their proxy: from a telephone number to the money.

use crate::common::World;
use crate::common::dialogue::hold;

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
    // greenbank paid 10, 4, and 10 of a bulk to DFSPs behind the proxy; they paid 10, and 10 of a bulk, to bluewallet
    // and 3 to greenbank.
    assert_eq!(positions(&world), ["21", "-20", "-1"]);
    let listed = world.operate("GET", "/participants/bridge/proxied", "");
    assert_eq!(listed.to_string(), r#"[{"isActive":1,"name":"farbank"},{"isActive":1,"name":"farwallet"}]"#);
    world.stop_and_audit();
}

/// bridge has both currencies, as has bluewallet; forex is another FXP, of this scheme.
fn converting_world() -> World {
    let mut world = world();
    world.join("forex");
    let base_url = world.dfsp("forex").base_url();
    world.set_all_endpoints("forex", &base_url);
    world.open_account("bluewallet", "USD");
    for name in ["bridge", "forex"] {
        world.join_currency(name, "USD");
    }
    world
}

#[test]
fn conversions_through_a_proxy_message_by_message() {
    let mut world = converting_world();
    hold(&mut world, include_str!("dialogues/proxied_conversions.txt"));
    // greenbank paid 130 KES twice. bluewallet has 1 USD of each: of the first by its payer's conversion, of the second
    // by its own.
    assert_eq!(positions(&world), ["260", "0", "-260"]);
    assert_eq!(
        (world.position_in("bridge", "USD"), world.position_in("bluewallet", "USD")),
        ("2".into(), "-2".into())
    );
    world.stop_and_audit();
}
