//! `kumiki measure`: what it prints, and what it refuses before it begins.

use std::fs;
use std::process::Command;

use crate::common::{Home, MEASURE, entries, failure, says, skip, text};
use kumiki_sys::affinity;
use predicates::prelude::*;
use serde_json::Value;

fn numbers(value: &Value, names: &[&str]) {
    for name in names {
        assert!(value[name].is_f64() || value[name].is_u64(), "{name} in {value}");
    }
}

fn interval(value: &Value) {
    let [low, high] = value["ci"].as_array().unwrap().as_slice() else { panic!("{value}") };
    assert!(low.as_f64().unwrap() <= high.as_f64().unwrap(), "{value}");
}

#[test]
fn json_has_every_field_of_the_schema() {
    let result = Home::new().json(&[&MEASURE[..], &["--json", "--label", "x"]].concat());
    assert_eq!(result["schema"], 1);
    assert!(!result["machine"]["hostname"].as_str().unwrap().is_empty());
    assert_eq!(result["run"]["complete"], true);
    assert_eq!(result["run"]["label"], "x");
    let rows = result["rows"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["case"] == "entry.getppid"));
    for row in rows {
        assert!(row["case"].as_str().unwrap().starts_with("entry."));
        assert!(row["params"].is_object() && row["disturbed"].is_boolean(), "{row}");
        assert_eq!(row["unit"], "ns");
        numbers(row, &["median", "p99", "cpu_ns"]);
        interval(row);
        // A machine with one cpu has no round trip, but says so.
        let row = row.as_object().unwrap();
        assert!(row["round_trip_ns"].is_null() || row["round_trip_ns"].as_f64().unwrap() > 0.0);
    }
}

/// As an upgrade or a removal of the package does; some cases are visited in new processes.
#[test]
fn a_program_that_is_removed_meanwhile_measures_to_the_end() {
    let home = Home::new();
    let program = home.path("kumiki");
    // By another process: a child of another test's thread holds no descriptor that writes to it.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_kumiki")).arg(&program).status();
    assert!(copied.unwrap().success());
    let words = ["measure", "memory.mmap_munmap", "--quick", "--time", "1", "--json"];
    let mut command = home.run_by(program.to_str().unwrap(), &words);
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    fs::remove_file(&program).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(!result["rows"].as_array().unwrap().is_empty(), "{result}");
}

#[test]
fn a_sweep_of_fork_has_slopes() {
    let home = Home::new();
    let sweep = ["measure", "process.fork", "touch=write", "--sizes", "16K,64K,64K,256K"];
    let result = home.json(&[&sweep[..], &["--quick", "--time", "1", "--json"]].concat());
    let rows = result["rows"].as_array().unwrap();
    let names = ["data_bytes", "bss_bytes", "stack_bytes", "anon_bytes"];
    let fork: Vec<&Value> = rows.iter().filter(|row| row["case"] == "process.fork").collect();
    for row in &fork {
        assert_eq!(row["params"]["touch"], "write");
        assert!(row["params"]["huge"].is_boolean(), "{row}");
        for name in names {
            assert!(
                [0, 16 << 10, 64 << 10, 256 << 10].contains(&row["params"][name].as_u64().unwrap())
            );
        }
    }
    let data = |bytes: u64| fork.iter().filter(|row| row["params"]["data_bytes"] == bytes).count();
    assert_eq!((data(16 << 10), data(64 << 10)), (1, 1), "a size given twice is one row");
    let slopes = result["slopes"].as_array().unwrap();
    assert!(slopes.iter().any(|s| s["case"] == "process.fork" && s["param"] == "data_bytes"));
    for slope in slopes {
        numbers(slope, &["ns_per_page", "r2"]);
        interval(slope);
        assert!(slope.as_object().unwrap().contains_key("knee_bytes"), "{slope}");
    }
}

