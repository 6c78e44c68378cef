//! What is known of a core's clients, as `CLIENT LIST` tells it, and who of them is to go.

use std::fmt::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::net::{Shutdown, shutdown};

use crate::store::Invalidation;
use crate::tracking::Tracking;

/// A client, as others see it.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Its number, which no other one will have.
    pub id: u64,
    /// Address of the client.
    pub addr: Arc<str>,
    /// Address of the server that it reached.
    pub laddr: Arc<str>,
    /// Its socket; none: it has not been shown yet.
    pub socket: Option<Arc<OwnedFd>>,
    /// The name that it gave itself.
    pub name: String,
    /// Its library.
    pub lib_name: String,
    /// Version of that library.
    pub lib_ver: String,
    /// Time of its arrival, ms since 1970.
    pub came: u64,
    /// Time at which it last did something.
    pub turned: u64,
    /// The last command.
    pub last: &'static str,
    /// True if it speaks version 3 of the protocol.
    pub is_three: bool,
    /// Commands that wait for EXEC, if it has begun a transaction.
    pub queued: Option<usize>,
    /// Keys that it watches.
    pub watched: usize,
    /// Bytes of a command that has not come whole.
    pub half: usize,
    /// Bytes of answers that it has not taken.
    pub unsent: usize,
    /// Bytes of memory for it.
    pub kept: usize,
    /// Tracking of keys, if it has any.
    pub tracking: Option<TrackingInfo>,
    /// True if it asked not to be evicted.
    pub stays: bool,
    /// True if it came by a Unix socket.
    pub is_local: bool,
}

/// A client's tracking of keys, as others see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct TrackingInfo {
    /// True if it listens to prefixes.
    pub is_broadcast: bool,
    /// The client that gets its invalidations instead.
    pub redirect: Option<u64>,
    /// True if that client is gone.
    pub is_broken: bool,
}

impl TrackingInfo {
    /// Summary of a client's tracking.
    pub fn of(tracking: &Tracking) -> TrackingInfo {
        let Tracking { is_broadcast, redirect, is_broken, .. } = *tracking;
        TrackingInfo { is_broadcast, redirect, is_broken }
    }
}

impl About {
    /// Its line.
    pub fn line(&self, now: u64, out: &mut String) {
        let mut flags = String::new();
        let tracking = self.tracking.as_ref();
        for (is_so, flag) in [
            (self.queued.is_some(), 'x'),
            (tracking.is_some(), 't'),
            (tracking.is_some_and(|its| its.is_broken), 'R'),
            (tracking.is_some_and(|its| its.is_broadcast), 'B'),
            (self.is_local, 'U'),
            (self.stays, 'e'),
        ] {
            flags.extend(is_so.then_some(flag));
        }
        if flags.is_empty() {
            flags.push('N');
        }
        let seconds = |since: u64| now.saturating_sub(since) / 1000;
        let multi = self.queued.map_or(-1, |queued| queued as i64);
        let redirect = tracking.map_or(-1, |its| its.redirect.unwrap_or(0) as i64);
        // Into a String it cannot fail.
        let _ = writeln!(
            out,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 \
             ssub=0 multi={multi} watch={} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl={} \
             oll=0 omem={} tot-mem={} events=r cmd={} user=default redir={redirect} resp={} lib-name={} \
             lib-ver={}",
            self.id,
            self.addr,
            self.laddr,
            self.socket.as_ref().map_or(-1, |socket| socket.as_raw_fd()),
            self.name,
            seconds(self.came),
            seconds(self.turned),
            self.watched,
            self.half,
            self.unsent,
            self.unsent,
            self.kept,
            self.last,
            if self.is_three { 3 } else { 2 },
            self.lib_name,
            self.lib_ver,
        );
    }
}

