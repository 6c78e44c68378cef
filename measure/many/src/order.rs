//! The order in which cpus take part: the nearest first, a core's other hardware threads last.

use kumiki_sys::cpuset::CpuSet;
use kumiki_sys::topology::Topology;

/// All of `allowed`: the smallest number, then whichever is nearest to it, a thread a core as long as there are cores.
pub(crate) fn order(topology: &Topology, allowed: &CpuSet) -> Vec<usize> {
    let Some(first) = allowed.first() else { return Vec::new() };
    let mut order = vec![first];
    let mut left = allowed.clone();
    left.remove(first);
    while !left.is_empty() {
        let mut of_new_cores = left.clone();
        for taken in &order {
            topology.siblings(*taken).iter().for_each(|cpu| _ = of_new_cores.remove(cpu));
        }
        let among = if of_new_cores.is_empty() { &left } else { &of_new_cores };
        let Some(next) = topology.nearest(first, among).or_else(|| among.first()) else { break };
        left.remove(next);
        order.push(next);
    }
    order
}

/// Sizes to measure: 1, 2, 4, … and all.
pub(crate) fn sizes(cpus: usize) -> Vec<usize> {
    let mut sizes: Vec<_> = std::iter::successors(Some(1), |size| Some(size * 2))
        .take_while(|size| *size < cpus)
        .collect();
    sizes.push(cpus);
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_is_there_once() {
        let allowed = kumiki_sys::affinity::current().unwrap();
        let mut order = order(&Topology::read().unwrap(), &allowed);
        assert_eq!(order.len(), allowed.len());
        order.sort_unstable();
        order.dedup();
        assert_eq!(order.len(), allowed.len());
    }

    #[test]
    fn the_last_size_is_all_of_them() {
        assert_eq!(sizes(1), [1]);
        assert_eq!(sizes(4), [1, 2, 4]);
        assert_eq!(sizes(6), [1, 2, 4, 6]);
    }
}
