//! An image, read and checked.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::blobs::{Layer, Parts, open, refused, sha256};
use crate::layer::Reading;
use crate::limits::Limits;
use crate::packed::{Counted, Hashed, hex, is_packed, unpacked};
use crate::program::{Config, Program};
use crate::store::Store;
use crate::tree::{Tree, What};
use crate::{Error, Result, Source, docker, oci};

/// A root, with its contents in the folder that it was read to.
#[derive(Debug)]
pub struct Root {
    pub(crate) tree: Tree,
    pub(crate) store: Store,
    program: Program,
    identity: String,
    left_out: u64,
}

/// Bytes of an ELF file's header: 64 bits, for this processor.
const X86_64: [u8; 2] = [62, 0];

/// Reads an image to `work`, an empty folder of a file system with room for all of it.
/// `words`, if there are some, stand for the program that it names.
pub fn read(source: &Source, words: &[String], work: &Path, limits: Limits) -> Result<Root> {
    let name = source.to_string();
    let refuse = refused(&name);
    let (parts, layered) = match source {
        Source::Tar(path) => (whole(path)?, false),
        Source::Oci(folder) => (oci::parts(folder).map_err(&refuse)?, true),
        Source::Docker(path) => {
            let plain = plain(path, work, limits)?;
            (docker::parts(plain.as_deref().unwrap_or(path)).map_err(&refuse)?, true)
        }
    };
    for (what, have, want) in
        [("architecture", &parts.config.architecture, "amd64"), ("os", &parts.config.os, "linux")]
    {
        if !have.is_empty() && have != want {
            return Err(refuse(format!("its {what} is {have}, and a node's is {want}")));
        }
    }
    let mut program = parts.config.program();
    if !words.is_empty() {
        program.words = words.to_vec();
    }
    let mut hash = Sha256::new();
    let store = Store::new(work, limits.bytes);
    let mut reading = Reading::new(&name, Tree::new(), store, limits);
    let digests = parts.config.unpacked();
    if !digests.is_empty() && digests.len() != parts.layers.len() {
        let (said, there) = (digests.len(), parts.layers.len());
        return Err(refuse(format!(
            "its configuration is of {said} layers, and {there} are there"
        )));
    }
    let mut left = limits.unpacked();
    for (number, layer) in parts.layers.iter().enumerate() {
        let of = Of { number: number as u32, layered, unpacked: digests.get(number) };
        hash.update(read_layer(&mut reading, layer, &of, &mut left)?);
    }
    if !layered && reading.entries == 0 {
        return Err(refuse("no files are in it: an archive of all files is expected".to_owned()));
    }
    let Reading { mut tree, store, left_out, .. } = reading;
    startable(&mut tree, &store, &program).map_err(&refuse)?;
    hash.update(serde_json::to_vec(&program).unwrap_or_default());
    Ok(Root { tree, store, program, identity: hex(hash), left_out })
}

/// An archive of all files, which says nothing of a program.
fn whole(path: &Path) -> Result<Parts> {
    let file = open(path).map_err(|error| Error::file(path, error))?;
    let about = file.metadata().map_err(|error| Error::file(path, error))?;
    let layer = Layer { file: path.to_owned(), at: 0, bytes: about.len(), sha256: None };
    Ok(Parts { config: Config::default(), layers: vec![layer] })
}

/// An archive of `docker save` that was packed as a whole, unpacked to `work`; it is read here and
/// there. `None`: it is not packed.
fn plain(path: &Path, work: &Path, limits: Limits) -> Result<Option<PathBuf>> {
    let failed = |error| Error::file(path, error);
    let mut file = open(path).map_err(failed)?;
    if !is_packed(&mut file).map_err(failed)? {
        return Ok(None);
    }
    file.rewind().map_err(failed)?;
    let mut left = limits.unpacked();
    let mut packed = Counted::new(unpacked(file).map_err(failed)?, &mut left);
    let place = work.join("archive");
    let mut plain = File::create_new(&place).map_err(|error| Error::file(&place, error))?;
    io::copy(&mut packed, &mut plain).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => Error::file(&place, error),
        _ => Error::file(path, error),
    })?;
    Ok(Some(place))
}