#[test]
fn data_goes_to_standard_output_and_talk_to_standard_error() {
    let home = Home::new();
    let table = home.kumiki(&MEASURE).assert().success();
    let answer =
        predicate::str::contains("system call").and(predicate::str::contains("result 1: "));
    table.stdout(predicate::str::contains("entry.getppid").and(answer)).stderr("");
    // Nothing of a run stays but its result.
    assert_eq!(entries(&home.path("tmp")), Vec::<String>::new());
    assert_eq!(
        home.rows(),
        home.json(&["results", "show", "--json"])["rows"].as_array().unwrap().len() as u64
    );
    // For a program the data are JSON alone, and the answer is talk.
    let json = home.kumiki(&[&MEASURE[..], &["--json"]].concat()).assert().success();
    let output = json.get_output();
    let _: Value = serde_json::from_slice(&output.stdout).unwrap();
    says(&String::from_utf8_lossy(&output.stderr), &["system call", "result 2: "]);
}

/// What a person reads last fits an 80-column screen, in a pipe as well.
#[test]
fn the_answer_fits_a_terminal() {
    let home = Home::new();
    let text = home.prints(&MEASURE);
    let (_, answer) = text.rsplit_once("\n\n").unwrap();
    let lines: Vec<&str> = answer.lines().collect();
    assert!((4..=24).contains(&lines.len()), "{answer}");
    for line in &lines {
        assert!(line.chars().count() <= 80, "{line}");
        assert!(!line.contains('\x1b'), "{line}");
    }
    assert!(lines[0].contains(" cpu") && lines[0].contains("Linux "), "{answer}");
    // Of several references the one whose machine is most like this one.
    let reference = answer.split(&[' ', ',', '\n']).find(|word| word.starts_with('@')).unwrap();
    says(&home.prints(&["results", "ls"]), &[reference]);
    says(answer, &["entry.invalid", "×", &format!("kumiki compare {reference} 1")]);
}

/// A busy neighbour makes counts, and with --verbose names.
#[test]
fn disturbances_are_counts_unless_names_are_asked_for() {
    let home = Home::measured("x");
    let mut result = home.json(&["results", "export"]);
    for row in result["rows"].as_array_mut().unwrap() {
        for visit in row["visits"].as_array_mut().unwrap() {
            visit["disturbances"] = serde_json::json!(["another task held the cpu"]);
        }
    }
    result["run"]["others"] =
        serde_json::json!([{"name": "rustc", "cpu_seconds": 38.2, "cpus": [0, 1]}]);
    let rows = result["rows"].as_array().unwrap().len();
    home.write("busy.json", result.to_string());
    let counts = format!("{rows} of {rows} rows disturbed: another task held the cpu {rows} ×");
    let short = home.prints(&["results", "show", "busy.json"]).replace('\n', " ");
    says(&short, &[&counts, "--verbose"]);
    assert_eq!(short.matches("visits)").count(), 0, "{short}");
    let long = home.prints(&["results", "show", "busy.json", "--verbose"]);
    assert_eq!(long.replace('\n', " ").matches("visits)").count(), rows, "{long}");
    // The answer says who it was, and on which cpus.
    let answer = home.prints(&["report", "busy.json"]).replace('\n', " ");
    says(&answer, &["rows were disturbed", "Stop rustc (38.2 s of cpus 0, 1)"]);
}