/// Filter by which somebody names clients.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Client numbers to match, in order: a command may name a million.
    pub ids: Option<Vec<u64>>,
    /// Address to match.
    pub addr: Option<String>,
    /// Come to there.
    pub laddr: Option<String>,
    /// Nobody is meant: there is none of a type.
    pub is_none: bool,
    /// Number of a client that is not meant.
    pub but: Option<u64>,
    /// Here for so many seconds at least.
    pub age: Option<u64>,
}

impl Filter {
    fn holds(&self, client: &About, now: u64) -> bool {
        !self.is_none
            && self.but != Some(client.id)
            && self.ids.as_ref().is_none_or(|ids| ids.binary_search(&client.id).is_ok())
            && self.addr.as_ref().is_none_or(|addr| **addr == *client.addr)
            && self.laddr.as_ref().is_none_or(|addr| **addr == *client.laddr)
            && self.age.is_none_or(|age| now.saturating_sub(client.came) / 1000 >= age)
    }
}

/// Clients of a core, by their places in its worker's list.
#[derive(Debug, Default)]
pub struct Clients {
    places: Vec<Option<About>>,
    /// Places of those that are to go.
    pub go: Vec<(usize, u64)>,
    /// Number of them that track keys.
    pub followers: usize,
    /// Messages that other shards have for some of them.
    pub invalidations: Vec<Invalidation>,
}

impl Clients {
    /// The one at a place.
    pub fn at(&mut self, place: usize) -> &mut Option<About> {
        if place >= self.places.len() {
            self.places.resize(place + 1, None);
        }
        &mut self.places[place]
    }

    /// Returns true if one speaks version 3 of the protocol; none: it is not here.
    pub fn speaks_three(&self, id: u64) -> Option<bool> {
        let mut here = self.places.iter().flatten();
        here.find(|client| client.id == id).map(|client| client.is_three)
    }

    /// Clients that track keys.
    pub fn tracking(&self) -> Vec<u64> {
        if self.followers == 0 {
            return Vec::new();
        }
        let here = self.places.iter().flatten();
        here.filter(|client| client.tracking.is_some()).map(|client| client.id).collect()
    }

    /// One line each of those that are meant.
    pub fn list(&self, filter: &Filter, now: u64) -> String {
        let mut lines = String::new();
        let meant = self.places.iter().flatten().filter(|client| filter.holds(client, now));
        meant.for_each(|client| client.line(now, &mut lines));
        lines
    }

    /// Ends the connections that are meant; how many. When this returns their clients read the end,
    /// as the answer that says so may overtake their worker. `asker` has its answer first.
    pub fn kill(&mut self, filter: &Filter, asker: u64, now: u64) -> usize {
        let all = self.places.iter().enumerate();
        let meant = all.filter_map(|(at, client)| Some((at, client.as_ref()?)));
        let before = self.go.len();
        for (at, client) in meant.filter(|(_, client)| filter.holds(client, now)) {
            if let Some(socket) = client.socket.as_ref().filter(|_| client.id != asker) {
                // One whose peer has gone already is refused.
                let _ = shutdown(socket, Shutdown::Both);
            }
            self.go.push((at, client.id));
        }
        self.go.len() - before
    }

    /// True if one is to go.
    pub fn is_killed(&self, id: u64) -> bool {
        self.go.iter().any(|(_, killed)| *killed == id)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// The answer of a kill may overtake the worker that closes: the end is there before it.
    #[test]
    fn who_is_killed_reads_the_end_at_once_but_for_the_asker() {
        let mut clients = Clients::default();
        let mut peers = Vec::new();
        for id in [7, 8] {
            let (own, peer) = UnixStream::pair().unwrap();
            peer.set_nonblocking(true).unwrap();
            let socket = Some(Arc::new(OwnedFd::from(own)));
            *clients.at(peers.len()) = Some(About { id, socket, ..About::default() });
            peers.push(peer);
        }
        assert_eq!(clients.kill(&Filter::default(), 8, 0), 2);
        assert!(clients.is_killed(7) && clients.is_killed(8));
        assert!(matches!(peers[0].read(&mut [0]), Ok(0)));
        assert!(peers[1].read(&mut [0]).is_err());
    }
}
