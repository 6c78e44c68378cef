//! `kumiki ab`: the verdict in words and as exit status, and whatever commands do.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Home, says, text, wait_until};

/// Exit status and what was printed, on both streams.
fn ab(home: &Home, args: &[&str]) -> (Option<i32>, String) {
    let output = home.start(&[&["ab"], args].concat()).output().unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

#[test]
fn twice_as_long_is_slower_and_half_is_not() {
    let home = Home::new();
    let (code, said) = ab(&home, &["--", "sleep", "0.02", "---", "sleep", "0.1"]);
    assert_eq!(code, Some(1), "{said}");
    says(&said, &["B is slower: ", "A: sleep 0.02\nB: sleep 0.1\n", "quiet", " × A ["]);
    let (code, said) = ab(&home, &["--", "sleep", "0.1", "---", "sleep", "0.02"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("B is faster: ") || said.contains("not slower"), "{said}");
}

#[test]
fn what_cannot_be_said_says_what_would_clear_it_up() {
    let home = Home::new();
    let args = ["--pairs", "3", "--", "sleep", "0.01", "---", "sleep", "0.01"];
    let (code, said) = ab(&home, &args);
    assert_eq!(code, Some(3), "{said}");
    let said = said.replace('\n', " ");
    says(&said, &["It cannot be said whether B is slower by 2 %", "no interval yet, 3 pairs"]);
    says(&said, &["more pairs (", "would tell"]);
}

#[test]
fn one_command_under_two_settings() {
    let home = Home::new();
    let args = ["--env", "T=0.01", "--vs", "T=0.1", "--shell", "--", "sleep $T"];
    let (code, said) = ab(&home, &args);
    assert_eq!(code, Some(1), "{said}");
    says(&said, &["A: T=0.01 sleep $T\nB: T=0.1 sleep $T\n"]);
}

#[test]
fn an_outcome_is_kept_and_printed_for_programs() {
    let home = Home::new();
    let pairs = ["--pairs", "12", "--all", "--save", "out.json"];
    let command = ["--", "echo", "a | b", "---", "true"];
    let json = home.start(&[&["ab", "--json"][..], &pairs, &command].concat()).output().unwrap();
    let printed: Value = serde_json::from_slice(&json.stdout).unwrap();
    let kept: Value = serde_json::from_slice(&fs::read(home.path("out.json")).unwrap()).unwrap();
    assert_eq!(printed, kept);
    assert_eq!(kept["pairs"].as_array().unwrap().len(), 12, "nothing is dropped");
    let sample = &kept["pairs"][0][0];
    for figure in ["wall_ns", "user_ns", "system_ns", "others"] {
        assert!(sample[figure].as_f64().is_some(), "{figure}: {sample}");
    }
    assert!(kept["machine"]["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    let differ = kept["notes"].as_array().unwrap().iter();
    assert!(differ.clone().any(|note| note["note"] == "outputs_differ"), "{kept}");

    let form = |form: &str| {
        let format = ["ab", "--format", form];
        let output = home.start(&[&format, &pairs[..3], &command].concat()).output().unwrap();
        text(output.stdout)
    };
    let markdown = form("markdown");
    says(&markdown, &["**", "| A | ", "`echo 'a \\| b'`", "| B | ", "`true`"]);
    let metrics = form("prometheus");
    says(&metrics, &["kumiki_ab_ratio ", "kumiki_ab_median_seconds{side=\"a\"} ", "# TYPE "]);
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn commands_that_cannot_be_compared_are_errors() {
    let home = Home::new();
    for (args, parts) in [
        (&["--", "true"][..], &["one command", "---", "--vs"][..]),
        (&["--", "true", "---"], &["missing"]),
        (&["--", "---", "true"], &["missing"]),
        (&["--", "true", "---", "true", "---", "true"], &["once"]),
        (&["--", "true", "---", "/no/such"], &["B cannot be started", "/no/such"]),
        (
            &["--", "sh", "-c", "echo why >&2; exit 3", "---", "true"],
            &["A fails", "status 3", "why"],
        ),
        (&["--", "true", "---", "sh", "-c", "kill -9 $$"], &["B fails", "signal 9"]),
        (&["--", "tty", "---", "true"], &["A fails", "without a terminal"]),
        (&["--prepare", "exit 4", "--", "true", "---", "true"], &["--prepare exit 4", "status 4"]),
        (&["--for", "soon", "--", "true", "---", "true"], &["--for", "90s"]),
        (&["--env", "A", "--", "true", "---", "true"], &["NAME=VALUE"]),
        (&["--cpu", "4000", "--", "true", "---", "true"], &["4000"]),
        (&["--save", "/no/such/out", "--", "true", "---", "true"], &["/no/such"]),
    ] {
        home.refuses(&[&["ab"], args].concat(), parts);
    }
}

#[test]
fn commands_of_a_millisecond_and_longer_than_the_time_are_told() {
    let home = Home::new();
    let (_, said) = ab(&home, &["--pairs", "12", "--all", "--", "true", "---", "true"]);
    says(&said.replace("\n  ", " "), &["the start of a process is much of that"]);
    // One pair takes longer than all the time there is: it is run, and no other.
    let long = ["--for", "0.1", "--", "sleep", "0.15", "---", "sleep", "0.15"];
    let (code, said) = ab(&home, &long);
    assert_eq!(code, Some(3), "{said}");
    let said = said.replace('\n', " ");
    says(&said, &["1 pair", "more pairs (", "would tell"]);
    assert!(!said.contains("start of a process"), "{said}");
}

/// Fails once in so many runs.
fn sometimes(home: &Home, every: u32) -> String {
    let count = home.path("count");
    let count = count.display();
    format!("n=$(cat {count} || echo 0); echo $((n + 1)) > {count}; [ $((n % {every})) != 3 ]")
}

#[test]
fn a_run_that_fails_is_told_and_does_not_count() {
    let home = Home::new();
    let script = sometimes(&home, 50) + " 2>/dev/null";
    let args = ["--pairs", "15", "--all", "--json", "--", "true", "---", "sh", "-c", &script];
    let output = home.start(&[&["ab"], &args[..]].concat()).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["pairs"].as_array().unwrap().len(), 15);
    assert_eq!(outcome["pairs_counted"], 14);
    let failed = outcome["notes"].as_array().unwrap().iter().find(|note| note["note"] == "failed");
    let failed = failed.unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!((&failed["side"], &failed["runs"]), (&"B".into(), &1.into()), "{failed}");
    // One that fails too often ends it, with the reason.
    fs::remove_file(home.path("count")).unwrap();
    let script = sometimes(&home, 4);
    home.refuses(
        &["ab", "--pairs", "30", "--all", "--", "true", "---", "sh", "-c", &script],
        &["B fails", " of ", "runs", "--ignore-failure"],
    );
}

#[test]
fn what_outlives_a_command_is_told() {
    let home = Home::new();
    let script = "sleep 60 >/dev/null 2>&1 & echo $! >> pids";
    let args = ["--pairs", "2", "--", "true", "---", "sh", "-c", script];
    let (_, said) = ab(&home, &args);
    for pid in fs::read_to_string(home.path("pids")).unwrap().lines() {
        let pid = Pid::from_raw(pid.parse().unwrap()).unwrap();
        let _ = kill_process(pid, Signal::KILL);
    }
    says(&said.replace("\n ", ""), &["3 processes that the commands left behind"]);
}

/// A shell's loop of so many turns.
fn turns(n: u32) -> String {
    format!("i=0; while [ $i -lt {n} ]; do i=$((i+1)); done")
}

/// Its processor time is the command's, though the command ended before it.
#[test]
fn what_outlives_a_command_costs_what_it_costs() {
    let home = Home::new();
    let work = turns(30_000);
    // It has as long as the command had.
    let script = format!("({work}) >/dev/null 2>&1 & sleep 0.4");
    let args = ["--by", "cpu", "--pairs", "14", "--all", "--json", "--", "sleep", "0.01", "---"];
    let args = [&["ab"], &args[..], &["sh", "-c", &script]].concat();
    let output = home.start(&args).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{outcome}");
    assert_eq!((&outcome["by"], &outcome["verdict"]), (&"cpu".into(), &"slower".into()));
    let sample = &outcome["pairs"][0][1];
    let used = sample["user_ns"].as_f64().unwrap() + sample["system_ns"].as_f64().unwrap();
    assert!(used > 5e6, "{sample}");
}

#[test]
fn more_processor_time_is_said_with_its_cause() {
    let home = Home::new();
    let (one, three) = (turns(5_000), turns(15_000));
    let args = ["--by", "cpu", "--pairs", "24", "--all"];
    let args = [&args[..], &["--", "sh", "-c", &one, "---", "sh", "-c", &three]].concat();
    let (code, said) = ab(&home, &args);
    let said = said.replace('\n', " ");
    assert_eq!(code, Some(1), "{said}");
    says(&said, &["B costs more processor time: ", "beyond doubt after ", "more in user mode"]);
    // Each count that is named is one that moved.
    assert!(!said.contains(" blocks ") && !said.contains("with a disk"), "{said}");
    let (_, said) =
        ab(&home, &["--by", "instructions", "--pairs", "1", "--", "true", "---", "true"]);
    assert!(said.contains("perf_event_paranoid") || said.contains("instructions"), "{said}");
    home.refuses(&["ab", "--by", "time", "--", "true", "---", "true"], &["time", "wall", "cpu"]);
}

#[test]
fn an_interrupted_comparison_tells_what_there_is() {
    let home = Home::new();
    let mark = home.path("mark");
    let script = format!("echo x >> {}; sleep 0.01", mark.display());
    let args = ["ab", "--all", "--save", "kept.json", "--", "sh", "-c", &script, "---", "true"];
    let child = home.start(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("some pairs", || fs::read(&mark).is_ok_and(|marks| marks.len() > 8));
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(130), None));
    let said = text(output.stdout);
    says(&said, &["Interrupted; until then:", "pairs in"]);
    let kept: Value = serde_json::from_slice(&fs::read(home.path("kept.json")).unwrap()).unwrap();
    assert!(kept["interrupted"] == true && kept["pairs"].as_array().unwrap().len() >= 2, "{kept}");
}

/// A cache that fills, or a machine that gets warm.
#[test]
fn a_command_that_becomes_faster_by_itself_is_told() {
    let home = Home::new();
    let script = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; \
                  [ $n -gt 14 ] || sleep 0.2";
    let args = ["--pairs", "24", "--all", "--", "true", "---", "sh", "-c", script];
    let (_, said) = ab(&home, &args);
    says(&said.replace("\n  ", " "), &["B became ", "faster by itself", "--prepare"]);
}

#[test]
fn b_is_compared_with_the_b_that_was_kept() {
    let home = Home::new();
    let pairs = ["--pairs", "12", "--all"];
    let keep =
        [&pairs[..], &["--save", "kept.json", "--", "sleep", "0.02", "---", "sleep", "0.03"]];
    ab(&home, &keep.concat());
    let now = [&pairs[..], &["--against", "kept.json", "--", "sleep", "0.2"]].concat();
    let (code, said) = ab(&home, &now);
    assert_eq!(code, Some(1), "{said}");
    let said = said.replace('\n', " ");
    says(&said, &["Against the one that was kept B is slower: ", "A: sleep 0.02", "B: sleep 0.2"]);

    let kept: Value = serde_json::from_slice(&fs::read(home.path("kept.json")).unwrap()).unwrap();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut copy = kept.clone();
        change(&mut copy);
        home.write("changed.json", copy.to_string());
    };
    let refused = |parts: &[&str]| home.refuses(&["ab", "--against", "changed.json"], parts);
    changed(&|kept| kept["machine"]["cpu_model"] = "Other".into());
    refused(&["changed.json", "another machine", "Other"]);
    changed(&|kept| kept["schema"] = 99.into());
    refused(&["changed.json", "schema 99", "newer"]);
    changed(&|kept| {
        kept["interval"] = Value::Null;
        // Of none of its measures: one is enough to be compared by.
        for finding in kept["findings"].as_array_mut().unwrap() {
            finding["interval"] = Value::Null;
        }
    });
    refused(&["changed.json", "no interval"]);
    home.write("changed.json", "{}");
    refused(&["changed.json", "no outcome"]);
    home.refuses(&["ab", "--against", "/no/such"], &["/no/such"]);
    home.refuses(&["ab", "--against", "kept.json", "--", "true", "---", "true"], &["B alone"]);
}

/// B differs from A at once; what was asked is how it stands to what it was.
#[test]
fn it_goes_on_until_b_against_the_kept_one_is_decided() {
    let home = Home::new();
    let keep = ["--pairs", "14", "--all", "--by", "wall", "--save", "kept.json"];
    ab(&home, &[&keep[..], &["--", "sleep", "0.01", "---", "sleep", "0.1"]].concat());
    let mut kept: Value =
        serde_json::from_slice(&fs::read(home.path("kept.json")).unwrap()).unwrap();
    // Known so badly that nothing can be decided.
    kept["findings"][0]["interval"] = serde_json::json!([0.5, 200.0]);
    home.write("wide.json", kept.to_string());
    let now = ["--pairs", "30", "--json", "--by", "wall", "--against", "wide.json"];
    let output = home.start(&[&["ab"], &now[..]].concat()).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(outcome["verdict"], "slower", "{outcome}");
    assert_eq!(outcome["pairs"].as_array().unwrap().len(), 30, "it went on to the last pair");
    assert_eq!(output.status.code(), Some(3), "{outcome}");
    let talk = text(output.stderr);
    says(&talk.replace('\n', " "), &["cannot be", "keep one with more pairs"]);
}

#[test]
fn each_line_of_a_file_is_a_comparison() {
    let home = Home::new();
    home.write("pairs", "# slower\nsleep 0.02 --- sleep 0.1\n\ntrue --- true\n");
    let (code, said) = ab(&home, &["--pairs", "30", "--file", "pairs"]);
    assert_eq!(code, Some(1), "{said}");
    says(&said, &["sleep 0.02 --- sleep 0.1\n", "B is slower", "true --- true\n"]);
    home.write("odd", "true\n");
    home.refuses(&["ab", "--file", "odd"], &["odd", "line 1", "---"]);
}

#[test]
fn a_case_is_compared_by_its_own_figure() {
    let home = Home::new();
    let args = ["--pairs", "1", "--json", "--case", "entry.getppid", "--env", "T=1", "--vs", "T=2"];
    let output = home.start(&[&["ab"], &args[..]].concat()).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sample = &outcome["pairs"][0][0];
    let (cost, wall) = (sample["cost"].as_f64().unwrap(), sample["wall_ns"].as_f64().unwrap());
    assert!(cost > 1.0 && cost < wall / 1e3, "{sample}");
    assert_eq!(output.status.code(), Some(3), "one pair tells nothing");
    home.refuses(&["ab", "--case", "entry.getppid"], &["same on both sides", "--vs"]);
    let wrong = ["ab", "--case", "entry.getppid", "--", "echo", "---", "echo"];
    home.refuses(&wrong, &["A prints no result", "echo kumiki measure"]);
}

#[test]
fn a_machine_is_certified_by_cpu_and_hour() {
    let home = Home::new();
    let args = ["ab", "--certify", "--for", "3", "--json", "--", "sleep", "0.01"];
    let output = home.start(&args).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["all"]["pairs"].as_u64().is_some_and(|pairs| pairs > 0), "{found}");
    assert!(!found["cpus"].as_object().unwrap().is_empty(), "{found}");
    assert_eq!(found["hours"].as_object().unwrap().len(), 1, "{found}");
    let sees = found["all"]["tells"].as_f64().is_some_and(|tells| tells <= 0.02);
    assert_eq!(output.status.code(), Some(if sees { 0 } else { 3 }), "{found}");
    home.refuses(&["ab", "--certify", "--", "true", "---", "true"], &["one command", "---"]);
}

/// What is exported for hyperfine's readers is read as hyperfine's.
#[test]
fn runs_of_other_tools_are_judged_by_processes() {
    let home = Home::new();
    let args = [
        "ab",
        "--pairs",
        "3",
        "--all",
        "--format",
        "hyperfine",
        "--",
        "true",
        "---",
        "sleep",
        "0.1",
    ];
    let output = home.start(&args).output().unwrap();
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(all["results"].as_array().unwrap().len(), 2, "{all}");
    let mut sides = Vec::new();
    for (at, name) in ["a.json", "b.json"].into_iter().enumerate() {
        let result = &all["results"][at];
        assert_eq!(result["times"].as_array().unwrap().len(), 3, "{result}");
        assert!(result["mean"].as_f64() >= result["min"].as_f64(), "{result}");
        let once = serde_json::json!({ "results": [result] });
        home.write(name, once.to_string());
        sides.push(name);
    }
    let three = ["--read", "--", "a.json", "---", "b.json"];
    let (code, said) = ab(&home, &three);
    assert_eq!(code, Some(3), "three processes of each side tell nothing: {said}");
    says(&said.replace('\n', " "), &["no independent runs", "in turns"]);
    let six = ["--read", "--json", "--", "a.json", "a.json", "---", "b.json", "b.json"];
    let (code, said) = ab(&home, &six);
    assert_eq!(code, Some(1), "{said}");
    home.write("go.txt", "BenchmarkFib-8 300 4000 ns/op\n");
    let (code, said) = ab(&home, &["--read", "--", "go.txt", "---", "go.txt"]);
    assert_eq!(code, Some(3), "{said}");
    home.write("odd.json", "{}");
    home.refuses(&["ab", "--read", "--", "odd.json", "---", "a.json"], &["odd.json", "hyperfine"]);
    home.refuses(&["ab", "--read", "--", "go.txt", "---", "a.json"], &["in common"]);
    home.refuses(&["ab", "--read", "--", "a.json"], &["---"]);
}
