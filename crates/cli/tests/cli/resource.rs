//! `kumiki resource`: this process publishes something, and the command lists it.

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
        let row = text.lines().find(|line| line.contains("/memory/buffer")).unwrap();
        assert!(
            row.contains(&pid) && row.contains("256 frames") && row.contains("1\u{202f}MiB"),
            "{row}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    let output = kumiki(&["ls", "--json"]).assert().success().get_output().clone();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["id"], buffer.id().to_string());
    assert_eq!(json[0]["bytes"], 1 << 20);

    kumiki(&["ls", "*/flag/*"]).assert().code(1);
    for (args, what) in
        [(&["ls", "["][..], "is no pattern"), (&["ls", "--pid", "1"], "asking the process")]
    {
        let output = kumiki(args).assert().code(2).get_output().clone();
        assert!(String::from_utf8(output.stderr).unwrap().contains(what), "{args:?}");
    }
}
