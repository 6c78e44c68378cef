//! Files of other tools.

use std::collections::HashSet;

use indexmap::IndexMap;
use kumiki_measure::stats::describe;
use serde_json::Value;

use super::Runs;

/// Runs of a text, by what it looks like. `folder` is the benchmark's name where only the file's
/// place says it.
pub(super) fn runs(text: &str, folder: &str) -> Result<Runs, String> {
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        let runs = go(text);
        return match runs.is_empty() {
            true => Err("neither JSON nor what `go test -bench` prints".to_owned()),
            false => Ok(runs),
        };
    };
    if let Some(results) = value["results"].as_array() {
        known_schema(&value)?;
        return hyperfine(results);
    }
    if value["iters"].is_array() && value["times"].is_array() {
        return Ok(criterion(&value, folder));
    }
    let Some(all) = value["benchmarks"].as_array() else {
        return Err(
            "no result of hyperfine, pyperf, criterion, Google Benchmark, pytest-benchmark \
                    or Go"
                .to_owned(),
        );
    };
    let has = |name: &str| all.iter().any(|one| !one[name].is_null());
    match () {
        () if has("runs") => pyperf(all, &value["metadata"]),
        () if has("stats") => Ok(pytest(all)),
        () if has("real_time") => google(all),
        () => Err("its benchmarks are of no tool that is known".to_owned()),
    }
}

/// Numbers of a list that are times.
fn times(list: &Value) -> Vec<f64> {
    let numbers = list.as_array().into_iter().flatten().filter_map(Value::as_f64);
    numbers.filter(|time| time.is_finite() && *time > 0.0).collect()
}

