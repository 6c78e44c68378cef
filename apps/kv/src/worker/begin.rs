//! A worker's begin: its shard, the others', and what it waits at.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Barrier};
use std::time::Instant;

use anyhow::{Error, Result, anyhow};
use kumiki_resource::{Interface, Place};
use kumiki_sys::affinity;
use kumiki_wait::PollBell;
use rustix::event::epoll;

use super::giving::Giving;
use super::ours::{Ours, shard_of};
use super::{BELL, LISTENER, Worker};
use crate::kept::{Part, load};
use crate::resp::Limits;
use crate::shard::{Shard, Spec};
use crate::shared::{Shared, now};
use crate::store::Hash;

/// Parts of a worker.
pub(crate) struct Start {
    pub(crate) interface: Interface,
    pub(crate) place: Place,
    pub(crate) own: usize,
    pub(crate) is_pinned: bool,
    pub(crate) bells: Arc<Vec<PollBell>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) hash: Hash,
    pub(crate) all_there: Arc<Barrier>,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) unix: Option<OwnedFd>,
    pub(crate) drained: Sender<()>,
}

/// Makes a worker, in its own thread.
pub(crate) fn begin(start: Start) -> Result<Worker> {
    let Start { interface, place, own, is_pinned, bells, shared, hash, .. } = start;
    let made = (|| {
        if is_pinned {
            affinity::set(&[usize::from(place.0)].into_iter().collect())?;
        }
        let manager = interface.manage(place)?;
        let limit = Arc::clone(&shared.shard_limit);
        let (of, longest) = (bells.len(), shared.longest);
        let spec = Spec { number: own, of, limit, longest, hash: hash.clone() };
        let mine = interface.create::<Shard>(place, Some("keys"), spec)?;
        if let Some(kept) = &shared.kept {
            // Before anybody serves: nothing is written yet.
            let kept = Arc::clone(kept);
            let is_own = |key: &[u8]| shard_of(&hash, key, of) == own;
            interface.with(&mine, move |shard, ()| {
                shard.keys.loads(true);
                let generation = load(&kept, &mut shard.keys, is_own)?;
                shard.keys.keep(kept, own, generation);
                // What has expired meanwhile is noted as such.
                shard.keys.clean(now());
                shard.keys.loads(false);
                Ok::<_, Error>(())
            })??;
        }
        Ok::<_, Error>((manager, mine))
    })();
    // Whether it has failed or not: the others wait.
    start.all_there.wait();
    let (manager, mine) = made?;
    let mut shards = Vec::new();
    for place in interface.places() {
        if place == mine.id().place() {
            shards.push(mine.share(kumiki_resource::Rights::USE)?);
            continue;
        }
        let name = format!("{}/shard/keys", interface.place_name(place)?).parse()?;
        // Served while it waits, so that all find each other.
        shards.push(interface.open::<Shard>(&name).map_err(|error| anyhow!("{error}"))?);
    }
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &bells[own], epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
    let mut listeners = start.listeners;
    let tcp = listeners.len();
    listeners.extend(start.unix);
    for (at, listener) in listeners.iter().enumerate() {
        let exclusive =
            if at < tcp { epoll::EventFlags::empty() } else { epoll::EventFlags::EXCLUSIVE };
        let data = epoll::EventData::new_u64(LISTENER - at as u64);
        epoll::add(&epoll, listener, data, epoll::EventFlags::IN | exclusive)?;
    }
    let mut worker = Worker {
        ours: Ours { interface, shards, own, bells, hash },
        manager,
        epoll,
        listeners,
        tcp,
        clients: Vec::new(),
        places: BTreeMap::new(),
        free: Vec::new(),
        closed: Vec::new(),
        count: 0,
        kept: 0,
        giving: Giving::new(),
        most_kept: 0,
        memory: 0,
        followed: 0,
        limits: Limits { word: shared.longest, command: 0, is_stranger: false },
        most: 0,
        next_id: own as u64 + 1,
        rests_until: None,
        was_rung: false,
        looked_for_idle: Instant::now(),
        woken: Instant::now(),
        ends: None,
        drained: Some(start.drained),
        held: Vec::new(),
        part: Part::default(),
        saves: 0,
        shared,
    };
    worker.set_limits();
    Ok(worker)
}
