//! `kumiki resource`: this process publishes something, and the command lists it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;

use kumiki_resource::{Interface, Memory};

use crate::common::Home;

#[test]
fn what_a_process_publishes_is_listed() {
    let home = Home::new();
    let runtime = home.path("run");
    let kumiki = |args: &[&str]| {
        let mut command = home.kumiki(&[&["resource"], args].concat());
        command.env("XDG_RUNTIME_DIR", &runtime);
        command
    };
    std::fs::create_dir(&runtime).unwrap();
    let nothing = kumiki(&["ls"]).assert().code(1).get_output().clone();
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("no running process"));

    let interface = Interface::builder().kind::<Memory>().per_core().unwrap();
    let place = interface.places()[0];
    let buffer = interface.create::<Memory>(place, Some("buffer"), 256).unwrap();
    let _published = interface.publish_in(&runtime.join("kumiki")).unwrap();

    let pid = std::process::id().to_string();
    for args in [&["ls"][..], &["ls", "*/memory/b*"], &["ls", "--pid", &pid]] {
        let output = kumiki(args).assert().success().get_output().clone();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|line| line.trim_start().starts_with("memory/b"));
        let at = at.unwrap_or_else(|| panic!("{text}"));
        for part in ["memory/buffer", "core", "256 frames", "1 MiB"] {
            assert!(lines[at].contains(part), "{part}: {text}");
        }
        let core = lines[..at].iter().rposition(|line| line.starts_with("  core"));
        let core = core.unwrap_or_else(|| panic!("{text:?}"));
        assert!(lines[..core].iter().any(|line| line.starts_with(&pid)), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let output = kumiki(&["ls", "--json"]).assert().success().get_output().clone();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let json = json.as_array().unwrap();
    let named = |name: &str| json.iter().find(|row| row["name"].as_str().unwrap().contains(name));
    let row = named("/memory/buffer").unwrap();
    assert_eq!(row["id"], buffer.id().to_string());
    assert_eq!((&row["bytes"], &row["process"]), (&(1 << 20).into(), &std::process::id().into()));
    assert_eq!(named("/server/").unwrap()["state"], "serving");

    // One without a name is one row with others, unless all are asked for.
    let loose = interface.create::<Memory>(place, None, 1).unwrap();
    let _other = interface.create::<Memory>(place, None, 2).unwrap();
    let text = |args: &[&str]| {
        let output = kumiki(args).assert().success().get_output().clone();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(text(&["ls"]).contains("memory/(2 without a name)"), "{}", text(&["ls"]));
    let id = loose.id().to_string();
    assert!(text(&["ls", "--all"]).contains(&id) && !text(&["ls"]).contains(&id));

    for _ in 0..1000 {
        interface.with(&buffer, |_, _| ()).unwrap();
    }
    let looks = text(&["top", "--count", "2", "--every", "1", "*/memory/*"]);
    assert!(!looks.contains('\x1b'), "{looks}");
    let heads: Vec<_> = looks.lines().filter(|line| line.contains(" calls/s")).collect();
    assert_eq!(heads.len(), 4, "a summary and headings twice: {looks}");
    // What was called most often comes first.
    let first = looks.lines().nth(3).unwrap();
    assert!(first.contains("/memory/buffer"), "{looks}");

    kumiki(&["ls", "*/flag/*"]).assert().code(1);
    for (args, what) in
        [(&["ls", "["][..], "is no pattern"), (&["ls", "--pid", "1"], "asking the process")]
    {
        let output = kumiki(args).assert().code(2).get_output().clone();
        assert!(String::from_utf8(output.stderr).unwrap().contains(what), "{args:?}");
    }
}

/// Whoever is of the same user can put a socket there, and answer anything.
#[test]
fn another_party_s_words_stay_within_their_row() {
    let home = Home::new();
    let runtime = home.path("run");
    std::fs::create_dir_all(runtime.join("kumiki")).unwrap();
    let number = u32::MAX;
    let socket = runtime.join(format!("kumiki/{number}.sock"));
    let listener = UnixListener::bind(socket).unwrap();
    let interface = Interface::builder().kind::<Memory>().per_core().unwrap();
    let id = interface.create::<Memory>(interface.places()[0], None, 1).unwrap().id();
    let row = |name: &str, state: &str| {
        format!(
            r#"[{{"name":"{name}","id":"{id}","named":true,"owner":"me\u001b[31m",
                "calls":18446744073709551615,"state":"{state}","bytes":18446744073709551615}}]"#
        )
    };
    let answers = [
        row("core0/memory/a", r"idle\n1 init\r\u001b[2J\u202e"),
        row(r"core0/memory/a\n1 init", "idle"),
        r#"{"error":"no\u001b[2J\n1 init"}"#.to_owned(),
    ];
    for (n, answer) in answers.iter().enumerate() {
        for command in ["ls", "top"] {
            let seen = std::thread::scope(|scope| {
                scope.spawn(|| {
                    // The first only looks whether there is somebody.
                    for _ in 0..2 {
                        let (mut client, _) = listener.accept().unwrap();
                        let _ = BufReader::new(&client).read_line(&mut String::new());
                        let _ = client.write_all(answer.as_bytes());
                    }
                });
                let once = if command == "top" { &["--count", "1"][..] } else { &[] };
                let mut command = home.kumiki(&[&["resource", command], once].concat());
                command.env("XDG_RUNTIME_DIR", &runtime).assert().get_output().clone()
            });
            let text = [seen.stdout, seen.stderr].concat();
            let text = String::from_utf8(text).unwrap();
            assert!(!text.contains(['\x1b', '\r', '\u{202e}']), "{text:?}");
            assert!(!text.lines().any(|line| line.starts_with("1 init")), "{text:?}");
            let expected = ["memory/a", "is no listing", "answers: no"][n];
            assert!(text.contains(expected), "{expected}: {text:?}");
        }
    }
}
