//! What the file says, and what it is refused for.

use std::collections::BTreeSet;

use super::super::Row;
use super::super::judge::Figures;
use super::file::{FILE, read};

/// Every bench that has promises.
const BENCHES: [&str; 14] = [
    "shadow",
    "against shadow",
    "parasc",
    "against parasc",
    "servers",
    "node",
    "resource",
    "process",
    "durable",
    "lab",
    "measure",
    "verdicts",
    "ahead",
    "python",
];

#[test]
fn every_promise_of_the_file_is_of_a_bench_and_told_once() {
    let (machines, all) = read(FILE).unwrap();
    for promise in &all {
        assert!(BENCHES.contains(&promise.bench.as_str()), "{}: {}", promise.bench, promise.name);
        assert!(!promise.name.replace("{best}", "").contains('{'), "{}", promise.name);
    }
    let told: BTreeSet<_> = all.iter().map(|one| (&one.bench, &one.name)).collect();
    assert_eq!(told.len(), all.len());
    assert!(machines.iter().all(|machine| !machine.is.is_empty()));
}

#[test]
fn a_floor_is_a_subject_that_the_bench_names() {
    let root = crate::run::root();
    let mut sources = String::new();
    for folder in ["dev/bench/src", "dev/peers/src", "measure/cases/src", "measure/experiments/src"]
    {
        let folder = root.join(folder);
        crate::first_lines::each_source(&folder, &mut |_, text| sources += text).unwrap();
    }
    let (_, all) = read(FILE).unwrap();
    for promise in all.iter().filter(|promise| promise.floor.is_some()) {
        let floor = promise.floor.as_deref().unwrap();
        let last = floor.rsplit('/').next().unwrap();
        assert!(sources.contains(&format!("{last}\"")), "{}: {floor}", promise.name);
    }
}

#[test]
fn a_figure_at_its_floor_holds() {
    let text = "[[machine]]\nname = \"m\"\nis = \"a machine\"\n[[promise]]\nbench = \"b\"\nname = \"p\"\ncase \
                = \"c\"\nover = \"loop\"\nat_most = 0.5\nfloor = \"bare\"\nmachine = \"m\"\nmade = \
                \"2026-11-25, x\"";
    let (_, all) = read(text).unwrap();
    let row =
        |subject: &str, ns: f64| Row::with_tail(("c", subject), "ns", (&[vec![ns]], 0.99), None);
    let judged = |ours: f64| {
        let rows = [row("kumiki", ours), row("loop", 100.0), row("bare", 50.0)];
        all[0].judge(&Figures(&rows))
    };
    assert!(judged(50.0).holds && judged(52.0).holds && !judged(53.0).holds);
    assert!(judged(52.0).figure.contains("bare 0.5"), "{}", judged(52.0).figure);
}

#[test]
fn what_says_too_little_or_too_much_is_refused() {
    let of = |text: &str| {
        let text = format!(
            "[[machine]]\nname = \"m\"\nis = \"a machine\"\n[[promise]]\nbench = \"b\"\nname = \
             \"p {{n}}\"\ncase = \"c\"\nmachine = \"m\"\nmade = \"2026-11-25, x\"\n{text}"
        );
        read(&text).map(|(_, all)| all.len()).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(of("over = \"loop\"\nat_most = 1.0"), Ok(1));
    assert!(of("over = \"loop\"").unwrap_err().contains("at_most"));
    assert!(of("over = \"loop\"\nat_most = 1.0\nbelow = 2.0").is_err());
    assert!(of("at_most = 1.0").unwrap_err().contains("over and unit"));
    assert!(of("n = \"any\"\nunit = \"ns\"\nat_most = 1.0").unwrap_err().contains("sizes"));
    assert!(of("over = \"loop\"\nat_mots = 1.0").is_err());
    assert_eq!(of("n = [1, 2]\nbusy = [1, 2, 4]\nover = \"loop\"\nat_most = [1.0, 2.0]"), Ok(6));
    assert!(of("n = [1, 2]\nover = \"loop\"\nat_most = [1.0]").unwrap_err().contains("each size"));
    assert!(
        of("over = \"loop\"\nplus = { case = \"c\", subject = \"s\" }\nat_most = 1.0").is_err()
    );
    let other = "over = \"loop\"\nat_most = 1.0\nor = { over = \"bare\" }";
    assert!(of(other).unwrap_err().contains("at_most"));
    assert_eq!(of(&other.replace(" }", ", at_most = 1.1 }")), Ok(1));
    let machine = of("over = \"loop\"\nat_most = 1.0").map(|_| ());
    assert_eq!(machine, Ok(()));
    let unknown = "[[machine]]\nname = \"m\"\nis = \"x\"\n[[promise]]\nbench = \"b\"\nname = \"p\"\ncase = \
                   \"c\"\nmachine = \"n\"\nmade = \"2026-11-25, x\"\nover = \"l\"\nat_most = 1.0";
    assert!(format!("{:#}", read(unknown).err().unwrap()).contains("no [[machine]]"));
    let when = unknown.replace("machine = \"n\"", "machine = \"m\"").replace("2026-11-25, x", "x");
    assert!(read(&when).is_err());
}
