//! Events go to the file that `KUMIKI_TRACE` names, or the program says why none do.

use std::process::Command;

use crate::scene::Server;
use crate::{FAILED, PROGRAM};

#[test]
fn a_trace_has_events_or_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let started = |trace: &std::path::Path| {
        let mut command = Command::new(PROGRAM);
        command.args(["--port", "0"]).env("KUMIKI_TRACE", trace);
        command
    };
    if cfg!(feature = "trace") {
        let server = Server::of(started(&trace));
        assert_eq!(server.ask(b"SET a 1\r\nGET a\r\nQUIT\r\n"), "+OK\r\n$1\r\n1\r\n+OK\r\n");
        drop(server);
        let told = std::fs::read_to_string(&trace).unwrap();
        assert!(told.contains(" TRACE ") && told.contains("a worker serves"), "{told}");
    }
    let nowhere = if cfg!(feature = "trace") { folder.path().join("no/where") } else { trace };
    let refused = started(&nowhere).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(FAILED), "{said}");
    let why = if cfg!(feature = "trace") { "no/where" } else { "`trace`" };
    assert!(said.contains("KUMIKI_TRACE") && said.contains(why), "{said}");
}
