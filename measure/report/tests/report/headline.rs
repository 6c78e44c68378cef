//! The first figures of made-up results, and of the references.

use kumiki_measure::schema::{Machine, Params, Results, Row, Trend, Value};
use kumiki_report::headline::{Figure, Grade, Headline, headline};
use kumiki_report::reference;

use crate::common::{MIB, disturbed, empty, full, params, row};

fn of(rows: Vec<Row>) -> Headline {
    headline(&Results { rows, ..empty("host") })
}

fn figure<'a>(headline: &'a Headline, key: &str) -> &'a Figure {
    let mut figures = headline.figures.iter();
    figures.find(|figure| figure.key == key).unwrap_or_else(|| panic!("no {key}"))
}

fn plain(text: &str) -> String {
    text.replace('\u{202f}', " ")
}

#[test]
fn nothing_measured_nothing_said() {
    assert_eq!(of(vec![]).figures.len(), 1, "the cache line that the machine says");
    let nothing = Results { machine: Machine::default(), ..empty("host") };
    assert!(headline(&nothing).figures.is_empty());
    assert!(headline(&nothing).advice.is_empty());
}

#[test]
fn a_full_result_has_all_twelve_and_what_each_means() {
    let result = full("host", 1.0);
    let headline = headline(&result);
    let said: Vec<String> = headline
        .figures
        .iter()
        .map(|f| format!("{}: {} {}; {}", f.name, f.quantity(), f.interval_text(), f.meaning))
        .map(|text| plain(&text))
        .collect();
    let expected = [
        "system call: 86.0 ns [84.3, 87.7] ns; into the kernel and back, by getppid",
        "reading the clock: 22.0 ns [21.6, 22.4] ns; CLOCK_MONOTONIC by the vDSO; by a system call 131 ns",
        "first write to a page: 540 ns [529, 551] ns; the page fault of fresh memory, 4 KiB",
        "opening and closing a file: 1.19 µs [1.17, 1.21] µs; a file in the scratch folder, by its whole name",
        "fork, smallest process: 44.0 µs [43.1, 44.9] µs; with the child’s exit and the wait for it; exec of a program as small 33.0 µs",
        "fork with 1 GiB written: 19.8 ms [19.0, 20.8] ms; extrapolated from sizes up to 256 MiB, 57.0 ns a page of 4 KiB; in huge pages 280 µs",
        "starting a program: 60.0 µs [58.8, 61.2] µs; posix_spawn from a process of 256 MiB; fork and exec 3.90 ms",
        "context switch: 1.60 µs [1.57, 1.63] µs; a byte handed to another process on the same cpu; without the switch 700 ns",
        "waking a thread and back: 82.0 µs [80.4, 83.6] µs; from sleep, on another cpu; on the same cpu 3.90 µs",
        "cache line, there and back: 310 ns [310, 310] ns; between two cpus, 1 times during the run",
        "shadow fork and join: 323 ns [317, 329] ns; a shadow thread that waits awake, 1.04 × the cache line; a new thread 83.0 µs",
        "300 reads in parallel: 19.0 µs [18.6, 19.4] µs; 0.373 × the plain calls’ 51.0 µs, with 2 processing threads",
    ];
    assert_eq!(said, expected);
    for figure in &headline.figures {
        assert!(figure.name.chars().count() <= 26, "{}", figure.name);
    }
}

#[test]
fn the_line_is_one_figure_with_its_range() {
    let mut result = full("host", 1.0);
    for (at, row) in result.rows.iter_mut().enumerate() {
        row.visits[0].round_trip_before_ns = Some(60.0 + at as f64);
    }
    let headline = headline(&result);
    let line = figure(&headline, "line");
    assert!(line.interval[0] < line.value && line.value < line.interval[1], "{line:?}");
    assert!(line.interval[0] > 60.0 && line.interval[1] < 60.0 + result.rows.len() as f64);
}

#[test]
fn a_disturbed_row_marks_its_figure() {
    let said = of(vec![disturbed(row("entry.getppid", Params::new(), 86.0), "steal")]);
    assert!(figure(&said, "system-call").disturbed);
    let mut result = full("host", 1.0);
    assert!(!figure(&headline(&result), "fork-gib").disturbed);
    let mut rows = result.rows.iter_mut();
    let below = rows.find(|row| row.params.get("anon_bytes") == Some(&(64 * MIB).into()));
    below.expect("a row of 64 MiB").disturbed = true;
    assert!(figure(&headline(&result), "fork-gib").disturbed);
}

#[test]
fn a_slope_whose_interval_holds_zero_says_nothing_of_a_gib() {
    let mut result = full("host", 1.0);
    let mut slopes = result.slopes.iter_mut();
    let slope = slopes.find(|slope| slope.param == "anon_bytes").expect("a slope");
    (slope.ci, slope.trend) = ([-1.0, 60.0], Trend::Unclear);
    assert!(headline(&result).figures.iter().all(|figure| figure.key != "fork-gib"));
}

