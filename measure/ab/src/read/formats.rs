//! Files of other tools.

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
        return Ok(hyperfine(results));
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
        () if has("runs") => Ok(pyperf(all, &value["metadata"])),
        () if has("stats") => Ok(pytest(all)),
        () if has("real_time") => Ok(google(all)),
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

/// Seconds of each process; one that failed is none.
fn hyperfine(results: &[Value]) -> Runs {
    let mut all = Runs::new();
    for result in results {
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
        // Of one that a signal has ended the code is null.
        let ended = |code: Option<&Value>| code.is_none_or(|code| code.as_i64() == Some(0));
        let ended = runs.iter().filter(|(_, code)| ended(*code));
        let seconds = ended.filter_map(|(time, _)| time.as_f64());
        let ns = seconds.filter(|time| *time > 0.0).map(|time| time * 1e9).collect::<Vec<_>>();
        if !ns.is_empty() {
            // A side is one command, however it is spelled; of several each is another.
            let named = if result["name"].is_string() { "name" } else { "command" };
            let name = if results.len() == 1 { String::new() } else { text(&result[named]) };
            all.entry(name).or_default().extend(ns);
        }
    }
    all
}

/// Seconds of several loops of each worker process. `common` is what all of them have alike.
fn pyperf(benchmarks: &[Value], common: &Value) -> Runs {
    let mut all = Runs::new();
    for (at, benchmark) in benchmarks.iter().enumerate() {
        // What all benchmarks of a file have alike stands once, above them: of one benchmark its name, too.
        let name = [&benchmark["metadata"]["name"], &common["name"]]
            .into_iter()
            .find_map(|name| name.as_str())
            .map_or_else(|| format!("benchmark {}", at + 1), str::to_owned);
        // A run without values calibrated itself.
        let runs = benchmark["runs"].as_array().into_iter().flatten();
        let ns = runs.filter_map(|run| middle(&times(&run["values"]))).map(|time| time * 1e9);
        all.entry(name).or_default().extend(ns);
    }
    all.retain(|_, times| !times.is_empty());
    all
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

/// Repetitions in a unit of their own.
fn google(benchmarks: &[Value]) -> Runs {
    let mut loops: IndexMap<String, Vec<f64>> = IndexMap::new();
    for one in benchmarks.iter().filter(|one| one["run_type"] != "aggregate") {
        let unit = match one["time_unit"].as_str() {
            Some("us") => 1e3,
            Some("ms") => 1e6,
            Some("s") => 1e9,
            _ => 1.0,
        };
        if let Some(time) = one["real_time"].as_f64().filter(|time| *time > 0.0) {
            loops.entry(text(&one["name"])).or_default().push(time * unit);
        }
    }
    of_one_process(loops)
}

/// `BenchmarkName-8   1000   1234 ns/op`, once for each `-count`.
fn go(text: &str) -> Runs {
    let mut loops: IndexMap<String, Vec<f64>> = IndexMap::new();
    for line in text.lines().filter(|line| line.starts_with("Benchmark")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| *word == "ns/op");
        let time = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
        if let (Some(name), Some(time)) = (words.first(), time) {
            loops.entry((*name).to_owned()).or_default().push(time);
        }
    }
    of_one_process(loops)
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
