//! Keys and values by a server on one cpu, asked by two threads on the other one.

mod load;
mod stores;
mod words;

use std::time::Duration;

use anyhow::Result;
use kumiki_measure::bench::Row;

use self::load::{Turn, fill, turn};
use self::words::Op;
use super::turns::{Subject, figure, interleaved};
use crate::pair::Pair;

const ROUNDS: usize = 7;
/// Commands that a client has under way at once; and for the slow tail, the same of all stores, in which time
/// each of the two threads sends so many: 50,000 commands a second in all, and 400,000.
const PIPELINES: [(usize, Duration); 2] =
    [(1, Duration::from_micros(40)), (16, Duration::from_micros(80))];

/// Cases of each operation: commands a second and the server's cpu time for one, while clients ask as fast as they
/// are answered; and the 99th percentile of how long they take at a fixed rate.
pub(super) const CASES: [&str; 6] =
    ["kv_get", "kv_get_p99", "kv_get_cpu", "kv_set", "kv_set_p99", "kv_set_cpu"];

/// All the cases.
pub(super) fn rows(pair: Pair) -> Result<Vec<Row>> {
    pair.bind_main()?;
    let stores = stores::all(pair)?;
    for (program, words) in &stores {
        fill(program.address, *words)?;
    }
    let mut rows = Vec::new();
    for (op, cases) in [Op::Get, Op::Set].into_iter().zip(CASES.chunks(3)) {
        for (pipeline, pace) in PIPELINES {
            let mut subjects: Vec<Subject<'_>> = Vec::new();
            for (program, words) in &stores {
                let measured = move || {
                    let begin = program.cpu_ns()?;
                    let what = (op, pipeline);
                    let Turn { commands, seconds, .. } = turn(program.address, *words, what, None)?;
                    let cpu_ns = (program.cpu_ns()? - begin) as f64;
                    let Turn { p99_ns, .. } = turn(program.address, *words, what, Some(pace))?;
                    Ok(vec![commands / seconds, p99_ns, cpu_ns / commands])
                };
                subjects.push((program.name, Box::new(measured)));
            }
            for (name, its) in interleaved(ROUNDS, &mut subjects)? {
                let rate = Row::rate((cases[0], name), "1/s", &figure(&its, 0), None);
                let p99 = Row::of((cases[1], name), "ns", &figure(&its, 1), None);
                let cpu = Row::of((cases[2], name), "ns", &figure(&its, 2), None);
                rows.extend([rate, p99, cpu].map(|row| row.of_size(pipeline)));
            }
        }
    }
    // A case's sizes stand together.
    rows.sort_by_key(|row| (CASES.iter().position(|case| *case == row.case), row.n));
    Ok(rows)
}
