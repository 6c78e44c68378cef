//! Whether a server can serve a place that is to be taken: asked while the place serves where it is.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kumiki_journal::{Disk, FolderView};
use kumiki_resource::Interface;
use kumiki_resource::kind::Kind;

use crate::durable::entry::KeptKind;
use crate::durable::load::Loaded;
use crate::error::{Error, Result};
use crate::lease::Lease;
use crate::place::keeping::{fits, is_here, kinds, loaded};
use crate::place::parts::{DurableFunctions, Parts};
use crate::place::serve::Server;
use crate::transport::permission::may_serve;

/// Looks at a folder that another process writes, of which one may read a file that has just gone, say.
const LOOKS: usize = 10;
/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(20);

/// A server that is to serve a place which is taken.
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) disk: Arc<dyn Disk>,
    kinds: Vec<KeptKind>,
    parts: Parts,
}

impl Server {
    /// Checks what can be checked before a copy of the place is here.
    ///
    /// # Errors
    /// [`Error::NotDurable`]; [`Error::Nats`]; the disk's.
    pub(crate) async fn ready(&self, interface: &Interface) -> Result<Ready> {
        let (name, disk) = self.called_disk(interface)?;
        let refused = |why| Error::NotDurable { place: name.clone(), why };
        self.parts_served().can_be_kept(self.allowed()).map_err(refused)?;
        let kinds = kinds(interface, self.parts_served())?;
        if let Some(nats) = self.nats() {
            may_serve(nats, &name).await?;
        }
        Ok(Ready { name, disk, kinds, parts: self.parts_served().clone() })
    }

    /// Checks that a place which another process serves by this folder could be served from it here: that one ends only
    /// then.
    ///
    /// # Errors
    /// What serving it would be refused by; [`Error::Nats`].
    pub(crate) fn could_take_over(
        &self,
        interface: &Interface,
        name: &str,
        folder: &Path,
    ) -> Result<()> {
        let refused = |why| Error::NotDurable { place: name.to_owned(), why };
        self.parts_served().can_be_kept(self.allowed()).map_err(refused)?;
        let kinds = kinds(interface, self.parts_served())?;
        let disk: Arc<dyn Disk> = Arc::new(FolderView::at(folder));
        let mut looks = 1;
        let loaded = loop {
            match loaded(&*disk, name) {
                Err(Error::Io { .. } | Error::Rotten { .. }) if looks < LOOKS => {
                    looks += 1;
                    std::thread::sleep(PAUSE);
                }
                loaded => break loaded?,
            }
        };
        is_here(&loaded, &*disk, name)?;
        let ready =
            Ready { name: name.to_owned(), disk, kinds, parts: self.parts_served().clone() };
        ready.knows(&loaded)?;
        let Some(nats) = self.nats() else { return Ok(()) };
        // Who serves may be within a runtime, where nothing else is waited for.
        let asks = || crate::place::serve::runtime(0)?.block_on(may_serve(nats, name));
        std::thread::scope(|scope| scope.spawn(asks).join()).unwrap_or_else(|panic| {
            let text = crate::place::serve::panicked(&*panic);
            Err(Error::Panicked { place: name.to_owned(), text })
        })
    }
}

impl Ready {
    /// Checks that all of a place's kinds and states are known here.
    ///
    /// # Errors
    /// [`Error::NotDurable`], [`Error::OtherForm`].
    pub(crate) fn knows(&self, loaded: &Loaded) -> Result<()> {
        let refused = |why| Error::NotDurable { place: self.name.clone(), why };
        fits(&loaded.image, &self.kinds).map_err(refused)?;
        // Those that have no resource yet may have one in a moment.
        let mut theirs = loaded.head.iter().flat_map(|head| &head.kinds);
        if let Some(kind) = theirs.find(|kind| !self.kinds.contains(kind)) {
            return Err(refused(format!(
                "kind {} is kept where it serves, with number {}, and not here: serve it with the same kinds in \
                 the same order",
                kind.name, kind.number
            )));
        }
        for table in loaded.image.tables.values() {
            let functions = match &*table.kind {
                Lease::NAME => Some(DurableFunctions::of::<Lease>()),
                kind => self.parts.kept_kind(kind).copied(),
            };
            let Some(functions) = functions else { continue };
            let resources = table.slots.iter().filter_map(|slot| slot.resource.as_ref());
            for resource in resources {
                (functions.reads)(resource.form, &resource.state)?;
            }
        }
        Ok(())
    }
}
