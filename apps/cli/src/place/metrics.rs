//! `kumiki place serve --metrics`: what its places have done, for who collects figures.

use std::thread;

use anyhow::{Context, Result};
use kumiki_metrics::{Endpoint, Kind, Text, label};
use kumiki_places::Figures;

use crate::output;

/// An address that is this command's.
pub(super) struct Metrics(Endpoint);

impl Metrics {
    pub(super) fn bind(at: &str) -> Result<Self> {
        Endpoint::bind(at).map(Metrics).context("--metrics")
    }

    /// Answers there, by a thread of its own, until the process ends.
    pub(super) fn tell(self, figures: impl Fn() -> Vec<Figures> + Send + 'static) -> Result<()> {
        if let Some(address) = self.0.address() {
            output::talk(format_args!("metrics at http://{address}/metrics"));
        }
        let builder = thread::Builder::new().name("metrics".to_owned());
        builder.spawn(move || self.0.serve(|| text(&figures()))).context("--metrics")?;
        Ok(())
    }
}

fn text(places: &[Figures]) -> String {
    let mut text = Text::new("kumiki_place");
    let mut family = |name: &str, help: &str, of: fn(&Figures) -> f64| {
        let each = places.iter().map(|place| (label("place", &place.place), of(place)));
        text.family(Kind::Counter, name, help, each);
    };
    family("messages", "Messages of callers that were answered.", |of| of.messages as f64);
    family("busy_seconds", "Time for which a place was at them.", |of| of.busy.as_secs_f64());
    let direct = places.iter().map(|place| (label("place", &place.place), place.direct as f64));
    let help = "Callers that have a connection of their own, beside the NATS server.";
    text.family(Kind::Gauge, "own_connections", help, direct);
    text.one(Kind::Gauge, "served", "Places that are served.", places.len() as u64);
    text.end()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_place_has_its_figures() {
        let place = |name: &str, messages| Figures {
            place: name.to_owned(),
            messages,
            busy: Duration::from_millis(1500),
            direct: 2,
        };
        let text = text(&[place("web.core0", 3), place("web.core1", 0)]);
        for line in [
            "kumiki_place_messages_total{place=\"web.core0\"} 3\n",
            "kumiki_place_busy_seconds_total{place=\"web.core1\"} 1.5\n",
            "kumiki_place_own_connections{place=\"web.core1\"} 2\n",
            "kumiki_place_served 2\n# EOF\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
