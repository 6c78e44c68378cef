use std::fs;

use proptest::prelude::*;

use super::*;
use crate::stats::simulate;

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("deep/er/results.db")).unwrap();
    (folder, store)
}

fn visit(samples: &[f64]) -> Visit {
    Visit { batch: 3, samples: samples.to_vec(), ..Visit::default() }
}

fn labelled(label: &str) -> Run {
    Run { label: Some(label.to_owned()), ..Run::default() }
}

fn add(store: &mut Store, id: RunId, case: &str, pass: usize, samples: &[f64]) -> Result<()> {
    let unit = Unit::Nanoseconds;
    store.visit(id, case, &Params::new(), unit, &[1, 0], pass, &visit(samples))
}

/// The refusal's text; the file must be as it was.
fn refusal(path: &Path) -> String {
    let before = fs::read(path).ok();
    let error = Store::open(path).expect_err("refused").to_string();
    assert_eq!(fs::read(path).ok(), before, "the file was changed");
    assert!(error.contains(path.to_str().unwrap()) || before.is_none(), "{error}");
    error
}

#[test]
fn visits_become_rows_in_order_of_appearance() {
    let (_folder, mut store) = store();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    add(&mut store, id, "b", 0, &[1.0, 2.0]).unwrap();
    add(&mut store, id, "a", 0, &[5.0]).unwrap();
    add(&mut store, id, "b", 1, &[3.0]).unwrap();
    let skipped = Skipped { case: "c".into(), params: Params::new(), reason: "no cpu".into() };
    store.skipped(id, &skipped).unwrap();
    let machine = Machine { hostname: "h".into(), ..Machine::default() };
    store.finish(id, &Run { complete: true, ..Run::default() }, &machine).unwrap();

    let results = store.load(id).unwrap();
    let rows: Vec<_> = results.rows.iter().map(|r| (r.case.as_str(), r.n, r.median)).collect();
    assert_eq!(rows, [("b", 3, 2.0), ("a", 1, 5.0)]);
    assert_eq!(results.rows[0].visits[1].samples, [3.0]);
    assert_eq!(results.rows[0].cpus, [1, 0]);
    assert_eq!(results.skipped, [skipped]);
    let listed = store.list().unwrap();
    assert_eq!((listed.len(), listed[0].id, listed[0].rows), (1, id, 2));
    assert!(listed[0].run.complete);
    assert_eq!(listed[0].machine, machine);
}

#[test]
fn runs_are_found_by_number_label_and_age() {
    let (_folder, mut store) = store();
    let nothing = store.resolve("latest").unwrap_err().to_string();
    assert!(nothing.contains("no run \"latest\"; there is none yet"), "{nothing}");
    let ids =
        ["old", "new", "old"].map(|l| store.begin(&labelled(l), &Machine::default()).unwrap());
    assert_eq!(store.resolve("latest").unwrap(), ids[2]);
    assert_eq!(store.resolve("latest~2").unwrap(), ids[0]);
    assert_eq!(store.resolve(&ids[0].to_string()).unwrap(), ids[0]);
    assert_eq!(store.resolve("old").unwrap(), ids[2]);
    for asked in ["latest~3", "99", "latest~x", ""] {
        let error = store.resolve(asked).unwrap_err().to_string();
        assert!(error.ends_with("there are, newest first: 3 (old), 2 (new), 1 (old)"), "{error}");
    }
}

#[test]
fn removed_run_is_gone_and_its_number_with_it() {
    let (_folder, mut store) = store();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    add(&mut store, id, "a", 0, &[1.0]).unwrap();
    store.remove(id).unwrap();
    let left: i64 =
        store.connection.query_row("SELECT count(*) FROM visits", [], |r| r.get(0)).unwrap();
    assert_eq!(left, 0);
    assert!(matches!(store.remove(id), Err(Error::NoSuchRun { .. })));
    assert!(matches!(store.load(id), Err(Error::NoSuchRun { .. })));
    assert!(matches!(add(&mut store, id, "a", 0, &[1.0]), Err(Error::NoSuchRun { .. })));
    assert!(matches!(
        store.finish(id, &Run::default(), &Machine::default()),
        Err(Error::NoSuchRun { .. })
    ));
    assert_ne!(store.begin(&Run::default(), &Machine::default()).unwrap(), id);
}

#[test]
fn impossible_values_are_not_stored() {
    let (_folder, mut store) = store();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    for (samples, says) in [
        (&[][..], "no samples"),
        (&[1.0, f64::NAN], "sample 1 is NaN"),
        (&[-1.0], "sample 0 is -1"),
    ] {
        let error = add(&mut store, id, "a.b", 0, samples).unwrap_err().to_string();
        assert!(error.contains("a.b [ns]") && error.contains(says), "{error}");
    }
    let mut results = store.load(id).unwrap();
    let row = |samples| {
        let unit = Unit::Nanoseconds;
        crate::schema::Row::summarise("a", Params::new(), unit, vec![], vec![visit(samples)])
    };
    results.rows = vec![row(&[1.0]), row(&[2.0])];
    let twice = store.import(&results).unwrap_err().to_string();
    assert!(twice.contains("a [ns] is there twice"), "{twice}");
    assert_eq!(store.list().unwrap().len(), 1, "half an import stayed");
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");

    assert!(refusal(folder.path()).contains("directory"));
    fs::write(&path, "dear diary").unwrap();
    assert!(refusal(&path).contains("not a database of Kumiki (it is not an SQLite database)"));
    assert!(refusal(&path.join("below.db")).contains("below.db: Not a directory"));
    assert!(refusal(Path::new("/proc/kumiki/x.db")).contains("/proc/kumiki: "));
    assert!(refusal(Path::new("/dev/null")).contains("not a regular file"));

    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmarks(url)").unwrap();
    assert!(refusal(&path).contains("database of another program"));
}

