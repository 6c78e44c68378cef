//! The core's own clock, as it is at this moment.
//!
//! The counter of time runs at a constant rate; the core does not. Boost,
//! heat, the neighbours of a virtual machine move it by some percent within
//! seconds, and with it everything that is measured. No counter of cycles can
//! be read from user mode everywhere, so a chain of operations is timed whose
//! length in cycles is known, as each needs the result of the one before.
//!
//! On x86-64 they are multiplications, of three cycles on every core since 2008
//! (Agner Fog, "Instruction tables", `IMUL r64, r64`; a chain of additions would
//! not do, some cores fold those at renaming). On aarch64 they are additions of
//! two registers, of one cycle on every core (Arm's Software Optimization Guides,
//! "Arithmetic, basic"); multiplications take three to five there.

use std::arch::asm;

use crate::clock::Clock;

/// Cycles of one turn of the loop: so many operations that the loop itself, which runs
/// beside the chain, never decides.
const TURN: u64 = 48;
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
    chained(turns);
    let end = clock.end();
    let cycles = (TURN * turns) as f64;
    (clock.between(start, end) - clock.read_cost_ns()).max(0.0) / cycles
}

/// 16 operations of three cycles a turn.
#[cfg(target_arch = "x86_64")]
fn chained(turns: u64) {
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

/// 48 operations of one cycle a turn.
#[cfg(target_arch = "aarch64")]
fn chained(turns: u64) {
    // SAFETY: only registers that are declared are changed, no memory.
    unsafe {
        asm!(
            "2:",
            ".rept 48",
            "add {x}, {x}, {y}",
            ".endr",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
            x = inout(reg) 3_u64 => _,
            y = in(reg) 5_u64,
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
