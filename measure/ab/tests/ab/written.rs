//! Files as other tools wrote them: `written/`, each by the tool and version that stands here, with what says
//! where it ran left out.

use std::path::Path;

use kumiki_ab::read::{Runs, read};

fn written(file: &str) -> Runs {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ab/written").join(file)).unwrap()
}

/// Names, with how many processes each has and the middle one's nanoseconds.
fn is(file: &str, expected: &[(&str, usize, f64)]) {
    let found: Vec<_> = written(file).into_iter().collect();
    assert_eq!(found.len(), expected.len(), "{file}: {found:?}");
    for ((name, times), (own, count, ns)) in found.iter().zip(expected) {
        assert_eq!((&**name, times.len()), (*own, *count), "{file}");
        let mut times = times.clone();
        times.sort_by(f64::total_cmp);
        let middle = times[times.len() / 2];
        assert!((middle / ns - 1.0).abs() < 1e-3, "{file}: {middle} ns, not {ns}");
    }
}

#[test]
fn hyperfine_times_processes() {
    // 1.15.0: hyperfine -N --runs 6 --export-json FILE 'sleep 0.002'
    is("hyperfine-1.json", &[("", 6, 6_633_759.0)]);
}

#[test]
fn pyperf_has_several_processes_with_several_loops_each() {
    // 2.11.0: pyperf timeit -p 5 -n 3 -w 1 --fast -o FILE '[1,2]*100'; the first of eleven calibrates.
    is("pyperf.json", &[("timeit", 10, 1_906.1)]);
}

#[test]
fn of_one_process_there_is_one_time_a_benchmark() {
    // pytest-benchmark 5: pytest --benchmark-json=FILE --benchmark-save-data
    is("pytest-benchmark.json", &[("test_b.py::test_sum", 1, 89.144)]);
    // Google Benchmark 1.7.1: --benchmark_repetitions=3 --benchmark_out=FILE
    is("google-benchmark.json", &[("BM_copy/8", 1, 9.433_67), ("BM_copy/64", 1, 9.685_03)]);
    // Go 1.26: go test -bench . -count 3 -benchmem
    is("go.txt", &[("x.BenchmarkSum-2", 1, 0.51), ("x.BenchmarkSub/one-2", 1, 1.272)]);
    // criterion 0.7, target/criterion/sum/new/sample.json
    is("sum/new/sample.json", &[("sum", 1, 1693.79)]);
}
