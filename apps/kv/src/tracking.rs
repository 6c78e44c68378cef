//! Settings by which a client that keeps copies gets invalidations.

/// A client's tracking of keys: `CLIENT TRACKING`.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// True if it listens to prefixes, whatever it reads.
    pub is_broadcast: bool,
    /// True if it follows the keys that it reads only if it says so before.
    pub opts_in: bool,
    /// True if it follows the keys that it reads unless it says so before.
    pub opts_out: bool,
    /// True if it gets no invalidation for its own changes.
    pub skips_own: bool,
    /// True if it has said so for the next command.
    pub is_said: bool,
    /// The client that gets its invalidations instead.
    pub redirect: Option<u64>,
    /// True if that client is gone.
    pub is_broken: bool,
    /// Prefixes to which it listens.
    pub prefixes: Vec<Box<[u8]>>,
}

impl Tracking {
    /// True if keys that the next command reads are followed.
    pub fn follows(&self) -> bool {
        let is_left_out = match (self.opts_in, self.opts_out) {
            (true, _) => !self.is_said,
            (_, true) => self.is_said,
            _ => false,
        };
        !(self.is_broadcast || is_left_out)
    }

    /// Bytes of memory of its prefixes, here and in a shard, about.
    pub fn kept(&self) -> usize {
        self.prefixes.iter().map(|prefix| 2 * prefix.len() + 160).sum()
    }

    /// Its properties, as `CLIENT TRACKINGINFO` names them.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        [
            (true, "on"),
            (self.is_broadcast, "bcast"),
            (self.opts_in, "optin"),
            (self.opts_in && self.is_said, "caching-yes"),
            (self.opts_out, "optout"),
            (self.opts_out && self.is_said, "caching-no"),
            (self.skips_own, "noloop"),
            (self.is_broken, "broken_redirect"),
        ]
        .into_iter()
        .filter_map(|(is_so, name)| is_so.then_some(name))
    }
}
