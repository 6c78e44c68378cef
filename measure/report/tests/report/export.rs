//! CSV, Markdown and JSON of made-up results.

use crate::common::{KIB, disturbed, empty, full, params, row};
use kumiki_measure::schema::{Params, Results, Unit};
use kumiki_report::export;

fn csv(results: &Results) -> String {
    let mut out = Vec::new();
    export::csv(results, &mut out).expect("memory takes it");
    String::from_utf8(out).expect("text")
}

#[test]
fn csv_has_the_same_columns_whatever_was_measured() {
    let mut r = empty("host");
    let mut rate = row("ipc.pipe.bandwidth", params([("bytes", (64 * KIB).into())]), 3.5);
    rate.unit = Unit::GigabytesPerSecond;
    rate.round_trip_ns = None;
    rate.quiet_ci = None;
    r.rows = vec![
        rate,
        disturbed(
            row("process.fork", params([("touch", "a,b".into()), ("huge", true.into())]), 100.0),
            "steal",
        ),
    ];
    r.run.label = Some("=1".to_owned());
    let head = "host,started,label,case,parameters,unit,n,median,p99,ci_low,ci_high,min,mad,\
                outliers,cpu_ns,disturbed,round_trip_ns,quiet,quiet_low,quiet_high";
    assert_eq!(
        csv(&r),
        format!(
            "{head}\n\
         host,2026-11-20T09:30:00Z,'=1,ipc.pipe.bandwidth,bytes=65536,GB/s,120,3.5,4.8999999999999995,3.4299999999999997,3.5700000000000003,3.2550000000000003,0.07,2,3.1500000000000004,false,,3.5,,\n\
         host,2026-11-20T09:30:00Z,'=1,process.fork,\"huge=true;touch=a,b\",ns,120,100,140,98,102,93,2,2,90,true,310,100,90,110.00000000000001\n"
        )
    );
    // Two files of different cases are put together by cat, but for the second's head.
    assert_eq!(csv(&full("other", 1.0)).lines().next(), Some(head));
}

#[test]
fn csv_of_nothing_is_its_head() {
    assert_eq!(csv(&empty("host")).lines().count(), 1);
}

#[test]
fn csv_holds_every_row() {
    let r = full("host", 1.0);
    let text = csv(&r);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let head = reader.headers().expect("a head").clone();
    let [case, median] = ["case", "median"]
        .map(|column| head.iter().position(|name| name == column).expect("a column"));
    let lines: Vec<_> = reader.records().map(|line| line.expect("well-formed")).collect();
    assert_eq!(lines.len(), r.rows.len());
    for (line, row) in lines.iter().zip(&r.rows) {
        assert_eq!(&line[case], row.case);
        assert_eq!(line[median].parse(), Ok(row.median));
    }
}

#[test]
fn json_reads_back_as_the_same_result() {
    let r = full("host", 1.0);
    let mut out = Vec::new();
    export::json(&r, &mut out).expect("memory takes it");
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
    assert_eq!(serde_json::from_slice::<Results>(&out).expect("a result"), r);
}

#[test]
fn a_full_disk_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let kind = |result: std::io::Result<()>| result.expect_err("full").kind();
    assert_eq!(kind(export::json(&full("host", 1.0), Full)), std::io::ErrorKind::StorageFull);
    assert_eq!(kind(export::csv(&full("host", 1.0), Full)), std::io::ErrorKind::StorageFull);
}

#[test]
fn markdown_has_a_line_for_each_row_with_its_figures() {
    let mut r = empty("host");
    let case = row("process.fork", params([("data_bytes", (64 * KIB).into())]), 45_300.0);
    r.rows = vec![disturbed(case, "steal 3 %"), row("entry.getppid", Params::new(), 86.0)];
    let text = export::markdown(&r).replace('\u{202f}', " ");
    for line in [
        "# What the operating system costs on host",
        "> ⚠ 1 of 2 rows was disturbed by other work on the machine; ⚠ marks it and the tables say why.",
        "| figure | value | 95 % CI | standing | |",
        "| processor | Example Processor 8272 @ 2.60GHz |",
        "## Processes",
        "| process.fork | data 64 KiB | **45.3 µs** ⚠1 | [44.4, 46.2] µs | 63.4 µs | 42.1 µs | 40.8 µs | 120 | 2 |  |",
        "- ⚠1 steal 3 %",
        "## Entering the kernel",
        "    kumiki report --output page.html",
    ] {
        assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
    }
}

#[test]
fn markdown_says_slopes_and_what_was_skipped() {
    let text = export::markdown(&full("host", 1.0)).replace('\u{202f}', " ");
    let slope = "| process.fork | memory | written | **57.0 ns** | [54.7, 59.9] ns | 44.0 µs | 0.997 | 128 MiB | 78.0 ns |";
    assert!(text.contains(slope), "{text}");
    assert!(text.contains(
        "- process.fork memory 1 GiB · huge pages · written: huge pages are not available"
    ));
}

#[test]
fn markdown_keeps_text_text() {
    let mut r = empty("a|b <i>*c*</i>");
    r.machine.cpu_model = "x\n# y".to_owned();
    let text = export::markdown(&r);
    assert!(
        text.contains(r"# What the operating system costs on a\|b &lt;i>\*c\*&lt;/i>"),
        "{text}"
    );
    assert!(text.contains(r"| processor | x \# y |"), "{text}");
}

#[test]
fn an_interrupted_run_says_so() {
    let mut r = full("host", 1.0);
    assert!(!export::markdown(&r).contains("incomplete"));
    r.run.complete = false;
    assert!(export::markdown(&r).contains("incomplete"));
}
