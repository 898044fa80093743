//! A hub of several services and processes: each message goes to its own, metrics and processes are added up.

mod toy;

use std::process::{Child, Command};

use toy::{Part, Toy, Vice};
use upesi_lab::{LabError, LabResult, RunOptions, Scenario, TargetHub};

const PARTS: [Part; 4] = [Part::Lookups, Part::Quotes, Part::Transfers, Part::Admin];

/// Ends a process that a test started.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One run of payments against a hub in parts.
fn run(change: impl FnOnce(&Toy, &mut TargetHub)) -> Result<LabResult, LabError> {
    let toy = Toy::start_parts(Vice::None, &PARTS);
    let mut target = TargetHub {
        quotes_url: Some(toy.url(Part::Quotes)),
        transfers_url: Some(toy.url(Part::Transfers)),
        ..TargetHub::at(toy.url(Part::Lookups), toy.url(Part::Admin))
    };
    change(&toy, &mut target);
    let options =
        RunOptions { scenario: Scenario::Payments, target: Some(target), parties: 20, ..toy.options() };
    let result = upesi_lab::run(&options);
    toy.end();
    result
}

#[test]
fn every_service_and_process_of_a_hub_is_driven_and_measured() {
    let other = Ended(Command::new("sleep").arg("600").spawn().unwrap());
    let pids = [std::process::id(), other.0.id()];
    let result = run(|toy, target| {
        // Base URLs, or the URL of the text itself.
        target.metrics_urls = [Part::Lookups, Part::Quotes].map(|part| toy.url(part)).into();
        target.metrics_urls.push(toy.url(Part::Transfers) + "/metrics");
        target.pids = pids.to_vec();
    })
    .unwrap();
    // A service refuses what is not its own.
    assert!(result.passed() && result.completed > 0 && result.failed == 0, "{:?}", result.audit.findings);
    for name in ["lookup", "lookup_answer", "quote", "quote_answer", "prepare", "fulfil"] {
        let stage = result.stages.iter().find(|stage| stage.stage == name);
        assert!(stage.is_some_and(|stage| stage.operations > 0), "{name}: {:?}", result.stages);
    }
    let names: Vec<&str> = result.processes.iter().map(|row| row.name.as_str()).collect();
    let sleeping = format!("hub, sleep {}", pids[1]);
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names[0] == "hub" && names[1].ends_with(&format!(" {}", pids[0])), "{names:?}");
    assert_eq!(names[2..], [sleeping.as_str(), "lab"]);
    let resident = |index: usize| result.processes[index].rss_mb;
    assert!(resident(0) > resident(1) && resident(2) > Some(0.0), "{:?}", result.processes);
    let reached = result.environment.hub.as_ref().unwrap();
    assert_eq!((reached.metrics.len(), reached.pids.as_slice()), (3, &pids[..]));
    assert!(reached.lookups != reached.quotes && reached.quotes != reached.transfers);
}

#[test]
fn metrics_and_processes_that_were_named_must_be_there() {
    let error = run(|toy, target| target.metrics_urls = vec![toy.url(Part::Admin)]).unwrap_err();
    assert!(matches!(error, LabError::Metrics(_)), "{error}");
    assert!(error.to_string().ends_with("it answers 404"), "{error}");
    let error = run(|toy, target| target.metrics_urls = vec![toy.url(Part::Admin) + "/participants"]);
    assert!(error.unwrap_err().to_string().contains("no metrics text"));
    let error = run(|_, target| target.pids = vec![u32::MAX]).unwrap_err();
    assert!(matches!(error, LabError::Process(_)), "{error}");
}
