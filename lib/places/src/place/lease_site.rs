//! A place's leases: granted, found, evicted, and ended.
//!
//! Nobody knows who sends a message: a client's name is its own word, and NATS tells no place who has published. So what
//! one sender may take is bounded by what it has to do for it. One message is given one lease at most. One that was never
//! used counts among [`MOST_UNUSED`], of which the oldest is evicted for one more: a client that may do nothing here takes
//! no more than those. Of those that were used the least recently used one is evicted for one more, or nearly.

use std::time::Duration;

use kumiki_resource::{Handle, Id, Name, Pattern, Rights};

use crate::durable::leaving::MoveStage;
use crate::lease::{Lease, LeasePool, LeaseQueue, MOST_LEASES, MOST_UNUSED};
use crate::place::parts::{answer, refused};
use crate::place::site::Site;
use crate::wire::{Granted, Outcome, Refusal, Request, Why};

/// Leases that were used, at most. Some are between the two queues.
const MOST_USED: usize = MOST_LEASES - MOST_UNUSED - 16;
/// Leases that are looked at for one to be evicted, at most.
const LOOKED_AT: usize = 2 * MOST_LEASES;

impl Site {
    /// Grants a lease.
    pub(crate) fn hello(&self, key: u64, client: &str) -> Outcome {
        // Who asks is for the listing: what is not a name does without.
        let unique = Name::new(&self.core, "lease", client).is_ok().then_some(client);
        let interface = &self.interface;
        let named = unique.and_then(|name| {
            let made = interface.create::<Lease>(self.place, Some(name), key);
            made.ok().map(|made| (made, Some(name)))
        });
        let (made, name) = match named {
            Some(named) => named,
            // A client that has lost a lease asks for another one while its former still has the name.
            None => {
                let made = interface.create::<Lease>(self.place, None, key);
                (made.map_err(|error| refused(&error))?, None)
            }
        };
        if let Some(client) = name.filter(|_| self.keeping.is_some()) {
            interface.with(&made, |lease, _| lease.of_client(client)).map_err(|e| refused(&e))?;
        }
        self.queue(&made, LeaseQueue::Unused, MOST_UNUSED);
        let holds_ms = u64::try_from(self.holds.as_millis()).unwrap_or(u64::MAX);
        let durable = self.keeping.is_some();
        let lease = self.swapped(made.id().to_u64());
        answer(&Granted { life: self.life, lease, holds_ms, durable })
    }

    /// Finds the client's lease, and notes that it lives.
    pub(crate) fn begin(&self, lease: Id, request: &Request) -> Result<Handle<Lease>, Refusal> {
        let none = || {
            let text = format!("{} has no such lease: it has ended", self.name);
            Refusal::new(Why::NoLease, text)
        };
        if lease.place() != self.place {
            return Err(none());
        }
        let lease = self.interface.of_id::<Lease>(lease).map_err(|_| none())?;
        let Request { key, first, open, .. } = request;
        let begun =
            self.interface.with(&lease, |lease, pool| lease.begin(*key, *first, open, pool));
        if begun.unwrap_or(false) { Ok(lease) } else { Err(none()) }
    }

    /// Notes that something which is allowed has begun under a lease.
    pub(crate) fn used(&self, lease: &Handle<Lease>) {
        let is_first = self.interface.with(lease, |lease, _| lease.begins_to_be_used());
        if is_first.unwrap_or(false) {
            self.queue(lease, LeaseQueue::Used, MOST_USED);
        }
    }

    /// Puts a lease behind those that were used, or that were not, and lets others go until there are so many.
    fn queue(&self, lease: &Handle<Lease>, of: LeaseQueue, most: usize) {
        let push = |id| move |_: &mut Lease, pool: &mut LeasePool| pool.queue(of).push_back(id);
        let pop = |_: &mut Lease, pool: &mut LeasePool| {
            let queue = pool.queue(of);
            if queue.len() > most { queue.pop_front() } else { None }
        };
        let interface = &self.interface;
        let _ = interface.with(lease, push(lease.id()));
        for _ in 0..LOOKED_AT {
            let Ok(Some(oldest)) = interface.with(lease, pop) else { return };
            // One that has ended is no more in it.
            let Ok(its) = interface.grant::<Lease>(oldest, Rights::USE | Rights::DESTROY) else {
                continue;
            };
            match interface.with(&its, |its, _| its.may_go(of)) {
                Ok(true) => _ = self.end_lease(its),
                Ok(false) if of == LeaseQueue::Used => _ = interface.with(lease, push(oldest)),
                // It was used since; or it has ended.
                Ok(false) | Err(_) => {}
            }
        }
    }

    /// Interval between two looks whether leases have ended.
    pub(crate) fn lease_check(&self) -> Duration {
        (self.holds / 4).max(Duration::from_millis(10))
    }

    /// Destroys the leases of clients that nothing was heard of.
    pub(crate) fn end_leases(&self) -> kumiki_resource::Result<()> {
        // Nothing is added to the log of a place that stands still.
        if self.leaving.stage() != MoveStage::Serves {
            return Ok(());
        }
        self.interface.run(self.place, || -> kumiki_resource::Result<()> {
            let leases = Pattern::new(&format!("{}/lease/*", self.core))?;
            for listed in self.interface.ls_at(self.place, &leases)? {
                let lease =
                    self.interface.grant::<Lease>(listed.id, Rights::USE | Rights::DESTROY)?;
                if self.interface.with(&lease, |lease, _| lease.is_over(self.holds))? {
                    self.end_lease(lease)?;
                }
            }
            Ok(())
        })?
    }
}
