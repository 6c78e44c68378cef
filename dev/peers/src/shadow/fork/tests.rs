use super::*;

/// Two cpus, if this machine has them.
fn pair() -> Option<Pair> {
    let pair = Pair::choose().ok().map(|(pair, _)| pair);
    if pair.is_none() {
        eprintln!("skipped: needs two cpus");
    }
    pair
}

/// Jobs run where they should, results come back, sums are right.
fn works<S: Fork>(make: impl FnOnce(Pair) -> Result<S> + Send) {
    let Some(pair) = pair() else { return };
    pair.bind_main().unwrap();
    let mut subject = make(pair).unwrap();
    check(&mut subject, pair).unwrap();
    let (one, two) = (String::from("one"), String::from("two"));
    assert_eq!(subject.both(|| one.as_str(), || two.len()), ("one", 3));
    assert_eq!(subject.split(|| one.len(), || two.as_str()), (3, "two"));
    let data: Vec<f32> = (0..40_000).map(|i| (i % 100) as f32).collect();
    for n in [0, 1, 2, 1001, data.len()] {
        assert_eq!(subject.sum(&data[..n]), sum(&data[..n]));
    }
    if let Some(ns) = subject.fork_call(&Stopwatch::new()) {
        assert!(ns.is_finite() && ns >= 0.0);
    }
}

#[test]
fn main_does_not_wait_for_ever_for_a_helper_that_does_not_come() {
    // Main makes both, one after the other.
    assert_eq!(forced(&mut sequential::Sequential, || 1, || 2), (1, 2));
}

#[test]
fn every_subject_forks_and_joins() {
    // In threads of their own: each binds itself, and rayon keeps its maker.
    let subjects: [fn(); 12] = [
        || works(kumiki::Kumiki::new),
        || works(kumiki::Kumiki::bound),
        || works(team::KumikiTeam::new),
        || works(|_| Ok(sequential::Sequential)),
        || works(pthread::Pthread::new),
        || works(std_scope::StdScope::new),
        || works(crossbeam::CrossbeamScope::new),
        || works(rayon::RayonJoin::new),
        || works(rayon::RayonScope::new),
        || works(tokio::Tokio::new),
        || works(futex::Futex::new),
        || works(park::Park::new),
    ];
    for subject in subjects {
        std::thread::spawn(subject).join().unwrap();
    }
}