#[test]
fn each_reference_is_usual_by_its_own_measure() {
    for reference in reference::all() {
        let headline = headline(reference.results());
        assert!(headline.figures.len() >= 11, "{}: {:?}", reference.name(), headline.figures);
        for figure in &headline.figures {
            let standing = figure.standing.unwrap_or_else(|| panic!("no reference has {figure:?}"));
            let own = standing.reference == reference.name();
            // Of a line that moved by itself nothing is said, not even beside itself.
            let fair = [Grade::Usual, Grade::Unclear].contains(&standing.grade);
            assert!(!own || fair, "{figure:?}");
            assert!(!own || figure.key != "system-call" || standing.grade == Grade::Usual);
            assert!(!own || (standing.ratio - 1.0).abs() < 1e-9, "{figure:?}");
        }
    }
}

#[test]
fn a_slow_machine_is_told_what_to_do() {
    let reference = &reference::all()[0];
    let mut result = reference.results().clone();
    for row in result.rows.iter_mut().filter(|row| row.case == "entry.getppid") {
        row.median *= 4.0;
        row.ci = row.ci.map(|end| end * 4.0);
    }
    let headline = headline(&result);
    let standing = figure(&headline, "system-call").standing.expect("a reference");
    assert_eq!((standing.grade, standing.ratio), (Grade::Bad, 4.0));
    let mut advice = headline.advice.iter();
    let advice = advice.find(|advice| advice.figure == Some("system-call")).expect("advice");
    let (finding, action) = (plain(&advice.finding), &advice.action);
    assert!(finding.starts_with("System call: "), "{finding}");
    assert!(finding.contains(&format!("4.00 × that of {}", standing.reference)), "{finding}");
    assert!(action.contains("mitigations"), "{action}");
}

#[test]
fn many_disturbed_rows_are_told_first() {
    let mut result = full("host", 1.0);
    for row in &mut result.rows {
        row.disturbed = true;
        row.visits[0].disturbances = vec!["another task held the cpu".to_owned()];
    }
    let advice = &headline(&result).advice[0];
    assert!(advice.finding.contains("most by this: another task held the cpu"), "{advice:?}");
    assert_eq!(advice.figure, None);
}

#[test]
fn without_its_companions_a_meaning_is_shorter() {
    let at = params([("anon_bytes", 0u64.into())]);
    let spawn = of(vec![row("process.spawn.posix_spawn", at, 60e3)]);
    assert_eq!(figure(&spawn, "spawn").meaning, "posix_spawn from a small process");
}

#[test]
fn what_is_extrapolated_too_far_is_left_out() {
    let mut result = full("host", 1.0);
    let slope = |r: &mut Results, ci| {
        let mut slopes = r.slopes.iter_mut();
        slopes.find(|slope| slope.param == "anon_bytes").expect("a slope").ci = ci;
    };
    slope(&mut result, [50.0, 64.0]);
    let told = headline(&result);
    let gib = figure(&told, "fork-gib");
    assert!(gib.extrapolated && gib.meaning.starts_with("extrapolated from "), "{gib:?}");
    slope(&mut result, [30.0, 84.0]);
    assert!(headline(&result).figures.iter().all(|figure| figure.key != "fork-gib"));
}

#[test]
fn a_run_that_others_used_is_not_graded() {
    let reference = &reference::all()[0];
    let mut result = reference.results().clone();
    for row in result.rows.iter_mut() {
        row.disturbed = true;
        row.median *= 4.0;
        row.ci = row.ci.map(|end| end * 4.0);
    }
    let headline = headline(&result);
    let grades = headline.figures.iter().filter_map(|figure| figure.standing);
    assert!(grades.clone().count() > 5);
    assert!(grades.clone().all(|standing| standing.grade == Grade::Unclear));
    assert!(headline.advice[0].finding.contains("nothing here is graded"), "{headline:?}");
    // And where nothing is graded nothing is advised, but what is about the run.
    let advised: Vec<_> = headline.advice.iter().filter_map(|advice| advice.figure).collect();
    assert_eq!(advised, [] as [&str; 0]);
    let page = kumiki_report::html(&[result]);
    assert!(!page.contains("What to do. "), "no question's step stands on such rows");
    let graded = kumiki_report::html(std::slice::from_ref(reference.results()));
    assert!(graded.contains("What to do. "));
}

#[test]
fn plain_calls_are_advised_where_no_end_of_an_interval_says_otherwise() {
    let with = |share: [f64; 2]| {
        let mut result = full("host", 1.0);
        let rows = result.rows.iter_mut().filter(|row| row.case == "parasc.requests");
        for row in rows.filter(|row| row.params["processing_threads"] != 0_u64.into()) {
            let Value::Number(requests) = row.params["requests"] else { continue };
            let plain = 170.0 * requests as f64;
            row.median = plain * share[1].min(0.96);
            row.ci = share.map(|end| plain * end);
        }
        kumiki_report::html(&[result]).contains("Make these calls plainly here.")
    };
    assert!(!with([0.5, 0.99]), "from half to as much: it may well pay");
    assert!(with([0.95, 1.3]));
}
