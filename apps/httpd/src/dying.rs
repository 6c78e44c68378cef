//! A worker that dies, in tests: of a process of its own, which is told by a variable.

/// Variable by which a process has its workers panic.
pub(crate) const DIES: &str = "KUMIKI_HTTPD_TEST_DIES";

/// Panics if it is asked to, at the place where a worker begins to serve.
pub(crate) fn dies_if_asked() {
    assert!(std::env::var_os(DIES).is_none(), "something that nobody thought of");
}