#[test]
fn standard_error_that_nobody_reads_costs_no_measurement() {
    let home = Home::new();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = home.start(&MEASURE).stdout(std::process::Stdio::null()).stderr(full()).status();
    assert_eq!(status.unwrap().code(), Some(0));
    let status = home.start(&["measure", "frok"]).stderr(full()).status();
    assert_eq!(status.unwrap().code(), Some(2));
    // Data that cannot be printed is an error.
    let output = home.start(&["measure", "ls"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    says(&String::from_utf8_lossy(&output.stderr), &["standard output", "No space left"]);
}

#[test]
fn the_catalogue_is_listed() {
    let home = Home::new();
    let table = home.prints(&["measure", "ls"]);
    for part in ["process.fork", "process.exec", "memory.", "signal.", "file.", "ipc.", "entry."] {
        assert!(table.contains(part), "{part}");
    }
    let count = |args: &[&str]| home.json(args).as_array().unwrap().len();
    let default = count(&["measure", "ls", "--json"]);
    assert!(count(&["measure", "ls", "--json", "--quick"]) < default);
    assert!(count(&["measure", "ls", "--json", "--full"]) > default);
    for case in home.json(&["measure", "ls", "process.fork", "--json"]).as_array().unwrap() {
        assert!(case["case"].as_str().unwrap().contains("process.fork"));
        assert!(
            case["params"].is_object() && case["unit"].is_string() && case["about"].is_string()
        );
    }
    assert!(!home.path("data").exists(), "listing needs no database");
}

#[test]
fn an_unknown_filter_names_what_there_is() {
    let home = Home::new();
    let message = home.fails(&["measure", "entry", "frok"]);
    says(&message, &["\"frok\"", "process.fork", "kumiki measure ls"]);
    assert!(!message.contains("entry.getppid"), "only what is near: {message}");
    home.refuses(&["measure", "touch=wirte"], &["touch=wirte", "touch=write"]);
    home.refuses(&["measure", "data=64K"], &["data=64K", "data_bytes"]);
    let together = &["entry touch=write together", "kumiki measure ls"];
    home.refuses(&["measure", "entry", "touch=write"], together);
    home.refuses(&["measure", "ls", "frok"], &["\"frok\"", "process.fork"]);
    assert!(!home.path("data").exists(), "refused before a database is made");
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let home = Home::new();
    let refuses = |sizes: &str, parts: &[&str]| {
        home.refuses(&["measure", "fork", "--sizes", sizes], &[&["--sizes"], parts].concat());
    };
    refuses("much", &["'much'", "K, M, G"]);
    refuses("64K,,1M", &["''"]);
    refuses("-1", &["'-1'"]);
    refuses("99999999999999T", &["99999999999999T", "too large"]);
    let petabytes = (4096_u64 << 50).to_string();
    refuses("4096P", &["data_bytes", &petabytes, "memory available", "smaller"]);
    assert!(!home.path("data").exists(), "refused before a database is made");
}

#[test]
fn a_stack_beyond_the_hard_limit_is_refused() {
    let home = Home::new();
    let measure = ["measure", "process.fork", "--sizes", "64M"];
    let limited = ["-c", "ulimit -Ss 1024 && ulimit -Hs 1024 && exec \"$@\"", "sh"];
    let args = [&limited[..], &[env!("CARGO_BIN_EXE_kumiki")], &measure].concat();
    let message = failure(&mut assert_cmd::Command::from_std(home.run_by("sh", &args)));
    says(&message, &["stack_bytes=67108864", "hard limit", "1048576", "ulimit -Hs", "--sizes"]);
}

#[test]
fn cpus_that_cannot_be_used_are_refused() {
    let home = Home::new();
    let refuses = |cpus: &str, parts: &[&str]| {
        home.refuses(&["measure", "--cpu-list", cpus, "entry"], parts);
    };
    refuses("99999", &["cpu 99999", "not online (online: ", "no such cpu"]);
    home.refuses(&["measure", "--cpu", "99999", "entry"], &["cpu 99999", "no such cpu"]);
    let former =
        ["cpu 99999", "no such cpu", "`--cpus` of `kumiki measure` is called `--cpu-list`"];
    home.refuses(&["measure", "--cpus", "99999", "entry"], &former);
    refuses("0,0", &["[0, 0]", "two different"]);
    refuses("0,1,2", &["[0, 1, 2]", "one cpu, or two"]);
    refuses("first", &["'first'", "--cpu-list"]);
    refuses("-1", &["'-1'", "--cpu-list"]);
}

#[test]
fn a_cpu_outside_the_allowed_set_is_refused() {
    let allowed = affinity::current().unwrap();
    let (Some(first), Some(last)) = (allowed.first(), allowed.iter().last()) else {
        unreachable!()
    };
    if first == last {
        return skip("one cpu is allowed here, there is none to be left out");
    }
    let home = Home::new();
    let _bound = affinity::bind(first).unwrap(); // as taskset does: children inherit it
    let (inside, outside) = (first.to_string(), last.to_string());
    let parts =
        [&format!("cpu {last} is outside the allowed cpus {first}"), "--cpu-list", "taskset"];
    home.refuses(&["measure", "entry", "--cpu-list", &outside], &parts.map(|part| part as &str));
    home.refuses(&["measure", "entry", "--cpu-list", &format!("{first},{last}")], &["outside"]);
    let result = home.json(&[&MEASURE[..], &["--json", "--cpu-list", &inside]].concat());
    assert_eq!(result["rows"][0]["cpus"], serde_json::json!([first]));
    assert_eq!(result["machine"]["cpus_allowed"], inside);
}

#[test]
fn a_scratch_folder_that_cannot_be_used_is_refused() {
    let home = Home::new();
    let file = home.write("file", "");
    for scratch in ["/nowhere", file.to_str().unwrap()] {
        let parts = ["scratch folder", scratch, "--scratch"];
        home.refuses(&["measure", "entry", "--scratch", scratch], &parts);
    }
    home.refuses(&["measure", "entry", "--scratch", "/proc"], &["/proc", "--scratch"]);
    fs::create_dir(home.path("own")).unwrap();
    home.prints(&[&MEASURE[..], &["--scratch", "own"]].concat());
    assert_eq!(entries(&home.path("own")), Vec::<String>::new());
}

#[test]
fn without_proc_it_says_so() {
    let home = Home::new();
    // Hides /proc; in a user namespace of its own that takes no privilege.
    let hidden = [
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs none /proc && exec \"$@\"",
        "sh",
    ];
    let probe = home.run_by("unshare", &[&hidden[..], &["true"]].concat()).output();
    if !probe.is_ok_and(|probe| probe.status.success()) {
        return skip("/proc cannot be hidden here: no user namespaces");
    }
    let kumiki = [&hidden[..], &[env!("CARGO_BIN_EXE_kumiki")], &MEASURE].concat();
    let message = failure(&mut assert_cmd::Command::from_std(home.run_by("unshare", &kumiki)));
    says(&message, &["/proc/meminfo", "mount -t proc"]);
}

#[test]
fn odd_times_are_refused() {
    let home = Home::new();
    home.refuses(&["measure", "entry", "--time", "soon"], &["'soon'", "--time", "90s"]);
    home.refuses(&["measure", "entry", "--time", "-1"], &["'-1'", "--time"]);
    home.refuses(&["measure", "entry", "--quick", "--full"], &["--quick", "--full"]);
}

/// What a visit cannot be is said by the process that was asked for it.
#[test]
fn a_visit_in_a_process_of_its_own_is_answered() {
    let home = Home::new();
    let result = home.json(&["measure", "memory.mmap_munmap", "--quick", "--time", "1", "--json"]);
    assert!(!result["rows"].as_array().unwrap().is_empty(), "{result}");
    assert_eq!(result["skipped"].as_array().unwrap().len(), 0, "{result}");
    assert!(result["run"]["peak_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{result}");

    let asked = |request: &str| {
        let mut command = home.kumiki(&["measure-visit"]);
        command.write_stdin(request.to_owned()).output().unwrap()
    };
    let nothing = asked("nothing");
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(nothing.stderr).contains("a request for a visit"));
    // Whoever asked is gone: there is nobody to answer.
    let gone = r#"{"case":"x","params":{},"unit":"ns","cpu":0,"partner":null,"scratch":"/tmp",
        "length":{"secs":0,"nanos":1},"hz":1e9,"parent":1}"#;
    let gone = asked(gone);
    assert!(gone.status.success() && gone.stdout.is_empty(), "{}", text(gone.stderr));
    let unknown = format!(
        r#"{{"case":"no.such","params":{{}},"unit":"ns","cpu":0,"partner":null,"scratch":"/tmp",
        "length":{{"secs":0,"nanos":1}},"hz":1e9,"parent":{}}}"#,
        std::process::id()
    );
    let unknown = asked(&unknown);
    assert!(text(unknown.stdout).contains("no case no.such"));
}
