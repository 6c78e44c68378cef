//! Parallel system calls inside the kernel, measured in machines of the lab by `dev/bench/`, and
//! what they promise of it.

use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kumiki_lab::{Accelerator, Cache, Config, Machine, Talk, kbuild};
use kumiki_measure::stats::describe;

use super::judge::{Figures, print_rows};
use super::{BenchOutcome, Must, Row, promises};
use crate::debian;
use crate::run::{cargo, root, run, target_folder};

/// One start may have a slow cpu for as long as it runs.
const STARTS: usize = 3;
/// Turns of each way in each start.
const ROUNDS: &str = "25";
const KERNEL: &str = "6.1";

/// Measures in machines; with `judge` says whether the promises hold.
pub(super) fn lab(judge: bool) -> Result<BenchOutcome> {
    debian::install("lab")?;
    run(&mut cargo("build --profile dist --locked --package kumiki-cli --package kumiki-bench"))?;
    let programs = target_folder()?.join("dist");
    let starts = (0..STARTS).map(|_| measured(&programs)).collect::<Result<Vec<_>>>()?;
    let mut outcome = together(starts)?;
    print_rows(&outcome.rows);
    if judge {
        outcome.musts = musts(&outcome.rows);
    }
    Ok(outcome)
}

/// Output of the bench in a machine of its own.
fn measured(programs: &Path) -> Result<BenchOutcome> {
    let talk = Talk::to(&|text| eprintln!("{text}"));
    let cache = Cache::of_user()?;
    let kernel = KERNEL.parse::<kumiki_lab::KernelName>()?.get(&cache, talk)?;
    let modules = kbuild::build(&cache, &kernel, &root().join("node/kernel"), "parasc", talk)?;
    let module = modules.iter().find(|path| path.ends_with("parasc.ko"));
    let module = module.context("node/kernel/parasc builds no parasc.ko")?;
    let config = Config {
        kernel: KERNEL.parse()?,
        modules: vec![module.as_path().into()],
        // A hypervisor would make an entry as cheap as a processor does: another figure.
        accelerator: Accelerator::Tcg,
        ..Config::new(programs.join("kumiki"))
    };
    let machine = Machine::start(&cache, &config, talk)?;
    machine.guest().put(&programs.join("kumiki-bench"), Path::new("/root/kumiki-bench"))?;
    let mut json = Vec::new();
    let bench = machine.command("/root/kumiki-bench").args(["lab", ROUNDS]).spawn()?;
    let outcome = bench.pass(io::empty(), &mut json, io::stderr())?;
    ensure!(outcome.faults.is_empty(), "the machine's kernel log: {}", outcome.faults.join("\n"));
    ensure!(outcome.exit.code() == 0, "`kumiki-bench lab` failed with {}", outcome.exit.code());
    machine.shut_down(0)?;
    BenchOutcome::read(&json).context("result of `kumiki-bench lab`")
}

/// Of each figure the median of all starts, and each start's.
fn together(starts: Vec<BenchOutcome>) -> Result<BenchOutcome> {
    let mut starts = starts.into_iter();
    let mut all = starts.next().context("a start")?;
    all.rows.iter_mut().for_each(|row| row.instances = vec![row.median]);
    for other in starts {
        ensure!(all.rows.len() == other.rows.len(), "two starts differ in what they measured");
        for (row, more) in all.rows.iter_mut().zip(other.rows) {
            ensure!(
                (&row.case, &row.subject) == (&more.case, &more.subject),
                "two starts differ in what they measured"
            );
            row.instances.push(more.median);
            row.p99 = row.p99.max(more.p99);
        }
    }
    for row in &mut all.rows {
        let of = || row.instances.iter().copied();
        row.median = describe::median_of(of());
        row.ci = [of().fold(f64::INFINITY, f64::min), of().fold(0.0, f64::max)];
    }
    let of_loop: Vec<(String, f64)> = all
        .rows
        .iter()
        .filter(|row| row.subject == "loop")
        .map(|row| (row.case.clone(), row.median))
        .collect();
    for row in &mut all.rows {
        row.base = of_loop.iter().find(|(case, _)| *case == row.case).map(|(_, median)| *median);
    }
    Ok(all)
}

fn musts(rows: &[Row]) -> Vec<Must> {
    promises::musts("lab", &Figures(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Subjects with their limits ÷ another's, as the file has them, for each case.
    const LIMITS: [(&str, &str, [f64; 3]); 3] = [
        ("kumiki/kernel", "kumiki/user", [0.65, 0.93, 1.03]),
        ("kumiki/kernel_helped", "kumiki/user_helped", [0.65, 0.92, 1.03]),
        ("kumiki/kernel_alone", "loop", [0.75, 0.92, 1.0]),
    ];
    const CASES: [&str; 3] = ["getppid", "pread", "statx"];

    fn start(factor: f64) -> BenchOutcome {
        let mut rows = Vec::new();
        for (at, case) in CASES.into_iter().enumerate() {
            let mut add = |subject: &str, median: f64| {
                let median = median * factor;
                let (case, subject) = (case.to_owned(), subject.to_owned());
                rows.push(Row { case, subject, median, p99: median, ..Row::default() });
            };
            for (subject, other, limits) in LIMITS {
                add(subject, 100.0 * limits[at]);
                add(other, 100.0);
            }
        }
        BenchOutcome { machine: Default::default(), rows, musts: Vec::new() }
    }

    #[test]
    fn limits_themselves_hold_whatever_a_start_is_slowed_down_by_and_each_can_break() {
        let all = together([1.0, 3.0, 0.5].map(start).into()).unwrap();
        assert_eq!(all.rows[0].median, 65.0);
        assert_eq!(all.rows[0].instances, [65.0, 195.0, 32.5]);
        assert!(musts(&all.rows).iter().all(|must| must.holds), "{:?}", musts(&all.rows));
        for (at, (subject, ..)) in LIMITS.iter().enumerate() {
            let mut rows = together(vec![start(1.0)]).unwrap().rows;
            rows.iter_mut().filter(|row| row.subject == *subject).for_each(|row| {
                row.instances[0] *= 1.02;
            });
            let broken: Vec<_> = musts(&rows).into_iter().map(|must| must.holds).collect();
            let wanted: Vec<_> = (0..9).map(|must| must / 3 != at).collect();
            assert_eq!(broken, wanted);
        }
        assert!(musts(&[]).iter().all(|must| !must.holds));
        let short = BenchOutcome { rows: Vec::new(), ..start(1.0) };
        assert!(together(vec![start(1.0), short]).is_err());
    }
}
