use super::*;

/// Bodies end where they belong, whoever moves them, and other work ends with its turn.
fn works<S: Loops>(make: impl FnOnce(Pair) -> Result<S>) {
    let Ok((pair, _)) = Pair::choose() else { return eprintln!("skipped: needs two cpus") };
    pair.bind_main().unwrap();
    let mut looper = Looper::new(make(pair).unwrap(), pair);
    for bodies in [1, 2, 3, 129] {
        let request = Request::NBody { bodies, busy: 0 };
        let samples = looper.answer(request).unwrap().unwrap();
        assert!(samples.len() >= HOT.least, "{} samples", samples.len());
    }
    for busy in [1, 4] {
        let request = Request::NBody { bodies: 2, busy };
        assert_eq!(looper.answer(request).unwrap().unwrap().len(), WINDOWS);
    }
    assert_eq!(looper.answer(Request::ForkCall).unwrap(), None);
}

#[test]
fn every_subject_divides_loops() {
    // In threads of their own: each binds itself, and rayon keeps its maker.
    let subjects: &[fn()] = &[
        || works(kumiki::Broadcast::new),
        || works(kumiki::ForEach::new),
        || works(kumiki::Met::new),
        || works(rayon::Divided::new),
        || works(rayon::Halves::new),
        || works(|_| Ok(Sequential)),
        #[cfg(feature = "peers")]
        || works(forkunion::Static::new),
        #[cfg(feature = "peers")]
        || works(forkunion::Dynamic::new),
        #[cfg(feature = "peers")]
        || works(|_| Ok(openmp::Static)),
        #[cfg(feature = "peers")]
        || works(|_| Ok(openmp::Dynamic)),
        #[cfg(feature = "peers")]
        || works(|_| Ok(openmp::Met)),
    ];
    for &subject in subjects {
        std::thread::spawn(subject).join().unwrap();
    }
}

/// Forgets the last task of each loop.
struct Forgetful;

impl Loops for Forgetful {
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        (1..n).for_each(task);
    }
}

#[test]
fn a_task_that_was_left_out_is_noticed() {
    let error = checked(&mut Forgetful, 8).unwrap_err();
    assert_eq!(error.to_string(), "8 bodies are not where a plain loop moves them");
}

#[test]
fn halves_are_all_of_it() {
    for n in [0, 1, 2, 7, 512] {
        assert_eq!(half(n, 0).chain(half(n, 1)).collect::<Vec<_>>(), (0..n).collect::<Vec<_>>());
    }
}

#[test]
fn other_work_takes_both_cpus_and_ends() {
    let Ok((pair, _)) = Pair::choose() else { return eprintln!("skipped: needs two cpus") };
    let others = Others::beside(pair, 3).unwrap();
    let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/status"));
    let pids = others.pids();
    assert_eq!(pids.len(), 3);
    for (pid, cpu) in pids.iter().zip([pair.helper, pair.main, pair.helper]) {
        let status = status(*pid).unwrap();
        assert!(status.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{status}");
    }
    drop(others);
    assert!(pids.iter().all(|pid| status(*pid).is_err()));
}
