//! The units for systemd that lie beside the programs: what they call is there, and servers are
//! confined alike.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::common::Home;

const APPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Settings in which the unit of one server may differ from that of another; all others confine it.
const OF_ITS_OWN: [&str; 12] = [
    "EnvironmentFile",
    "ExecReload",
    "ExecStart",
    "KillSignal",
    "LimitNOFILE",
    "Restart",
    "RestartSec",
    "RuntimeDirectory",
    "StateDirectory",
    "StateDirectoryMode",
    "TimeoutStopSec",
    "Type",
];

/// All units: the program's folder, the unit's name, its text.
fn units() -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for app in fs::read_dir(APPS).unwrap() {
        let app = app.unwrap();
        let Ok(folder) = fs::read_dir(app.path().join("systemd")) else { continue };
        for unit in folder {
            let unit = unit.unwrap();
            let [app, name] =
                [app.file_name(), unit.file_name()].map(|it| it.into_string().unwrap());
            all.push((app, name, fs::read_to_string(unit.path()).unwrap()));
        }
    }
    all.sort();
    all
}

/// Commands of ours in a unit; a line of shell may have several.
fn commands(unit: &str) -> Vec<String> {
    let lines = unit.lines().filter(|line| line.starts_with("Exec"));
    let parts = lines.flat_map(|line| line.split([';', '\'', '=']));
    let calls = parts.filter_map(|part| {
        let (_, words) = part.split_once("kumiki ")?;
        // What stands in another file is not known here.
        Some(words.split(" ${").next()?.to_owned())
    });
    calls.collect()
}

#[test]
fn units_call_commands_that_there_are() {
    let home = Home::new();
    let mut seen = 0;
    for (_, _, unit) in units() {
        for command in commands(&unit) {
            let words: Vec<_> = command
                .split_whitespace()
                .filter(|word| !word.ends_with("--nats"))
                .chain(["--help"])
                .collect();
            home.kumiki(&words).assert().code(0);
            seen += 1;
        }
    }
    assert!(seen >= 7, "{seen}");
}

/// Programs beside the command, by their manual pages, which their own tests hold against what
/// they take.
#[test]
fn units_start_servers_by_options_that_there_are() {
    let mut seen = 0;
    for (app, name, unit) in units() {
        let starts = unit.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/"));
        for words in starts.filter(|words| !words.starts_with("kumiki ")) {
            let mut words = words.split_whitespace();
            let program = words.next().unwrap();
            assert_eq!(program, format!("kumiki-{app}"), "{name}");
            let page = PathBuf::from(APPS).join(&app).join(format!("{program}.1"));
            let page = fs::read_to_string(&page).unwrap_or_else(|_| panic!("{}", page.display()));
            // What a comment tells to set is an option, too.
            let told = unit.lines().filter(|line| line.starts_with('#'));
            let told = told.flat_map(|line| line.split([' ', '"']));
            for option in words.chain(told).filter(|word| word.starts_with("--")) {
                let listed = format!("\\fB{}\\fR", option.replace('-', "\\-"));
                assert!(page.contains(&listed), "{name}: {program} has no {option}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 5, "{seen} options");
}

/// Pages that units name are installed with them.
#[test]
fn units_name_pages_that_there_are() {
    let mut seen = 0;
    for (app, name, unit) in units() {
        let lines = unit.lines().filter_map(|line| line.strip_prefix("Documentation="));
        for page in lines.flat_map(|line| line.split(' ')) {
            let page = page.strip_prefix("man:").unwrap_or_else(|| panic!("{name}: {page}"));
            let (title, section) = page.trim_end_matches(')').split_once('(').unwrap();
            let file = PathBuf::from(APPS).join(&app).join(format!("{title}.{section}"));
            // Those of the command are made by `kumiki man`.
            let is_made = app == "cli" && section == "1";
            assert!(is_made || file.is_file(), "{name}: {}", file.display());
            seen += 1;
        }
    }
    assert!(seen >= 2, "{seen} pages");
}

/// What confines one server confines the others.
#[test]
fn servers_are_confined_alike() {
    let confined: BTreeMap<String, Vec<String>> = units()
        .into_iter()
        .filter(|(app, name, _)| app != "cli" && name.ends_with(".service"))
        .map(|(_, name, unit)| {
            let service =
                unit.split("[Service]").nth(1).unwrap().split("[Install]").next().unwrap();
            let lines = service.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            let is_common =
                |line: &&str| !OF_ITS_OWN.contains(&line.split('=').next().unwrap_or_default());
            let mut lines: Vec<_> = lines.filter(is_common).map(str::to_owned).collect();
            lines.sort();
            (name, lines)
        })
        .collect();
    assert_eq!(confined.len(), 2, "{:?}", confined.keys());
    let (httpd, kv) = (&confined["kumiki-httpd.service"], &confined["kumiki-kv.service"]);
    assert!(httpd.len() > 20, "{httpd:?}");
    assert_eq!(httpd, kv);
}
