//! `services/FXP`.

use upesi_delivery::relayed::TransportError;

use crate::DirectoryConfig;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, World};

fn exchange_world() -> World {
    World::new(DirectoryConfig::default(), ScriptedOracle::new(Script::Hangs, false))
}

/// Providers are fx-00, fx-01, … with KES and UGX. fx-idle is inactive, fx-shut has an inactive account in UGX, and
/// fx-mute has no endpoint for FX transfers. fx-wide also has TZS. bluebank and greenbank have only KES.
#[tokio::test(start_paused = true)]
async fn providers_are_active_and_hold_both_currencies() {
    let world = exchange_world();
    world.add_exchangers(2);
    for (path, providers) in [
        ("/services/FXP/KES/UGX", r#"["fx-00","fx-01","fx-wide"]"#),
        ("/services/FXP/UGX/KES", r#"["fx-00","fx-01","fx-wide"]"#),
        ("/services/FXP/TZS/KES", r#"["fx-wide"]"#),
        ("/services/FXP/TZS/XOF", "[]"),
        ("/services/FXP/KES/KES", "[]"),
        ("/services/FXP", r#"["fx-00","fx-01","fx-wide"]"#),
    ] {
        world.take(&format!("GET {path}"), "bluebank", None, "").await.unwrap();
        let expected = format!(r#"PUT bluebank {path} from Hub: {{"providers":{providers}}}"#);
        assert_eq!(world.sent().await, [expected]);
    }
    // A provider receives the list of the others.
    world.take("GET /services/FXP/KES/UGX", "fx-00", None, "").await.unwrap();
    let told = r#"PUT fx-00 /services/FXP/KES/UGX from Hub: {"providers":["fx-01","fx-wide"]}"#;
    assert_eq!(world.sent().await, [told]);
}

#[tokio::test(start_paused = true)]
async fn answer_names_at_most_sixteen_providers() {
    let world = exchange_world();
    world.add_exchangers(20);
    world.take("GET /services/FXP", "bluebank", None, "").await.unwrap();
    let names: Vec<String> = (0..16).map(|number| format!("\"fx-{number:02}\"")).collect();
    let names = names.join(",");
    assert_eq!(
        world.sent().await,
        [format!(r#"PUT bluebank /services/FXP from Hub: {{"providers":[{names}]}}"#)]
    );
}

#[tokio::test(start_paused = true)]
async fn undeliverable_answer_causes_no_error_callback() {
    let world = exchange_world();
    world.add_exchangers(1);
    let refusal = world.take("GET /services/FXP", "nobank", None, "").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (400, 3200));
    assert!(world.sent().await.is_empty());
    // Neither a DFSP without an endpoint nor an unreachable one gets an error callback.
    world.take("GET /services/FXP", "poorbank", None, "").await.unwrap();
    assert!(world.sent().await.is_empty());
    world.set_manner("bluebank", DfspBehaviour::Fails(TransportError::Unreachable("refused".to_owned())));
    world.take("GET /services/FXP", "bluebank", None, "").await.unwrap();
    assert_eq!(world.sent().await.len(), 1);
}
