//! Counters of a worker: plain numbers of its own core, which others may look at.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of a worker. One thread writes, by plain stores; others may read.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
        }

        /// Sums over all workers.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Sums {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Sums {
            /// The sums of these.
            pub fn of(all: &[Counters]) -> Sums {
                let mut sums = Sums::default();
                for counters in all {
                    $(sums.$name = sums.$name.wrapping_add(counters.$name.get());)*
                }
                sums
            }
        }
    };
}

counters! {
    /// Connections that have come.
    connections,
    /// Connections that were sent away as there were too many.
    turned_away,
    /// Connections that could not be taken as there was no descriptor.
    not_taken,
    /// Connections that were sent away by protected mode.
    protected,
    /// Connections that are there.
    clients,
    /// Connections that were evicted as clients' memory was full.
    evicted,
    /// Commands that have been run.
    commands,
    /// Answers that were errors for want of memory.
    refused,
    /// Passwords that were wrong.
    wrong_passwords,
    /// Keys that were read and there.
    hits,
    /// Keys that were read and not there.
    misses,
    /// Keys whose time had come.
    expired,
    /// Keys that are there.
    keys,
    /// Keys that expire at some time.
    going,
    /// Bytes of keys and values.
    key_bytes,
    /// Bytes of clients' commands and answers.
    client_bytes,
    /// Clients that get invalidations.
    followers,
    /// Keys that clients follow.
    followed_keys,
    /// Clients of each of those, in all.
    followed_items,
    /// Prefixes that clients listen to.
    prefixes,
    /// Bytes that have come.
    input,
    /// Bytes that have been sent.
    output,
}

/// A number that one thread changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets it.
    #[inline]
    pub fn set(&self, to: u64) {
        self.0.store(to, Relaxed);
    }

    /// Adds to it: no other thread does, so that no lock is needed.
    #[inline]
    pub fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }
}
