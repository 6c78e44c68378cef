//! A durable place's files: opened, checked against what it serves, and written to.

use std::sync::{Arc, Mutex, PoisonError};

use kumiki_journal::{Disk, failed, settle, sweep};
use kumiki_resource::kind::Kind;
use kumiki_resource::{Interface, Place};

use crate::durable::ARRIVING;
use crate::durable::entry::{Entry, FORM, FileHead, KeptKind};
use crate::durable::image::Image;
use crate::durable::load::{Loaded, load};
use crate::durable::log::Log;
use crate::durable::state_sizes::StateSizes;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::place::allow::Allow;
use crate::place::parts::Parts;
use crate::wire::Operation;
use crate::wire::secret;

/// Refuses a folder with such a copy.
pub(crate) fn arriving(place: &str, disk: &dyn Disk) -> Error {
    let folder = disk.name();
    let why = format!(
        "{folder} has a copy of it whose move was not heard of to its end. Serve it from the folder that it          came from: if that says that the place has left for here, remove {folder}/{ARRIVING}; if it serves,          remove {folder}"
    );
    Error::NotDurable { place: place.to_owned(), why }
}

/// Gives the disk of a place by the name of its core.
pub(crate) type Disks = Arc<dyn Fn(&str) -> Result<Arc<dyn Disk>> + Send + Sync>;

/// The disk of a place that is to be opened.
pub(crate) enum KeptDisk<'a> {
    Of(&'a Disks),
    Taken(Box<TakenPlace>),
}

/// A disk to which a place was taken: what was read of it is flushed, and nobody else had it since.
pub(crate) struct TakenPlace {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) loaded: Loaded,
}

/// Counts of what a durable place had when it was served again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The place's name.
    pub place: String,
    /// Resources, with their ids and names.
    pub resources: usize,
    /// Answers that are kept for clients.
    pub answers: usize,
    /// A sentence of what was cut off its log's end: it was being written when the place was killed.
    pub cut: Option<String>,
}

/// The log of a place, and what is restored from it.
pub(crate) struct Keeping {
    log: Log,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) life: u64,
    /// Taken when it is restored.
    image: Mutex<Option<Image>>,
    states: Mutex<StateSizes>,
    pub(crate) restored: Restored,
}

impl Keeping {
    /// Opens a place's files.
    pub(crate) fn open(
        disk: KeptDisk<'_>,
        interface: &Interface,
        (place, core, name): (Place, &str, &str),
        parts: &Parts,
        allow: &Allow,
    ) -> Result<Keeping> {
        let refused = |why| Error::NotDurable { place: name.to_owned(), why };
        parts.can_be_kept(allow).map_err(refused)?;
        let kinds = kinds(interface, parts)?;
        let TakenPlace { disk, loaded } = match disk {
            KeptDisk::Of(disks) => settled(disks(core)?, name)?,
            KeptDisk::Taken(taken) => *taken,
        };
        is_here(&loaded, &*disk, name)?;
        fits(&loaded.image, &kinds).map_err(refused)?;
        let former = loaded.head.as_ref();
        let life = match former {
            Some(former) => former.life,
            None => secret::number("a place's life")?,
        };
        let epoch = former.map_or(0, |former| former.epoch).saturating_add(1);
        let head = FileHead { form: FORM, place: name.to_owned(), life, epoch, kinds };
        let (resources, answers) = loaded.image.counts(Lease::NAME);
        let restored =
            Restored { place: name.to_owned(), resources, answers, cut: loaded.found.cut.clone() };
        let log = Log::begin(Arc::clone(&disk), head, &loaded, place.0)?;
        let states = Mutex::new(StateSizes::of(&loaded.image));
        let image = Mutex::new(Some(loaded.image));
        Ok(Keeping { log, disk, life, image, states, restored })
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// Bytes that an operation's record is known to have before it runs.
    pub(crate) fn weight(&self, operation: &Operation) -> u64 {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).of_operation(operation)
    }

    /// Notes how long the states of a record are.
    pub(crate) fn weigh(&self, record: &[Entry]) {
        self.states.lock().unwrap_or_else(PoisonError::into_inner).note(record);
    }

    /// Takes what is to be restored, once.
    pub(crate) fn image(&self) -> Option<Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Checks that what was read of a disk is of the place of this name, which has not left.
pub(crate) fn is_here(loaded: &Loaded, disk: &dyn Disk, name: &str) -> Result<()> {
    if let Some(to) = &loaded.found.left {
        let (place, folder) = (name.to_owned(), disk.name());
        return Err(Error::Moved { place, folder, to: String::from_utf8_lossy(to).into() });
    }
    match loaded.head.as_ref().filter(|former| former.place != name) {
        Some(former) => {
            let why = format!(
                "{} is of place {}: serve it under that name, or in another folder",
                disk.name(),
                former.place
            );
            Err(Error::NotDurable { place: name.to_owned(), why })
        }
        None => Ok(()),
    }
}

/// Reads a disk, and returns when what was read is on it.
fn settled(disk: Arc<dyn Disk>, name: &str) -> Result<TakenPlace> {
    let loaded = loaded(&*disk, name)?;
    // First what takes room that the start may need.
    sweep(&*disk)?;
    settle(&*disk, &loaded.found)?;
    Ok(TakenPlace { disk, loaded })
}

/// Reads a disk, unless it is a copy of which nobody knows whether it is the place.
pub(crate) fn loaded(disk: &dyn Disk, name: &str) -> Result<Loaded> {
    let names = disk.list().map_err(failed("reading the folder", disk, ""))?;
    if names.iter().any(|name| name == ARRIVING) {
        return Err(arriving(name, disk));
    }
    load(disk)
}

/// Kinds that are kept, and leases, by their numbers.
pub(crate) fn kinds(interface: &Interface, parts: &Parts) -> Result<Vec<KeptKind>> {
    let mut kinds = Vec::new();
    for (name, functions) in parts.kept() {
        kinds.push(KeptKind { number: (functions.number)(interface)?.0, name: name.to_owned() });
    }
    let lease = interface.kind::<Lease>()?;
    kinds.push(KeptKind { number: lease.0, name: Lease::NAME.to_owned() });
    Ok(kinds)
}

/// Checks that the kinds which have resources are here, and have their numbers, which are parts of ids.
pub(crate) fn fits(image: &Image, kinds: &[KeptKind]) -> std::result::Result<(), String> {
    for (number, table) in &image.tables {
        let its = kinds.iter().find(|kind| kind.name == table.kind);
        let its = its.ok_or_else(|| {
            format!("it has resources of kind {}, which is not kept here", table.kind)
        })?;
        if its.number != *number {
            return Err(format!(
                "kind {} has number {number} in its ids, and {} here: add the kinds of the \
                 interface in the order in which they were",
                table.kind, its.number
            ));
        }
    }
    Ok(())
}