/// Checks that a file is made once, at whatever moment of that others look at it.
#[test]
fn many_make_the_same_database() {
    for _ in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        std::thread::scope(|scope| {
            for after in 0..16 {
                let path = &path;
                scope.spawn(move || {
                    std::thread::sleep(std::time::Duration::from_micros(100 * after));
                    Store::open(path).map(drop).unwrap_or_else(|e| panic!("{e}"))
                });
            }
        });
    }
}

#[test]
fn newer_schema_is_refused_and_left_alone() {
    let (_folder, store) = store();
    let path = store.path().to_owned();
    store.connection.pragma_update(None, "user_version", 7).unwrap();
    drop(store);
    let error = refusal(&path);
    assert!(error.contains("has schema 7, this program knows schema 1"), "{error}");
    assert!(error.contains("update Kumiki"), "{error}");
}

#[test]
fn damaged_database_is_refused_and_left_alone() {
    let (_folder, mut store) = store();
    let path = store.path().to_owned();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    add(&mut store, id, "a", 0, &[1.0; 4000]).unwrap();
    drop(store);
    let whole = fs::read(&path).unwrap();
    // The header stays, the first page's content goes.
    let mut damaged = whole.clone();
    damaged[100..4096].fill(0x5a);
    fs::write(&path, &damaged).unwrap();
    let error = refusal(&path);
    assert!(error.contains("damaged") && error.contains("left as it is"), "{error}");
    // Cut in the middle of the samples.
    fs::write(&path, &whole[..whole.len() - 9000]).unwrap();
    let error = match Store::open(&path) {
        Ok(store) => store.load(id).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn damaged_samples_are_named() {
    let (_folder, mut store) = store();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    let other = store.begin(&Run::default(), &Machine::default()).unwrap();
    for id in [id, other] {
        add(&mut store, id, "file.read", 0, &[1.0]).unwrap();
    }
    for (change, says) in [
        ("samples = x'00112233'", "4 bytes of samples"),
        ("samples = x''", "has no samples"),
        ("samples = x'000000000000f87f'", "sample 0 is NaN"),
        ("facts = '{'", "EOF"),
        ("unit = '\"apples\"'", "apples"),
    ] {
        let whole = "UPDATE visits SET samples = x'000000000000f03f', facts = (SELECT facts FROM visits WHERE run = 2), unit = '\"ns\"' WHERE run = 1";
        store.connection.execute(whole, []).unwrap();
        store.load(id).unwrap();
        store.connection.execute(&format!("UPDATE visits SET {change} WHERE run = 1"), []).unwrap();
        let error = store.load(id).unwrap_err().to_string();
        assert!(error.contains("run 1: visit 1 of file.read {}: "), "{error}");
        assert!(error.contains(says) && error.contains("results rm 1"), "{error}");
        store.load(other).unwrap();
    }
}

#[test]
fn journal_of_a_dead_process_is_played_back() {
    let (folder, mut store) = store();
    let id = store.begin(&Run::default(), &Machine::default()).unwrap();
    // Where write-ahead logs are not available, a transaction that outgrows
    // the cache is in the file before it is committed, the original in a
    // journal beside it.
    let half = "PRAGMA journal_mode = delete; PRAGMA cache_size = 2; BEGIN;
        INSERT INTO skipped (run, name, params, reason)
        SELECT 1, value, '{}', printf('%.9000c', 'x') FROM json_each('[1, 2, 3, 4, 5, 6]')";
    store.connection.execute_batch(half).unwrap();
    let copy = folder.path().join("copy.db");
    fs::copy(store.path(), &copy).unwrap();
    let journal = |path: &Path| PathBuf::from(format!("{}-journal", path.display()));
    fs::copy(journal(store.path()), journal(&copy)).unwrap();

    let found = Store::open(&copy).unwrap().load(id).unwrap();
    assert_eq!(found.skipped, []);
    assert!(!journal(&copy).exists());
}

#[test]
fn empty_file_and_strange_names_are_fine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file:a?mode=memory#ö .db");
    fs::write(&path, "").unwrap();
    let id = Store::open(&path).unwrap().begin(&Run::default(), &Machine::default()).unwrap();
    assert_eq!(Store::open(&path).unwrap().resolve("latest").unwrap(), id);
}

#[test]
fn default_is_in_the_data_folder() {
    assert!(Store::default_path().unwrap().ends_with("kumiki/results.db"));
}

#[test]
fn many_open_a_new_database_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut store = Store::open(&path).unwrap();
                let id = store.begin(&Run::default(), &Machine::default()).unwrap();
                add(&mut store, id, "a", 0, &[1.0]).unwrap();
            });
        }
    });
    assert_eq!(Store::open(&path).unwrap().list().unwrap().len(), 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn imported_results_load_equal(results in simulate::results()) {
        let (_folder, mut store) = store();
        let first = store.import(&results).unwrap();
        prop_assert!(first.new);
        prop_assert_eq!(&store.load(first.id).unwrap(), &results);
        // Again it is the same run; with one more sample it is another one.
        let again = store.import(&results).unwrap();
        prop_assert_eq!(again, Imported { id: first.id, new: false });
        let mut other = results;
        if let Some(row) = other.rows.first_mut() {
            row.visits[0].samples.push(1.0);
            prop_assert!(store.import(&other).unwrap().new);
        }
    }
}
