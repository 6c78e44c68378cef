//! Events go to the file that `KUMIKI_TRACE` names, or the program says why none do.

use std::process::Command;

use crate::scene::Server;
use crate::{FAILED, PROGRAM};

#[test]
fn a_trace_has_events_or_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    if cfg!(feature = "trace") {
        let trace = folder.path().join("trace");
        let served = tempfile::tempdir().unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg(served.path()).env("KUMIKI_TRACE", &trace);
        let server = Server::by(command, served, &[]);
        assert_eq!(server.get("/none", "").status, 404);
        drop(server);
        let told = std::fs::read_to_string(&trace).unwrap();
        assert!(told.lines().count() > 0 && told.contains(" TRACE "), "{told}");
    }
    let mut command = Command::new(PROGRAM);
    command.arg(folder.path()).args(["--listen", "127.0.0.1:0"]);
    let refused = command.env("KUMIKI_TRACE", folder.path().join("no/where")).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(FAILED), "{said}");
    let why = if cfg!(feature = "trace") { "no/where" } else { "`trace`" };
    assert!(said.contains("KUMIKI_TRACE") && said.contains(why), "{said}");
}
