//! An archive as `docker save` makes it, old and new.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::Deserialize;

use crate::archive::{Archive, Kind};
use crate::blobs::{Layer, Parts, json, open};

/// Files in such an archive: some for each layer.
const ENTRIES: usize = 100_000;
const NAMES_BYTES: usize = 64 << 20;
const MANIFEST: &str = "manifest.json";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Image {
    config: String,
    layers: Vec<String>,
}

/// Place of a file in the archive; or another name of one.
enum Place {
    At(u64, u64),
    Link(String),
}

/// The image that is in it.
pub(crate) fn parts(path: &Path) -> Result<Parts, String> {
    let mut file = open(path).map_err(|error| error.to_string())?;
    let mut places = BTreeMap::new();
    let (mut archive, mut names) = (Archive::new(BufReader::new(&file)), 0);
    while let Some(member) = archive.next()? {
        let name = clean(&member.shown());
        let target = String::from_utf8_lossy(&member.linked);
        names += name.len() + target.len();
        let place = match member.kind {
            Kind::File if member.map.is_none() => Place::At(member.at, member.stored),
            // Layers that are the same were written once, and linked by folder.
            Kind::Link => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                Place::Link(clean(&format!("{folder}/{target}")))
            }
            Kind::HardLink => Place::Link(clean(&target)),
            _ => continue,
        };
        places.insert(name, place);
        if places.len() > ENTRIES || names > NAMES_BYTES {
            return Err(format!(
                "more than {ENTRIES} files, or {NAMES_BYTES} bytes of names, which no archive of \
                 `docker save` has"
            ));
        }
    }
    let find = |name: &str| -> Result<(u64, u64), String> {
        let mut name = clean(name);
        for _ in 0..8 {
            match places.get(&name) {
                Some(&Place::At(at, bytes)) => return Ok((at, bytes)),
                Some(Place::Link(other)) => name.clone_from(other),
                None => break,
            }
        }
        Err(format!("{name} is not in it: an archive as `docker save` makes it is expected"))
    };
    let mut part = |name: &str| -> Result<std::io::Take<File>, String> {
        let (at, bytes) = find(name)?;
        file.seek(SeekFrom::Start(at)).map_err(|error| format!("{name}: {error}"))?;
        let file = file.try_clone().map_err(|error| format!("{name}: {error}"))?;
        Ok(file.take(bytes))
    };
    let images: Vec<Image> = json(MANIFEST, part(MANIFEST)?)?;
    let image = match &images[..] {
        [one] => one,
        several => {
            return Err(format!(
                "{MANIFEST}: {} images: save the one that is meant alone",
                several.len()
            ));
        }
    };
    let layer = |name: &String| -> Result<Layer, String> {
        let (at, bytes) = find(name)?;
        Ok(Layer { file: path.to_owned(), at, bytes, sha256: None })
    };
    Ok(Parts {
        config: json(&image.config, part(&image.config)?)?,
        layers: image.layers.iter().map(layer).collect::<Result<_, _>>()?,
    })
}

/// A name without what leads nowhere.
fn clean(name: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in name.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}
