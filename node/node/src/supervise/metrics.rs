//! Services as collectors of figures read them, at a socket, in the OpenMetrics format.

use std::io;

use kumiki_metrics::{Endpoint, Kind, Text, label};
use kumiki_node_devices::runtime;
use kumiki_node_devices::service_state::ServiceState;

use crate::{Error, ErrorKind, Result, Subject};

const SOCKET: &str = "metrics.sock";

/// One family: kind, name, help, value.
type Family = (Kind, &'static str, &'static str, fn(&ServiceState) -> u64);

const FAMILIES: [Family; 3] = [
    (Kind::Gauge, "up", "1 if the node answers and is healthy.", |state| {
        u64::from(state.state == "up")
    }),
    (Kind::Counter, "restarts", "Starts after the first.", |state| state.restarts),
    (Kind::Counter, "unhealthy", "Questions that were not answered well.", |state| state.unhealthy),
];

/// The text for these nodes, by their names.
fn text(nodes: &[(String, ServiceState)]) -> String {
    let mut text = Text::new("kumiki_node");
    for (kind, name, help, value) in FAMILIES {
        let each = nodes.iter().map(|(node, state)| (label("node", node), value(state) as f64));
        text.family(kind, name, help, each);
    }
    text.end()
}

/// Answers whoever connects, in a thread of its own. One process serves them.
pub(super) fn serve(
    states: impl Fn() -> Vec<(String, ServiceState)> + Send + 'static,
) -> Result<()> {
    let path = runtime::file(SOCKET)?;
    let endpoint = Endpoint::bind(&format!("unix:{}", path.display())).map_err(|error| {
        if error.kind() != io::ErrorKind::AddrInUse {
            return Error::file(&path, error);
        }
        Error::refused(
            ErrorKind::Running,
            Subject::File(path.clone()),
            format!(
                "{}: another kumiki node supervise serves it: one keeps all services",
                path.display()
            ),
        )
    })?;
    let thread = std::thread::Builder::new().name("metrics".to_owned());
    let thread = thread.spawn(move || endpoint.serve(|| text(&states())));
    thread.map(drop).map_err(|error| Error::os("a thread for metrics", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_a_line_a_node() {
        let state = ServiceState { state: "up".into(), restarts: 3, ..ServiceState::default() };
        let waits = ServiceState { state: "waiting".into(), unhealthy: 7, ..state.clone() };
        let text = text(&[("web".into(), state), ("db".into(), waits)]);
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in [
            "# TYPE kumiki_node_up gauge",
            "kumiki_node_up{node=\"web\"} 1",
            "kumiki_node_up{node=\"db\"} 0",
            "kumiki_node_restarts_total{node=\"web\"} 3",
            "kumiki_node_unhealthy_total{node=\"db\"} 7",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }
}