fn middle(times: &[f64]) -> Option<f64> {
    (!times.is_empty()).then(|| describe::median_of(times.iter().copied()))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Refuses a layout of hyperfine's that came later: what stands at a known place may mean something else.
fn known_schema(file: &Value) -> Result<(), String> {
    match &file["schema_version"] {
        Value::Null => Ok(()),
        version if version.as_u64() == Some(2) => Ok(()),
        version => {
            Err(format!("schema_version {version} of hyperfine: 2 is known, and files without one"))
        }
    }
}

/// Seconds of each process; one that failed is none.
fn hyperfine(results: &[Value]) -> Result<Runs, String> {
    let mut all = Runs::new();
    for result in results {
        for run in result["measurements"].as_array().into_iter().flatten() {
            unit_is(&run["time_wall_clock"]["unit"], "second")?;
        }
        // By version 2 (schema 2) each run has its time and exit code; by version 1 there is a list of each.
        let runs: Vec<(&Value, Option<&Value>)> = match result["measurements"].as_array() {
            Some(runs) => runs
                .iter()
                .map(|run| (&run["time_wall_clock"]["value"], run.get("exit_code")))
                .collect(),
            None => {
                let times = result["times"].as_array().into_iter().flatten().enumerate();
                times.map(|(at, time)| (time, result["exit_codes"].get(at))).collect()
            }
        };
        let ended = runs.iter().filter(|(_, code)| code.is_none_or(has_ended_well));
        let seconds = ended.filter_map(|(time, _)| time.as_f64());
        let ns = seconds.filter(|time| *time > 0.0).map(|time| time * 1e9).collect::<Vec<_>>();
        if !ns.is_empty() {
            // A side is one command, however it is spelled; of several each is another.
            let named = if result["name"].is_string() { "name" } else { "command" };
            let name = if results.len() == 1 { String::new() } else { text(&result[named]) };
            all.entry(name).or_default().extend(ns);
        }
    }
    Ok(all)
}

/// True for the code of a run without failure. Of one that a signal has ended it is null.
fn has_ended_well(code: &Value) -> bool {
    code.as_i64() == Some(0)
}

/// The command of a file of hyperfine that has one, and the number of its runs that failed and are left out.
pub(super) fn command(text: &str) -> Option<(String, usize)> {
    let value: Value = serde_json::from_str(text).ok()?;
    let [result] = &value["results"].as_array()?[..] else { return None };
    let codes = result["exit_codes"].as_array().into_iter().flatten();
    let of_runs = result["measurements"].as_array().into_iter().flatten();
    let codes = codes.chain(of_runs.filter_map(|run| run.get("exit_code")));
    let failed = codes.filter(|code| !has_ended_well(code)).count();
    Some((self::text(&result["command"]), failed))
}

/// Refuses a unit that is said and is another one.
fn unit_is(said: &Value, known: &str) -> Result<(), String> {
    match said {
        Value::Null => Ok(()),
        Value::String(unit) if unit == known => Ok(()),
        unit => Err(format!("its unit is {unit}: {known} is known")),
    }
}

/// Seconds of several loops of each worker process. `common` is what all of them have alike.
fn pyperf(benchmarks: &[Value], common: &Value) -> Result<Runs, String> {
    let mut all = Runs::new();
    for (at, benchmark) in benchmarks.iter().enumerate() {
        // What all benchmarks of a file have alike stands once, above them: of one benchmark its name, too.
        let name = [&benchmark["metadata"]["name"], &common["name"]]
            .into_iter()
            .find_map(|name| name.as_str())
            .map_or_else(|| format!("benchmark {}", at + 1), str::to_owned);
        for unit in [&benchmark["metadata"]["unit"], &common["unit"]] {
            unit_is(unit, "second")?;
        }
        // A run without values calibrated itself.
        let runs = benchmark["runs"].as_array().into_iter().flatten();
        let ns = runs.filter_map(|run| middle(&times(&run["values"]))).map(|time| time * 1e9);
        all.entry(name).or_default().extend(ns);
    }
    all.retain(|_, times| !times.is_empty());
    Ok(all)
}

/// Nanoseconds of so many loops each.
fn criterion(value: &Value, folder: &str) -> Runs {
    let each = value["iters"]
        .as_array()
        .into_iter()
        .flatten()
        .zip(value["times"].as_array().into_iter().flatten());
    let ns: Vec<f64> = each
        .filter_map(|(loops, time)| Some(time.as_f64()? / loops.as_f64().filter(|n| *n > 0.0)?))
        .filter(|ns| *ns > 0.0)
        .collect();
    middle(&ns).map(|ns| (folder.to_owned(), vec![ns])).into_iter().collect()
}

/// Seconds: all of them if they were kept, else the median.
fn pytest(benchmarks: &[Value]) -> Runs {
    let one = |benchmark: &Value| {
        let stats = &benchmark["stats"];
        let seconds = middle(&times(&stats["data"])).or_else(|| stats["median"].as_f64())?;
        Some((text(&benchmark["fullname"]), vec![seconds * 1e9]))
    };
    benchmarks.iter().filter_map(one).collect()
}

/// Ends of names that Google Benchmark gives to what it has counted together.
const AGGREGATES: [&str; 4] = ["_mean", "_median", "_stddev", "_cv"];

/// Repetitions in a unit of their own.
fn google(benchmarks: &[Value]) -> Result<Runs, String> {
    let mut loops: IndexMap<String, Vec<f64>> = IndexMap::new();
    let names: HashSet<&str> = benchmarks.iter().filter_map(|one| one["name"].as_str()).collect();
    // Before version 1.5 nothing but its name tells one.
    let stem =
        |name: &str| AGGREGATES.iter().find_map(|end| name.strip_suffix(end).map(str::to_owned));
    let is_aggregate = |one: &Value| match one["run_type"].as_str() {
        Some(kind) => kind == "aggregate",
        None => one["name"].as_str().and_then(stem).is_some_and(|stem| names.contains(&*stem)),
    };
    for one in benchmarks.iter().filter(|one| !is_aggregate(one)) {
        let unit = match &one["time_unit"] {
            Value::Null => 1.0,
            unit => match unit.as_str() {
                Some("ns") => 1.0,
                Some("us") => 1e3,
                Some("ms") => 1e6,
                Some("s") => 1e9,
                _ => return Err(format!("its time_unit is {unit}: ns, us, ms and s are known")),
            },
        };
        if let Some(time) = one["real_time"].as_f64().filter(|time| *time > 0.0) {
            loops.entry(text(&one["name"])).or_default().push(time * unit);
        }
    }
    Ok(of_one_process(loops))
}

/// `BenchmarkName-8   1000   1234 ns/op`, once for each `-count`.
fn go(text: &str) -> Runs {
    let mut loops: IndexMap<(&str, &str), Vec<f64>> = IndexMap::new();
    let mut package = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pkg:") {
            package = name.trim();
        }
        if !line.starts_with("Benchmark") {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "ns/op");
        let time = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<f64>().ok());
        if let (Some(name), Some(time)) =
            (words.first(), time.filter(|time| *time > 0.0 && time.is_finite()))
        {
            loops.entry((package, *name)).or_default().push(time);
        }
    }
    // Two packages may have one of the same name.
    let named = |(package, name): (&str, &str)| match package {
        "" => name.to_owned(),
        _ => format!("{package}.{name}"),
    };
    of_one_process(loops.into_iter().map(|(of, all)| (named(of), all)).collect())
}

