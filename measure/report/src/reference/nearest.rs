//! Which reference's machine is most like another.

use std::cmp::Reverse;

use kumiki_measure::schema::Machine;

use super::{Reference, all};

/// Every reference, the one with the most similar machine first: the same
/// processor counts most, then its maker, then whether a hypervisor is below,
/// then the kernel.
pub fn nearest(machine: &Machine) -> Vec<&'static Reference> {
    let mut out: Vec<&Reference> = all().iter().collect();
    out.sort_by_key(|reference| Reverse(likeness(machine, &reference.results().machine)));
    out
}

/// Likeness in the order of importance for the figures; the kernel by its newness.
fn likeness(a: &Machine, b: &Machine) -> (bool, bool, bool, bool, Reverse<u32>) {
    let maker = |m: &Machine| m.cpu_model.split_whitespace().next().map(str::to_owned);
    (
        a.cpu_model == b.cpu_model,
        maker(a) == maker(b),
        a.hypervisor.is_some() == b.hypervisor.is_some(),
        a.hypervisor == b.hypervisor,
        Reverse(kernel(a).abs_diff(kernel(b))),
    )
}

/// `6.18.44-cloud` as 6018.
fn kernel(machine: &Machine) -> u32 {
    let mut parts = machine.kernel.split(|c: char| !c.is_ascii_digit());
    let mut part = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0_u32);
    let (major, minor) = (part(), part());
    major.saturating_mul(1000).saturating_add(minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(cpu: &str, hypervisor: Option<&str>, kernel: &str) -> Machine {
        let (cpu_model, kernel) = (cpu.to_owned(), kernel.to_owned());
        Machine {
            cpu_model,
            kernel,
            hypervisor: hypervisor.map(str::to_owned),
            ..Machine::default()
        }
    }

    #[test]
    fn processor_then_maker_then_hypervisor_then_kernel() {
        let own = machine("AMD EPYC 9", Some("KVM"), "6.18.4");
        let nearer_first = [
            machine("AMD EPYC 9", Some("KVM"), "6.18.4"),
            machine("AMD EPYC 9", Some("KVM"), "6.12.1"),
            machine("AMD EPYC 9", Some("Xen"), "6.18.4"),
            machine("AMD EPYC 9", None, "6.18.4"),
            machine("AMD Ryzen", Some("KVM"), "6.18.4"),
            machine("Intel", Some("KVM"), "6.18.4"),
            machine("Intel", None, "5.10"),
        ];
        let all: Vec<_> = nearer_first.iter().map(|other| likeness(&own, other)).collect();
        assert!(all.is_sorted_by(|a, b| a > b), "{all:?}");
    }

    #[test]
    fn every_reference_is_there_and_its_own_nearest() {
        for reference in all() {
            let sorted = nearest(&reference.results().machine);
            assert_eq!(sorted.len(), all().len());
            let own = &reference.results().machine;
            assert_eq!(sorted[0].results().machine.cpu_model, own.cpu_model);
        }
    }
}
