//! Results of very many rows, as somebody's own cases or a hostile file make them: what is done
//! for a row does not depend on how many others there are. A page that looks each row up among
//! all others takes hours here.

use std::time::Duration;

use kumiki_measure::compare::compare;
use kumiki_measure::schema::{Machine, Params, Results, Row, Run, Skipped, Value};
use kumiki_report::{export, html};

use crate::common::{crossing, params, row};

/// Rows of each shape.
const MANY: u64 = 3000;

/// A case and parameters for each number.
type Shape = fn(u64) -> (String, Params);

/// A shape for each way in which rows are put together.
const SHAPES: [(&str, Shape); 17] = [
    ("a case each", |i| (format!("file.x{i}"), params([("bytes", (4096 * (i % 9)).into())]))),
    ("a case of three sizes each", |i| {
        (format!("file.y{}", i / 3), params([("bytes", (65536 * (i % 3)).into())]))
    }),
    ("a part each", |i| (format!("p{i}.x"), params([("bytes", (4096 * i).into())]))),
    ("a part of three sizes each", |i| {
        (format!("q{}.x", i / 3), params([("bytes", (65536 * (i % 3)).into())]))
    }),
    ("one line", |i| ("file.read".to_owned(), params([("bytes", (4096 * i).into())]))),
    ("many lines", |i| {
        let word = format!("w{}", i / 4);
        let size = (65536 * (i % 4)).into();
        ("process.fork".to_owned(), params([("data_bytes", size), ("touch", word.as_str().into())]))
    }),
    ("no size anywhere", |i| {
        let word = format!("w{i}");
        (
            "process.exec".to_owned(),
            params([("data_bytes", 0_u64.into()), ("n", word.as_str().into())]),
        )
    }),
    ("many ways", |i| {
        ("shadow.null".to_owned(), params([("way", format!("w{i}").as_str().into())]))
    }),
    ("pairs of cpus", |i| {
        let cpus = [("main_cpu", (i / 80).into()), ("helper_cpu", (i % 80).into())];
        let mut params = params(cpus);
        params.insert("wait".to_owned(), "spin".into());
        ("shadow.pair".to_owned(), params)
    }),
    ("copies", |i| {
        let way = if i % 2 == 0 { "libc".to_owned() } else { format!("w{}", i / 8) };
        (
            "shadow.copy".to_owned(),
            params([("way", way.as_str().into()), ("bytes", (i / 2).into())]),
        )
    }),
    ("requests", |i| {
        let params = [
            ("files", "own".into()),
            ("processing_threads", (i % 2).into()),
            ("requests", (i / 2).into()),
        ];
        ("parasc.requests".to_owned(), self::params(params))
    }),
    ("calls", |i| {
        let way = if i % 2 == 0 { "plain" } else { "parallel" };
        let call = format!("c{}", i / 2);
        let params =
            [("call", call.as_str().into()), ("way", way.into()), ("requests", 10_u64.into())];
        ("parasc.calls".to_owned(), self::params(params))
    }),
    ("calls of as many sizes", |i| {
        let way = if i % 2 == 0 { "plain" } else { "parallel" };
        let call = format!("c{}", i / 2);
        let params =
            [("call", call.as_str().into()), ("way", way.into()), ("requests", (i / 2).into())];
        ("parasc.calls".to_owned(), self::params(params))
    }),
    ("as many cpus", |i| {
        let mut params = params([("main_cpu", i.into()), ("helper_cpu", (i + 1).into())]);
        params.insert("wait".to_owned(), "sleep".into());
        ("shadow.pair".to_owned(), params)
    }),
    ("as many ages", |i| {
        let params = params([("threshold_ticks", i.into()), ("after_ms", i.into())]);
        ("shadow.idle_over".to_owned(), params)
    }),
    ("cores", |i| {
        let kind = if i % 2 == 0 { "per_core" } else { "shared" };
        ("resource.memory".to_owned(), params([("type", kind.into()), ("cores", (i / 2).into())]))
    }),
    ("programs started", |i| {
        let (way, size) = (format!("w{}", i % 300), Value::Number(4096 * i));
        ("resource.spawn".to_owned(), params([("way", way.as_str().into()), ("anon_bytes", size)]))
    }),
];

fn result(shape: Shape, many: u64) -> Results {
    let rows: Vec<Row> = (0..many)
        .map(|i| {
            let (case, params) = shape(i);
            let mut row = crossing(row(&case, params, 100.0 + (i % 7) as f64));
            row.disturbed = i % 5 == 0;
            row.disturbances = vec![format!("cause {i}")];
            row
        })
        .collect();
    let skipped = (0..many).map(|i| Skipped {
        case: format!("file.z{i}"),
        params: Params::new(),
        reason: format!("reason {i}"),
    });
    Results::new(Run::default(), Machine::default(), rows, skipped.collect())
}

#[test]
fn very_many_rows_are_written_in_every_form() {
    for (what, shape) in SHAPES {
        let r = result(shape, MANY);
        assert_eq!(r.rows.len() as u64, MANY, "{what}");
        let page = html(std::slice::from_ref(&r));
        assert!(page.trim_end().ends_with("</html>"), "{what}");
        let rows = page.matches("<svg class=\"bar\"").count();
        assert!(rows as u64 >= MANY, "{what}: each row is in a table: {rows}");
        let markdown = export::markdown(&r);
        assert!(markdown.contains(&format!("⚠{} ", MANY / 5)), "{what}");
        let both = html(&[r.clone(), r.clone()]);
        assert_eq!(both.matches("CIs overlap</small>").count() as u64, MANY, "{what}");
        assert_eq!(compare(&r, &r, 0.05).rows.len() as u64, MANY, "{what}");
    }
}

/// Processor time that this thread has had; `None` where the kernel does not tell.
fn ran() -> Option<Duration> {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// The least processor time of a page of so many rows.
fn page_of(shape: Shape, many: u64) -> Option<Duration> {
    let r = result(shape, many);
    let times = (0..2).map(|_| {
        let before = ran()?;
        let page = html(std::slice::from_ref(&r));
        assert!(page.trim_end().ends_with("</html>"));
        Some(ran()? - before)
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Four times as many rows take four times as long where each is looked at once, and sixteen
/// times where each is compared with all others. By processor time, and with twice the room.
#[test]
#[ignore = "two minutes; `cargo xtask test long`, after a change to pages"]
fn a_page_takes_as_long_a_row_however_many_there_are() {
    const FEW: u64 = 2000;
    for (what, shape) in SHAPES {
        let (Some(few), Some(many)) = (page_of(shape, FEW), page_of(shape, 4 * FEW)) else {
            return println!("skipped: this kernel keeps no schedstat");
        };
        println!("{what}: {few:?}, four times as many {many:?}");
        assert!(many <= 8 * few, "{what}: {FEW} rows take {few:?}, four times as many {many:?}");
    }
}