/// A layer's place among the others, and its digest.
struct Of<'a> {
    number: u32,
    /// True if there may be others below it.
    layered: bool,
    /// Its digest when it is unpacked.
    unpacked: Option<&'a String>,
}

/// Returns the hash of its bytes. `left`: what may still be unpacked.
fn read_layer(
    reading: &mut Reading<'_>,
    layer: &Layer,
    of: &Of<'_>,
    left: &mut u64,
) -> Result<String> {
    let failed = |error| Error::file(&layer.file, error);
    let refuse = refused(&reading.image);
    let mut file = open(&layer.file).map_err(failed)?;
    file.seek(SeekFrom::Start(layer.at)).map_err(failed)?;
    let mut packed = Hashed::new(file.take(layer.bytes));
    let number = of.number + 1;
    let damaged = |error| refuse(format!("layer {number}: {error}"));
    let unpacked = unpacked(&mut packed).map_err(damaged)?;
    let mut inner = Hashed::new(Counted::new(unpacked, left));
    reading.layer(&mut inner, of.number, of.layered)?;
    // To its end, where checksums stand.
    let inner = inner.finish().map_err(damaged)?;
    let have = packed.finish().map_err(failed)?;
    if let Some(want) = layer.sha256.as_ref().filter(|want| **want != have) {
        return Err(refuse(format!(
            "layer sha256:{want}: its file has another hash: copy the image again"
        )));
    }
    let want = of.unpacked.map(|digest| sha256(digest)).transpose().map_err(&refuse)?;
    if let Some(want) = want.filter(|want| **want != inner) {
        return Err(refuse(format!(
            "layer {number}: unpacked it has another hash than sha256:{want}, which its \
             configuration says: copy the image again"
        )));
    }
    Ok(have)
}

/// Checks that the program that the image names is in it, and one for this processor.
fn startable(tree: &mut Tree, store: &Store, program: &Program) -> Result<(), String> {
    let Some(word) = program.words.first() else { return Ok(()) };
    let places = match word.contains('/') {
        true => {
            vec![format!("{}/{word}", if word.starts_with('/') { "" } else { &program.folder })]
        }
        false => program.path().split(':').map(|folder| format!("{folder}/{word}")).collect(),
    };
    let mut number = None;
    for place in &places {
        let found = tree.find(place.as_bytes()).filter(|node| node.about.mode & 0o111 != 0);
        if let Some(What::File(content)) = found.map(|node| &node.what) {
            number = Some(*content);
            break;
        }
    }
    let number = number.ok_or_else(|| {
        format!(
            "its entrypoint {word} is no program in it ({}): give another one with --entrypoint",
            places.join(", ")
        )
    })?;
    let mut first = [0; 20];
    let file = File::open(store.place(number)).map_err(|error| format!("{word}: {error}"))?;
    let mut file = file.take(first.len() as u64);
    let read = read_as_much(&mut file, &mut first).map_err(|error| format!("{word}: {error}"))?;
    let is_elf = first.starts_with(b"\x7fELF");
    if is_elf && (read < first.len() || first[18..20] != X86_64) {
        return Err(format!("its entrypoint {word} is a program for another processor"));
    }
    Ok(())
}

fn read_as_much(from: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match from.read(&mut into[have..])? {
            0 => break,
            count => have += count,
        }
    }
    Ok(have)
}

#[cfg(any(test, fuzzing))]
impl Root {
    /// Takes what was read so far.
    pub(crate) fn of(tree: Tree, store: Store, left_out: u64) -> Self {
        Root { tree, store, program: Program::default(), identity: String::new(), left_out }
    }
}

impl Root {
    /// Program that it is for.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Hash that is the same for the same archives and the same program.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Device files of its `/dev` that were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// True if a program would find a file here.
    pub fn has(&mut self, path: &str) -> bool {
        self.tree.find(path.as_bytes()).is_some_and(|node| matches!(node.what, What::File(_)))
    }
}

#[cfg(test)]
mod tests;
