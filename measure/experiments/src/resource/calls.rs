//! A call to another core, of which the paper says that it remains to be designed: one at
//! a time, and many under way.

use std::collections::VecDeque;

use kumiki_measure::case::{Case, Place, Workload};
use kumiki_measure::meter::{Meter, Sample};
use kumiki_measure::{Error, Result};
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Answer, Handle, Interface};

use super::refused;
use crate::{Widened, partner};

const ABOUT: &str = "a counter of the other core counted up through interface control, with so \
                     many calls under way";

pub(super) fn cases() -> Vec<Case> {
    let case = |in_flight: usize| {
        let case =
            Case::new("resource.call", ABOUT, move |place| ResourceCalls::new(place, in_flight));
        case.with("in_flight", in_flight).two_cpus()
    };
    [1, 2, 8, 32].map(case).into()
}

struct Counter(u64);

impl Kind for Counter {
    const NAME: &'static str = "counter";
    type Spec = ();
    type Pool = ();

    fn pool(_: kumiki_resource::Place) -> kumiki_resource::Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> kumiki_resource::Result<Counter> {
        Ok(Counter(0))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: self.0.to_string(), bytes: 8 }
    }
}

struct ResourceCalls {
    counter: Handle<Counter>,
    in_flight: usize,
    under_way: VecDeque<Answer<u64>>,
    // After the answers, which wait for its manager.
    interface: Interface,
}

fn count(counter: &mut Counter, (): &mut ()) -> u64 {
    counter.0 += 1;
    counter.0
}

impl ResourceCalls {
    fn new(place: &Place, in_flight: usize) -> Result<Self> {
        let partner = partner(place)?;
        let _widened = Widened::to([place.cpu, partner])?;
        let interface = Interface::builder()
            .kind::<Counter>()
            .policy(crate::chosen())
            .cores([partner])
            .per_core();
        let interface = interface.map_err(refused)?;
        let counter = interface.create::<Counter>(interface.places()[0], Some("calls"), ());
        let counter = counter.map_err(refused)?;
        Ok(ResourceCalls {
            counter,
            in_flight,
            under_way: VecDeque::with_capacity(in_flight),
            interface,
        })
    }

    fn run(&mut self, iterations: u64) -> kumiki_resource::Result<u64> {
        let ResourceCalls { counter, in_flight, under_way, interface } = self;
        let mut last = 0;
        for _ in 0..iterations {
            if *in_flight == 1 {
                last = interface.with(counter, count)?;
                continue;
            }
            if under_way.len() == *in_flight
                && let Some(answer) = under_way.pop_front()
            {
                answer.wait()?;
            }
            under_way.push_back(interface.start(counter, count)?);
        }
        for answer in under_way.drain(..) {
            last = answer.wait()?;
        }
        Ok(last)
    }
}

impl Workload for ResourceCalls {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        // The manager may sleep.
        let before = self.run(1).map_err(refused)?;
        let mut after = 0;
        let sample = meter.time(|| {
            after = self.run(iterations).map_err(refused)?;
            Ok(())
        })?;
        if after - before != iterations {
            let text = format!("{iterations} calls counted up by {}", after - before);
            return Err(Error::Invalid(text));
        }
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use kumiki_sys::affinity;
    use kumiki_sys::clock::Clock;

    use super::*;

    #[test]
    fn every_call_counts() {
        let cpus: Vec<usize> = affinity::current().unwrap().iter().collect();
        let [cpu, partner, ..] = cpus[..] else { return eprintln!("skipped: needs two cpus") };
        let place = Place { cpu, partner: Some(partner), scratch: std::env::temp_dir() };
        for in_flight in [1, 2, 32] {
            let _back = Widened::to([cpu]).unwrap();
            let mut calls = ResourceCalls::new(&place, in_flight).unwrap();
            let meter = Meter::new(Clock::new());
            for iterations in [1, 100] {
                calls.sample(iterations, &meter).unwrap();
            }
        }
    }
}
