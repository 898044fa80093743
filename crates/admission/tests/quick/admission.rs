//! Priorities of admission.

use upesi_admission::{Admission, AdmissionConfig, AdmissionInterval, Class, REQUEST, Refusal, SourceId};

const TARGET_US: u32 = 2_000;
const PAYER: SourceId = SourceId(1);

fn config() -> AdmissionConfig {
    AdmissionConfig { delay_target_us: TARGET_US, quota: None, quota_per_source: None, sources_max: 64 }
}

fn observed(delay_us: u32, taken: [u64; 2]) -> AdmissionInterval {
    AdmissionInterval { delay_us: Some(delay_us), taken, intervals: 1 }
}

/// A hub that has been slow for a while after a good time.
fn overloaded(delay_us: u32, intervals: u32) -> Admission {
    let mut admission = Admission::new(config());
    for _ in 0..50 {
        admission.end_interval(observed(0, [100, 100]));
    }
    for _ in 0..intervals {
        admission.end_interval(observed(delay_us, [100, 100]));
    }
    admission
}

/// The number of accepted requests of a thousand in one interval.
fn taken(admission: &mut Admission, class: Class) -> usize {
    (0..1_000).filter(|_| admission.ask(class, PAYER).is_ok()).count()
}

#[test]
fn hub_without_delay_accepts_everything() {
    let mut admission = overloaded(TARGET_US, 100);
    for class in Class::ALL {
        assert!(admission.is_open(class));
        assert_eq!(taken(&mut admission, class), 1_000);
    }
    assert_eq!(admission.limit(), None);
}

#[test]
fn overloaded_hub_rejects_new_work_first() {
    let mut admission = overloaded(2 * TARGET_US, 3);
    assert!(!admission.is_open(Class::New) && admission.is_open(Class::Finishing));
    // At most the saved-up requests.
    assert!(taken(&mut admission, Class::New) <= 500);
    assert_eq!(admission.ask(Class::New, PAYER), Err(Refusal::Overload));
    assert_eq!(taken(&mut admission, Class::Finishing), 1_000);
}

#[test]
fn finishing_work_is_rejected_only_if_all_new_work_is() {
    let mut admission = overloaded(10 * TARGET_US, 200);
    assert!(admission.limits_finishing());
    assert_eq!(taken(&mut admission, Class::New), 0);
    let finished = taken(&mut admission, Class::Finishing);
    assert!(finished > 0 && finished < 1_000, "{finished}");
    for _ in 0..200 {
        admission.end_interval(observed(0, [0, 0]));
    }
    assert!(admission.is_open(Class::New) && admission.is_open(Class::Finishing));
}

#[test]
fn quota_rejects_requests_above_it_without_delay() {
    let config = AdmissionConfig { delay_target_us: 0, quota: Some(10 * REQUEST), ..config() };
    let mut admission = Admission::new(config);
    assert!(!admission.is_open(Class::New) && admission.is_open(Class::Finishing));
    let mut total = 0;
    for _ in 0..100 {
        total += taken(&mut admission, Class::New);
        admission.end_interval(observed(u32::MAX, [0, 0]));
    }
    assert!((1_000..1_210).contains(&total), "{total}");
    assert_eq!(admission.limit(), Some(10 * REQUEST));
}

#[test]
fn rejection_by_a_source_rate_has_its_own_reason() {
    let config = AdmissionConfig { quota_per_source: Some(REQUEST), ..config() };
    let mut admission = Admission::new(config);
    assert_eq!(taken(&mut admission, Class::New), 50);
    assert_eq!(admission.ask(Class::New, PAYER), Err(Refusal::Rate));
    assert_eq!(admission.ask(Class::New, SourceId(2)), Ok(()));
    assert_eq!(admission.ask(Class::Finishing, PAYER), Ok(()));
}

#[test]
fn decisions_are_deterministic() {
    let run = || {
        let mut admission = overloaded(3 * TARGET_US, 10);
        let answers: Vec<bool> =
            (0..5_000).map(|index| admission.ask(Class::New, SourceId(index % 7)).is_ok()).collect();
        (admission, answers)
    };
    assert_eq!(run(), run());
}
