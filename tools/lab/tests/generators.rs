//! Two load generators at the same hub at the same time: they do not get into each other's way, and their results add
//! up.

mod toy;

use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use toy::{Toy, Vice};
use upesi_lab::{LabResult, Role, RunOptions, Scenario, merge};

/// Runs one generator for each instance beside each other; each leaves its result in a directory of its own.
fn beside_each_other(
    scenario: Scenario,
    out: &Path,
    instances: [Option<u32>; 2],
) -> [Result<LabResult, String>; 2] {
    let toy = Toy::start(Vice::None);
    let begin = Barrier::new(instances.len());
    let results = std::thread::scope(|scope| {
        let running = [0, 1].map(|place| {
            let (toy, begin) = (&toy, &begin);
            scope.spawn(move || {
                let options = RunOptions {
                    scenario,
                    role: Role::Load,
                    instance: instances[place],
                    dfsp_prefix: ["west", "east"][place].to_owned(),
                    out: Some(out.join(["west", "east"][place])),
                    callback_timeout: Duration::from_secs(5),
                    ..toy.options()
                };
                begin.wait();
                upesi_lab::run(&options).map_err(|error| error.to_string())
            })
        });
        running.map(|thread| thread.join().unwrap())
    });
    toy.end();
    results
}

#[test]
fn generators_have_parties_of_their_own_and_results_that_add_up() {
    for scenario in toy::operations() {
        let out = tempfile::tempdir().unwrap();
        let results = beside_each_other(scenario, out.path(), [Some(1), Some(2)]);
        let [west, east] = results.map(|result| result.unwrap());
        for result in [&west, &east] {
            assert!(result.passed(), "{}: {:?}", scenario.name(), result.audit.findings);
            assert!(result.completed > 0 && result.failed == 0 && result.lost == 0, "{}", scenario.name());
        }
        let merged = merge(&[out.path().join("west"), out.path().join("east")]).unwrap();
        assert_eq!(merged["completed"], west.completed + east.completed);
        assert_eq!(merged["merged_from"], 2);
        assert_eq!(merged["audit"]["ok"], true);
        let findings = merged["validity"]["findings"].to_string();
        assert!(!findings.contains("more than one of the results"), "{findings}");
        let names: Vec<_> = merged["audit"]["positions"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 6, "the positions of both: {names:?}");
    }
}

#[test]
fn the_same_instance_twice_is_noticed() {
    let out = tempfile::tempdir().unwrap();
    // Both claim the same parties. Whoever comes second finds them at the other's DFSPs, and says so before any load.
    let results = beside_each_other(Scenario::Lookups, out.path(), [Some(3), Some(3)]);
    let refused = results.into_iter().filter_map(Result::err).collect::<Vec<_>>();
    assert!(refused.iter().any(|error| error.contains("is it registered?")), "{refused:?}");
}
