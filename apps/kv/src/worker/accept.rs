//! Clients that connect: accepted, refused with an error, or left until there is a descriptor.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{self, SocketAddrAny, SocketFlags, sockopt};

use super::clients::Client;
use super::{LISTENER, Worker};
use crate::clients::About;
use crate::connection::{Connection, Wants};
use crate::desk::Shards;
use crate::listen::is_near;
use crate::say::say;
use crate::session::Session;

/// Time for which no client is taken when there is no descriptor for one.
const REST: Duration = Duration::from_millis(100);
const DENIED: &str = "-DENIED kumiki-kv is running in protected mode: no password is set, so that it \
takes clients of its own machine only. Give it --password-file FILE, or, where whoever reaches it may \
read and write all keys, --protected-mode no.\r\n";

impl Worker {
    pub(super) fn accept(&mut self, now: u64) {
        if self.ends.is_some() {
            return;
        }
        for at in 0..self.listeners.len() {
            loop {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                match net::acceptfrom_with(&self.listeners[at], flags) {
                    Ok((socket, peer)) => self.take(socket, peer, at >= self.tcp, now),
                    Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                        return self.rest();
                    }
                    Err(Errno::CONNABORTED | Errno::INTR) => {}
                    Err(_) => break,
                }
            }
        }
        if self.rests_until.take().is_some() {
            self.listen(epoll::EventFlags::IN);
        }
    }

    /// Takes no client for a while: each try would fail at once, for ever.
    fn rest(&mut self) {
        self.counters().not_taken.add(1);
        kumiki_sys::event!("no client is taken for a while");
        if self.rests_until.is_none() {
            say(format_args!(
                "there is no descriptor for another client: they wait until one has gone \
                 (ulimit -n; --clients)"
            ));
            self.listen(epoll::EventFlags::empty());
        }
        self.rests_until = Some(self.woken + REST);
    }

    fn listen(&self, flags: epoll::EventFlags) {
        for (at, listener) in self.listeners.iter().enumerate() {
            let data = epoll::EventData::new_u64(LISTENER - at as u64);
            // An exclusive one cannot be changed: it leaves and comes again.
            let _ = epoll::delete(&self.epoll, listener);
            if !flags.is_empty() {
                let exclusive = at >= self.tcp;
                let more = if exclusive { epoll::EventFlags::EXCLUSIVE } else { flags };
                let _ = epoll::add(&self.epoll, listener, data, flags | more);
            }
        }
    }

    /// Takes a client that has come.
    fn take(&mut self, socket: OwnedFd, peer: Option<SocketAddrAny>, is_local: bool, now: u64) {
        let counters = self.counters();
        counters.connections.add(1);
        let address = |it: SocketAddrAny| SocketAddr::try_from(it).ok();
        let peer = peer.and_then(address);
        let count: u64 = self.shared.counters.iter().map(|its| its.clients.get()).sum();
        let refusal = if count >= self.shared.clients.load(Relaxed) as u64 {
            counters.turned_away.add(1);
            Some("-ERR max number of clients reached\r\n")
        } else if self.shared.is_protected.load(Relaxed)
            && !self.shared.has_password()
            && !is_near(peer.map(|peer| peer.ip()))
        {
            counters.protected.add(1);
            Some(DENIED)
        } else {
            None
        };
        if let Some(text) = refusal {
            let _ = net::send(&socket, text.as_bytes(), net::SendFlags::NOSIGNAL);
            return;
        }
        if !is_local {
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            let _ = sockopt::set_socket_keepalive(&socket, true);
        }
        let mut session = Session::new(self.next_id, now, !self.shared.has_password());
        self.next_id += self.ours.shards.len() as u64;
        session.is_local = is_local;
        if is_local {
            let path =
                self.shared.unix.as_ref().map_or(String::new(), |it| it.display().to_string());
            session.addr = format!("{path}:0").into();
            session.laddr = Arc::clone(&session.addr);
        } else {
            let text = |it: Option<SocketAddr>| it.map_or("?:0".into(), |it| it.to_string().into());
            session.addr = text(peer);
            session.laddr = text(net::getsockname(&socket).ok().and_then(address));
        }
        let at = self.free.pop().unwrap_or(self.clients.len());
        session.place = at;
        let data = epoll::EventData::new_u64(at as u64);
        if epoll::add(&self.epoll, socket.as_fd(), data, epoll::EventFlags::IN).is_err() {
            if at < self.clients.len() {
                self.free.push(at);
            }
            return;
        }
        if at == self.clients.len() {
            self.clients.push(None);
        }
        let connection = Connection::new(socket, session);
        let shown =
            About { socket: Some(connection.shared_socket()), ..connection.session.about(now) };
        self.ours.with(move |shard| *shard.clients.at(at) = Some(shown));
        self.places.insert(connection.session.id, at);
        self.clients[at] =
            Some(Client { connection, wants: Wants::Read, kept: 0, turned: self.woken });
        self.count += 1;
        self.counters().clients.set(self.count as u64);
    }
}
