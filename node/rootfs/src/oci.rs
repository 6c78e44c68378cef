//! A folder of the OCI image layout (image specification, `image-layout.md`).

use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::blobs::{Descriptor, Layer, Parts, blob, json, open, sha256};

/// An index within an index.
const NESTED: usize = 4;

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// The image for this processor.
pub(crate) fn parts(folder: &Path) -> Result<Parts, String> {
    let path = folder.join("index.json");
    let file = open(&path).map_err(|error| {
        format!("index.json: {error}; a folder as `skopeo copy … oci:DIR` makes it is expected")
    })?;
    let mut index: Index = json("index.json", file)?;
    for _ in 0..NESTED {
        let chosen = chosen(&index.manifests)?;
        if chosen.media_type.contains("index") || chosen.media_type.contains("manifest.list") {
            index = blob(folder, &chosen.digest)?;
            continue;
        }
        let manifest: Manifest = blob(folder, &chosen.digest)?;
        let layers = manifest.layers.iter().map(|layer| layer_of(folder, layer));
        return Ok(Parts {
            config: blob(folder, &manifest.config.digest)?,
            layers: layers.collect::<Result<_, _>>()?,
        });
    }
    Err(format!("index.json: more than {NESTED} indexes within each other"))
}

/// Image for this processor of several; one that says nothing is taken as it is.
fn chosen(manifests: &[Descriptor]) -> Result<&Descriptor, String> {
    let ours = |one: &&Descriptor| {
        let platform = one.platform.as_ref();
        platform.is_none_or(|of| of.architecture == "amd64" && of.os == "linux")
    };
    let mut different: Vec<&Descriptor> = Vec::new();
    for one in manifests.iter().filter(ours) {
        // Of one digest they are one image, with several tags.
        if different.iter().all(|other| other.digest != one.digest) {
            different.push(one);
        }
    }
    match different[..] {
        [one] => Ok(one),
        [] => {
            let name = |one: &Descriptor| {
                one.platform.as_ref().map(|of| format!("{}/{}", of.os, of.architecture))
            };
            let there: Vec<_> = manifests.iter().filter_map(name).collect();
            Err(format!(
                "no image for linux/amd64 is in it, only {}: copy that one",
                if there.is_empty() { "nothing".to_owned() } else { there.join(", ") }
            ))
        }
        ref several => Err(format!(
            "{} images are in it: copy the one that is meant to a folder of its own",
            several.len()
        )),
    }
}

fn layer_of(folder: &Path, layer: &Descriptor) -> Result<Layer, String> {
    let hash = sha256(&layer.digest)?;
    let file = folder.join("blobs/sha256").join(hash);
    let about = fs::metadata(&file).map_err(|error| format!("layer {}: {error}", layer.digest))?;
    Ok(Layer { file, at: 0, bytes: about.len(), sha256: Some(hash.to_owned()) })
}
