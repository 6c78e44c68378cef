//! What teams of a size that nobody has at hand would take, for `kumiki many` to be held against.

use crate::machine::Machine;
use crate::place::Place;
use crate::protocol::PROTOCOLS;

/// Operations that `kumiki many` measures.
const ASKED: [&str; 2] = ["broadcast", "barrier"];
const SIZES: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
/// Transfers between two groups, in ns: as near as within one, between two groups, and between two packages.
const FAR: [f64; 3] = [45.0, 200.0, 550.0];

/// Prints a row each: protocol, cpus, raw round trip between the farthest two in ns, time in ns.
pub(crate) fn predict() {
    let raw = PROTOCOLS.iter().find(|protocol| protocol.name == "raw").expect("it is one");
    for protocol in PROTOCOLS.iter().filter(|protocol| ASKED.contains(&protocol.name)) {
        for cpus in SIZES {
            for far in FAR {
                // A machine of one group has no others to be far from.
                let machine = match cpus {
                    ..=8 => Machine::flat(cpus, far),
                    _ => Machine { far, ..Machine::of(cpus) },
                };
                let ns = (protocol.run)(&Place::Simulated(machine)).ns;
                let trip = (raw.run)(&Place::Simulated(Machine::flat(2, far))).ns;
                println!("{} {cpus} {trip:.0} {ns:.0}", protocol.name);
            }
        }
    }
}
