//! How a client that keeps copies of what it reads is told of changes.

/// How a client is told of changes.
#[derive(Clone, Debug, Default)]
pub struct Tracking {
    /// It listens to prefixes, whatever it reads.
    pub is_broadcast: bool,
    /// It follows what it reads only if it says so before.
    pub opts_in: bool,
    /// It follows what it reads unless it says so before.
    pub opts_out: bool,
    /// It is not told of its own changes.
    pub skips_own: bool,
    /// It has said so for the next command.
    pub is_said: bool,
    /// The client that is told instead.
    pub redirect: Option<u64>,
    /// That one is gone.
    pub is_broken: bool,
    /// Prefixes to which it listens.
    pub prefixes: Vec<Box<[u8]>>,
}

impl Tracking {
    /// Whether keys that the next command reads are followed.
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
