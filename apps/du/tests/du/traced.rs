//! Events go to the file that `KUMIKI_TRACE` names, or the program says why none do.

use crate::scene::{OURS, Scene};

#[test]
fn a_trace_has_events_or_is_refused_by_name() {
    let scene = Scene::new();
    for folder in 0..60 {
        for file in 0..60 {
            scene.folder(format!("tree/{folder}")).file(format!("tree/{folder}/{file}"), 1);
        }
    }
    let counted = |trace: &str| {
        let mut command = scene.command(OURS);
        command.args(["--parallel", "-s", "tree"]).env("KUMIKI_TRACE", scene.path(trace));
        command.output().unwrap()
    };
    if cfg!(feature = "trace") {
        let output = counted("trace");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        let told = std::fs::read_to_string(scene.path("trace")).unwrap();
        assert!(told.lines().count() > 0 && told.contains(" TRACE "), "{told}");
    }
    let refused = counted("no/where");
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    let why = if cfg!(feature = "trace") { "no/where" } else { "`trace`" };
    assert!(said.contains("KUMIKI_TRACE") && said.contains(why), "{said}");
}
