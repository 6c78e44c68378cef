//! `kumiki place move`: a durable place is taken into a folder of this machine, and served from there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use kumiki_places::durable::{Folder, has_place};
use kumiki_places::{Allow, host_name, standard};
use kumiki_sys::affinity;

use super::{Kept, MaybeNats, asking, serve};
use crate::{Verdict, output};

/// Moves a place here, if this folder does not have it yet, and serves it.
pub(super) fn here(
    place: &str,
    server: &MaybeNats,
    folder: &Path,
    cpu: Option<usize>,
    allow: Option<PathBuf>,
    memory: Option<u64>,
) -> Result<Verdict> {
    let (host, core) = place
        .rsplit_once('.')
        .with_context(|| format!("{place} is no name of a place: HOST.coreN is meant"))?;
    let folder = folder.join(core);
    let disk = Folder::open(&folder)?;
    let cpu = match cpu {
        Some(cpu) => cpu,
        None => affinity::current()?.first().context("this command may use no cpu")?,
    };
    let whole = std::path::absolute(&folder).unwrap_or(folder);
    if has_place(&disk)? {
        output::talk(format_args!("{place} is in {} already", whole.display()));
    } else {
        // A mistake is told while the place still serves where it is.
        if let Some(path) = &allow {
            Allow::read(path, &standard::parts())?;
        }
        let to = format!("{} of {}, process {}", whole.display(), host_name(), std::process::id());
        let nats = server.nats()?;
        let take = async |client: kumiki_places::Client| {
            client.take_place(place, &disk, &to).await.with_context(|| format!("moving {place}"))
        };
        asking(nats.as_ref(), take)?;
        output::talk(format_args!("{place} has moved to {}", whole.display()));
    }
    let kept = Kept::Moved(place.to_owned(), Arc::new(disk));
    serve(server, allow, Some(host.to_owned()), Some(vec![cpu]), memory, kept, None)
}
