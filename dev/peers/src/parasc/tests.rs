use super::*;

/// Every kind that `subject` is asked for comes out right, in every size.
fn works<S: Execute>(name: &str, make: impl Fn(Kind) -> Result<S>) {
    use crate::run::Plan;

    let plan = Parasc::new().unwrap();
    let scratch = Scratch::new(Path::new(&plan.argument()));
    for phase in plan.phases() {
        let batch = phase.case;
        if batch.n > 50 || !plan.asks(batch, name) {
            continue;
        }
        let mut subject = make(batch.kind).unwrap();
        let mut work = Work::new(batch, &scratch).unwrap();
        subject.expect(&work).unwrap();
        for round in 0..3 {
            work.before().unwrap();
            work.run::<0>(&mut subject);
            let outcome = work.check(S::PARENT);
            outcome.unwrap_or_else(|error| panic!("{name}: {batch:?}, {round}: {error:#}"));
        }
    }
}

fn pair() -> Pair {
    // Only names the cpus that threads may use, which can be the same.
    Pair::choose().map_or(Pair { main: 0, helper: 0 }, |(pair, _)| pair)
}

#[test]
fn kumiki_makes_every_call() {
    works("kumiki", |kind| kumiki::Kumiki::new(kind, pair()));
    works(plan::RUN, |kind| kumiki::Kumiki::in_batches(kind, pair()));
}

#[test]
fn a_loop_makes_every_call() {
    works("loop", |_| Ok(plain::Loop));
    works(plan::PLAIN, |_| Ok(plain::Loop));
    works(plan::LOOP_OF_LIBC, |_| Ok(plain::LibcLoop));
}

#[test]
fn tokio_makes_every_call() {
    works("tokio", |_| tokio::Tokio::new(pair()));
}

#[test]
fn rayon_makes_every_call() {
    works("rayon", |_| rayon::Rayon::new());
}

#[cfg(feature = "peers")]
#[test]
fn crossbeam_makes_every_call() {
    works("crossbeam", |_| crossbeam::Crossbeam::new());
}

#[cfg(feature = "peers")]
#[test]
fn every_ring_makes_every_call() {
    use ring::{Flavour, Ring};

    if let Err(error) = io_uring::IoUring::new(1) {
        eprintln!("skipped: io_uring is refused here: {error}");
        return;
    }
    let helper = pair().helper;
    for flavour in [Flavour::Default, Flavour::Defer, Flavour::Registered, Flavour::Sqpoll(helper)]
    {
        works("io_uring", |_| Ring::new(flavour));
    }
}

const STATX: Batch = Batch { kind: Kind::Statx, n: 3, instance: 0, plain: false };

/// Does nothing and says that all went well.
struct Liar;

impl Execute for Liar {
    unsafe fn execute(&mut self, _: &[Request], _: &mut [i64]) {}
}

#[test]
fn a_subject_that_does_nothing_is_noticed() {
    let plan = Parasc::new().unwrap();
    let scratch = Scratch::new(Path::new(&crate::run::Plan::argument(&plan)));
    let mut work = Work::new(STATX, &scratch).unwrap();
    work.run::<0>(&mut plain::Loop);
    work.check(None).unwrap();
    work.run::<0>(&mut Liar);
    assert!(work.check(None).is_err());
}
