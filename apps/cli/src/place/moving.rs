//! `kumiki place move`: a durable place is taken into a folder of this machine, and served from there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use kumiki_places::durable::{Folder, has_place};
use kumiki_places::{Client, Nats, Server, host_name};
use kumiki_resource::Interface;
use kumiki_sys::affinity;

use super::{Kept, Listen, MaybeNats, asking, serve};
use crate::{Verdict, output};

/// Has a place leave where it serves for this server, which can serve it: a mistake is told while it still serves there.
pub(super) fn taken(
    place: &str,
    (server, interface): (&Server, &Interface),
    nats: Option<&Nats>,
    to: &str,
) -> Result<()> {
    let take = async |client: Client| {
        let taken = client.take_place_for(server, interface, to).await;
        taken.with_context(|| format!("moving {place}"))
    };
    asking(nats, take)?;
    output::talk(format_args!("{place} has moved to {to}"));
    Ok(())
}

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
    let to = if has_place(&disk)? {
        output::talk(format_args!("{place} is in {} already", whole.display()));
        None
    } else {
        Some(format!("{} of {}, process {}", whole.display(), host_name(), std::process::id()))
    };
    let kept = Kept::Moved { place: place.to_owned(), disk: Arc::new(disk), to };
    serve(
        (server, Listen::default()),
        allow,
        Some(host.to_owned()),
        Some(vec![cpu]),
        memory,
        kept,
        None,
    )
}