/// However many loops it had, a process is one experiment.
fn of_one_process(loops: IndexMap<String, Vec<f64>>) -> Runs {
    loops.into_iter().filter_map(|(name, all)| Some((name, vec![middle(&all)?]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, Vec<f64>)> {
        runs(text, "folder").unwrap().into_iter().collect()
    }

    fn is(text: &str, name: &str, ns: &[f64]) {
        let found = read(text);
        let [(own, times)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(own, name);
        assert!(
            times.len() == ns.len()
                && times.iter().zip(ns).all(|(a, b)| (a / b - 1.0).abs() < 1e-9),
            "{times:?}"
        );
    }

    #[test]
    fn processes_of_each_tool_are_read() {
        is(
            r#"{"results":[{"command":"sleep 1","mean":1.0,"times":[1.0,1.5,2.0],"exit_codes":[0,1,0]}]}"#,
            "",
            &[1e9, 2e9],
        );
        is(
            r#"{"schema_version":2,"primary_metric":"time_wall_clock","results":[{"command":"sleep 1",
                "measurements":[{"time_wall_clock":{"value":1.0,"unit":"second"},"exit_code":0},
                {"time_wall_clock":{"value":1.5,"unit":"second"},"exit_code":null},
                {"time_wall_clock":{"value":2.0,"unit":"second"},"exit_code":0}],"summary":{}}]}"#,
            "",
            &[1e9, 2e9],
        );
        is(
            r#"{"version":"1.0","benchmarks":[{"metadata":{"name":"telco"},"runs":[{"warmups":[[1,0.1]]},
                {"values":[0.001,0.002,0.003]},{"values":[0.004]}]}]}"#,
            "telco",
            &[2e6, 4e6],
        );
        is(r#"{"sampling_mode":"Linear","iters":[1,2,4],"times":[10,22,40]}"#, "folder", &[10.0]);
        is(
            r#"{"context":{},"benchmarks":[
                {"name":"BM_x","run_type":"iteration","real_time":3.0,"cpu_time":2.0,"time_unit":"us"},
                {"name":"BM_x","run_type":"iteration","real_time":5.0,"cpu_time":2.0,"time_unit":"us"},
                {"name":"BM_x_mean","run_type":"aggregate","real_time":4.0,"time_unit":"us"}]}"#,
            "BM_x",
            &[4e3],
        );
        is(
            r#"{"machine_info":{},"benchmarks":[{"fullname":"t.py::test_x","stats":{"median":0.5,
                "data":[0.1,0.2,0.3]}}]}"#,
            "t.py::test_x",
            &[2e8],
        );
        is(
            r#"{"benchmarks":[{"fullname":"t.py::test_x","stats":{"median":0.5}}]}"#,
            "t.py::test_x",
            &[5e8],
        );
        is(
            "goos: linux\nBenchmarkFib-8   \t 300\t   4000 ns/op\t 16 B/op\nBenchmarkFib-8 290 4200 ns/op\nPASS\n",
            "BenchmarkFib-8",
            &[4100.0],
        );
    }

    /// A benchmark of one name in two packages is two.
    #[test]
    fn packages_of_go_have_their_benchmarks_apart() {
        let text = "pkg: x/a\nBenchmarkP-8 10 100 ns/op\npkg: x/b\nBenchmarkP-8 10 900 ns/op\n";
        let all = read(text);
        assert_eq!(
            all,
            [
                ("x/a.BenchmarkP-8".to_owned(), vec![100.0]),
                ("x/b.BenchmarkP-8".to_owned(), vec![900.0])
            ]
        );
    }

    /// Versions before 1.5 write them so.
    #[test]
    fn what_google_benchmark_counted_together_is_no_benchmark() {
        let one = |name: &str, time: f64| {
            format!(r#"{{"name":"{name}","real_time":{time},"time_unit":"ns"}}"#)
        };
        let all =
            [("BM", 3.0), ("BM", 5.0), ("BM_mean", 4.0), ("BM_stddev", 0.1), ("BM_own_mean", 9.0)];
        let text =
            format!(r#"{{"benchmarks":[{}]}}"#, all.map(|(name, time)| one(name, time)).join(","));
        assert_eq!(
            read(&text),
            [("BM".to_owned(), vec![4.0]), ("BM_own_mean".to_owned(), vec![9.0])]
        );
    }

    #[test]
    fn another_layout_or_unit_is_refused_by_its_name() {
        for (text, said) in [
            (r#"{"schema_version":99,"results":[]}"#, "schema_version 99"),
            (
                r#"{"schema_version":2,"results":[{"measurements":[{"time_wall_clock":{"value":1,"unit":"millisecond"}}]}]}"#,
                "millisecond",
            ),
            (r#"{"benchmarks":[{"runs":[],"metadata":{"name":"x","unit":"byte"}}]}"#, "byte"),
            (r#"{"benchmarks":[{"name":"x","real_time":1,"time_unit":"fortnight"}]}"#, "fortnight"),
        ] {
            let error = runs(text, "").unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_is_of_no_tool_is_refused() {
        for (text, said) in [
            ("hello", "neither JSON"),
            ("{}", "no result of hyperfine"),
            (r#"{"benchmarks":[{"x":1}]}"#, "no tool that is known"),
        ] {
            let error = runs(text, "").unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        // Times that are none are left out, whatever they are.
        let odd = r#"{"results":[{"times":[null,"x",-1,0,1e400]}]}"#;
        assert!(runs(odd, "").map_or(true, |runs| runs.is_empty()));
    }
}
