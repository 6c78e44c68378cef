//! The core's own clock, as it is at this moment.
//!
//! The time stamp counter runs at a constant rate; the core does not. Boost,
//! heat, the neighbours of a virtual machine move it by some percent within
//! seconds, and with it everything that is measured. No counter of cycles can
//! be read from user mode everywhere, so a chain of operations is timed whose
//! length in cycles is known: each multiplication needs the result of the one
//! before, and takes three cycles on every x86-64 core since 2008 (Agner Fog,
//! "Instruction tables", `IMUL r64, r64`; a chain of additions would not do,
//! some cores fold those at renaming).

use std::arch::asm;

use crate::clock::Clock;

/// Cycles from operand to result.
const LATENCY: f64 = 3.0;
/// Multiplications in one turn of the loop, so that the loop itself, which runs
/// beside the chain, never decides.
const UNROLLED: u64 = 16;
/// Turns of a chain: some 48,000 cycles.
const TURNS: u64 = 1000;
/// Turns of a short one: some 2,400 cycles, in which a clock's steps of 10 ns are 1 %.
const FEW_TURNS: u64 = 50;
/// Chains of which the shortest counts: interrupts, other tasks and a hypervisor
/// only ever make one longer, and on a busy cpu they hit more than half of them.
const CHAINS: usize = 5;
/// Number of short chains: right after a system call the first took a quarter longer.
const FEW_CHAINS: usize = 4;

/// Time of one core cycle now, nanoseconds. Takes about 60 µs.
pub fn core_cycle_ns(clock: &Clock) -> f64 {
    shortest(clock, CHAINS, TURNS)
}

/// Time of one core cycle now, nanoseconds. Takes about 4 µs, in which an interrupt may fall.
pub fn core_cycle_in_passing_ns(clock: &Clock) -> f64 {
    shortest(clock, FEW_CHAINS, FEW_TURNS)
}

fn shortest(clock: &Clock, chains: usize, turns: u64) -> f64 {
    (0..chains).map(|_| chain(clock, turns)).fold(f64::INFINITY, f64::min)
}

/// Time of a cycle of so many turns, nanoseconds.
fn chain(clock: &Clock, turns: u64) -> f64 {
    let start = clock.start();
    multiply(turns);
    let end = clock.end();
    let cycles = LATENCY * (UNROLLED * turns) as f64;
    (clock.between(start, end) - clock.read_cost_ns()).max(0.0) / cycles
}

fn multiply(turns: u64) {
    // SAFETY: only registers that are declared are changed, no memory.
    unsafe {
        asm!(
            "2:",
            ".rept 16",
            "imul {x}, {x}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            x = inout(reg) 3_u64 => _,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_runs_at_some_gigahertz() {
        let clock = Clock::new();
        // Of some short ones the least, as of the long ones.
        let short = (0..100).map(|_| core_cycle_in_passing_ns(&clock)).reduce(f64::min);
        for ns in [core_cycle_ns(&clock), short.unwrap()] {
            // Between 100 GHz and 10 MHz: the unit is right, whatever the machine.
            assert!((0.01..100.0).contains(&ns), "{ns}");
        }
    }
}
