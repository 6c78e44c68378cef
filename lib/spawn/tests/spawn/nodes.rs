//! The servers that a process's threads share: one for each NUMA node on which they run.

use kumiki_spawn::start_server;
use kumiki_sys::affinity;
use kumiki_sys::topology::Topology;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::child::in_a_child;
use crate::faults::servers;

/// A cpu of each node that this process may use.
fn cpus() -> Vec<usize> {
    let allowed = affinity::current().unwrap();
    let nodes = Topology::cpus_of_nodes().into_iter();
    let mut cpus: Vec<usize> =
        nodes.filter_map(|cpus| cpus.intersection(&allowed).first()).collect();
    if cpus.is_empty() {
        cpus.extend(allowed.first());
    }
    cpus
}

#[test]
fn threads_of_a_node_share_one() {
    in_a_child("nodes::threads_of_a_node_share_one", || {
        let cpus = cpus();
        for _ in 0..2 {
            for (node, cpu) in cpus.iter().enumerate() {
                let before = servers().len();
                let _bound = affinity::bind(*cpu).unwrap();
                start_server().unwrap();
                assert_eq!(servers().len(), before.max(node + 1));
            }
        }
        println!("{} nodes, {} servers", cpus.len(), servers().len());
    });
}

/// A memory file cannot be made any more.
#[test]
fn where_none_can_be_started_that_of_another_node_is_asked() {
    in_a_child("nodes::where_none_can_be_started_that_of_another_node_is_asked", || {
        let cpus = cpus();
        {
            let _bound = affinity::bind(cpus[0]).unwrap();
            start_server().unwrap();
        }
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Fsize, none).unwrap();
        for cpu in &cpus {
            let _bound = affinity::bind(*cpu).unwrap();
            start_server().unwrap();
            assert_eq!(servers().len(), 1);
        }
        println!("{} nodes", cpus.len());
    });
}
