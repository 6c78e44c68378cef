//! The papers' experiments on machines of more cpus than people have at hand: two
//! sockets, cores of two hardware threads, two NUMA nodes, holes among the cpus online,
//! and a process that may use some of them only. Emulated, so times say nothing: who ran
//! what, on which cpu and how often does.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Skipped: the machine has no module of ours, which `bench lab` loads, and its processor no
/// sleep that a process may have.
const SKIPPED: [&str; 4] =
    ["parasc.inside", "parasc.kernel", "parasc.kernel_steps", "shadow.idle_doze"];

/// A machine of so many cpus, half of them in each of two sockets and nodes. QEMU gives
/// Intel's processors, not AMD's, the topology of threads and caches that it is asked for.
fn shape(cpus: usize) -> Vec<String> {
    let half = cpus / 2;
    let words = format!(
        "-cpu max,vendor=GenuineIntel,l3-cache=on -smp {cpus},sockets=2,cores={},threads=2 \
         -object memory-backend-ram,id=m0,size=512M -object memory-backend-ram,id=m1,size=512M \
         -numa node,nodeid=0,cpus=0-{},memdev=m0 -numa node,nodeid=1,cpus={half}-{},memdev=m1",
        half / 2,
        half - 1,
        cpus - 1
    );
    let qemu = words.split(' ').map(|word| format!("--qemu={word}"));
    let own = ["lab", "run", "--memory", "1G", "--timeout", "1200", "--cpus"];
    own.map(str::to_owned).into_iter().chain([cpus.to_string()]).chain(qemu).collect()
}

/// The result of `measure` in a machine, after `before` was done there.
fn measured(cpus: usize, before: &str, measure: &str) -> Value {
    let script = format!(
        "set -e; {before}; {measure} --time 1 --json --db /tmp/results.db 2>/tmp/said \
         || {{ cat /tmp/said >&2; exit 1; }}"
    );
    // Of this test alone, so that a lab of the user's is left as it is.
    let runtime = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kumiki"));
    command.args(shape(cpus)).args(["--", "sh", "-c", &script]);
    let output = command.env("XDG_RUNTIME_DIR", runtime.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    serde_json::from_slice(&output.stdout).expect(&said)
}

/// Checks that every row was made, with whole samples, on these cpus alone; the rows.
fn checked<'a>(result: &'a Value, online: &[u64]) -> &'a [Value] {
    let skipped = result["skipped"].as_array().expect("a list");
    let runs = |case: &&Value| !SKIPPED.contains(&case["case"].as_str().expect("a name"));
    assert_eq!(skipped.iter().find(runs), None, "each experiment runs");
    assert_eq!(result["run"]["complete"], true);
    let rows = result["rows"].as_array().expect("rows");
    for row in rows {
        let cpus = row["cpus"].as_array().expect("cpus").iter().filter_map(Value::as_u64);
        let elsewhere: Vec<u64> = cpus.filter(|cpu| !online.contains(cpu)).collect();
        assert!(elsewhere.is_empty(), "{}: on {elsewhere:?} of {online:?}", row["case"]);
        let visits = row["visits"].as_array().expect("visits");
        let samples = visits.iter().map(|visit| visit["samples"].as_array().unwrap().len());
        assert_eq!(samples.sum::<usize>() as u64, row["n"].as_u64().unwrap(), "{}", row["case"]);
    }
    rows
}

/// What the pairs of cpus that were measured have in common; each ran where it says.
fn relations(rows: &[Value]) -> BTreeSet<String> {
    let pairs = rows.iter().filter(|row| row["case"] == "shadow.pair");
    let relation = |row: &Value| {
        let params = &row["params"];
        let named = [params["main_cpu"].clone(), params["helper_cpu"].clone()];
        assert_eq!(row["cpus"], Value::from(named.to_vec()), "{params}");
        params["relation"].as_str().expect("a word").to_owned()
    };
    pairs.map(relation).collect()
}

fn names(rows: &[Value]) -> BTreeSet<&str> {
    rows.iter().filter_map(|row| row["case"].as_str()).collect()
}

#[test]
fn every_experiment_runs_on_eight_cpus_with_holes() {
    let before = "for cpu in 3 5; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done";
    let online = [0, 1, 2, 4, 6, 7];
    let quick = measured(8, before, "kumiki measure --quick shadow parasc resource");
    assert_eq!(quick["machine"]["cpus"], 6);
    assert_eq!(quick["machine"]["numa_nodes"], 2);
    let rows = checked(&quick, &online);
    let common = ["one_core", "one_l3", "other_socket"].map(str::to_owned);
    assert_eq!(relations(rows), BTreeSet::from(common));
    let mut seen = names(rows);
    // In emulation all sizes would take an hour.
    let longer = "kumiki measure shadow.message shadow.chase shadow.threshold_both";
    let longer = measured(8, before, longer);
    seen.extend(names(checked(&longer, &online)));
    let calls = measured(8, before, "kumiki measure parasc.calls requests=10");
    seen.extend(names(checked(&calls, &online)));
    let listed = Command::new(env!("CARGO_BIN_EXE_kumiki"))
        .args(["measure", "ls", "--json", "shadow", "parasc", "resource"])
        .output()
        .unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let mut listed = names(listed.as_array().expect("cases"));
    for case in SKIPPED {
        assert!(listed.remove(case), "{case}: {listed:?}");
    }
    assert_eq!(seen, listed);
}

#[test]
fn who_may_use_some_of_sixteen_cpus_uses_those() {
    // Cpus 4 to 7 and 12 to 15: a half of each socket.
    let measure = "taskset f0f0 kumiki measure --quick shadow.pair resource.call";
    let result = measured(16, "true", measure);
    let rows = checked(&result, &[4, 5, 6, 7, 12, 13, 14, 15]);
    assert_eq!(result["machine"]["cpus"], 16);
    let common = ["one_core", "one_l3", "other_socket"].map(str::to_owned);
    assert_eq!(relations(rows), BTreeSet::from(common));
    let expected = ["resource.call", "shadow.pair"];
    assert_eq!(names(rows), BTreeSet::from(expected));
}
