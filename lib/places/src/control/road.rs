//! The road to a place: whichever transport was found for it.

use kumiki_resource::kind::Kind;
use kumiki_resource::{Listed, Name};

use crate::control::home::Home;
use crate::control::line_road::LineRoad;
use crate::control::net::Net;
use crate::control::transport::{Limit, Transport};
use crate::error::Result;
use crate::part::{Part, Portable};
use crate::reference::Reference;

/// The way to a place that was found.
pub(crate) enum Road {
    /// This process: its own core, or another one's line.
    Home(Home),
    /// Lines in memory.
    Lines(LineRoad),
    /// Messages.
    Net(Net),
}

/// Has the road that there is do it.
macro_rules! by {
    ($road:expr, $its:ident => $does:expr) => {
        match $road {
            Road::Home($its) => $does,
            Road::Lines($its) => $does,
            Road::Net($its) => $does,
        }
    };
}

impl Road {
    /// Its name for a person, as it goes to this place.
    pub(crate) fn name(&self, place: &str) -> &'static str {
        match self {
            Road::Home(_) => "home",
            Road::Lines(_) => "lines",
            Road::Net(net) if net.client.has_direct(place) => "own connection",
            Road::Net(_) => "messages",
        }
    }

    /// True if what finds nobody by one finds nobody by the other.
    pub(crate) fn is_same_way(&self, other: &Road) -> bool {
        match (self, other) {
            (Road::Home(_), Road::Home(_)) => true,
            (Road::Net(net), Road::Net(other)) => net.is_by_same(other),
            _ => false,
        }
    }
}

impl Transport for Road {
    fn create<K: Portable>(
        &self,
        place: &str,
        unique: Option<&str>,
        spec: K::Spec,
        limit: Limit,
    ) -> Result<Reference<K>> {
        by!(self, road => road.create(place, unique, spec, limit))
    }

    fn open<K: Kind>(&self, name: &Name, limit: Limit) -> Result<Reference<K>> {
        by!(self, road => road.open(name, limit))
    }

    fn call<P: Part>(
        &self,
        on: &Reference<P::Kind>,
        input: &P::In,
        limit: Limit,
    ) -> Result<P::Out> {
        by!(self, road => road.call::<P>(on, input, limit))
    }

    fn destroy<K: Portable>(&self, what: &Reference<K>, limit: Limit) -> Result<()> {
        by!(self, road => road.destroy(what, limit))
    }

    fn list(&self, place: &str, pattern: &str, limit: Limit) -> Result<Vec<Listed>> {
        by!(self, road => road.list(place, pattern, limit))
    }

    fn has_ended(&self) -> bool {
        by!(self, road => road.has_ended())
    }
}
