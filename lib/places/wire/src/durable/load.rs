//! What a durable place's files say, taken together.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_journal::{Disk, Found, Reader, read, read_on};
use serde::Deserialize;

use crate::durable::entry::{Entry, FORM, FileHead};
use crate::durable::image::Image;
use crate::error::{Error, Result};

/// All that the files say.
#[derive(Debug)]
pub struct Loaded {
    pub image: Image,
    /// Head of the last file; none where there is no file.
    pub head: Option<FileHead>,
    pub found: Found,
}

/// Reads them all.
///
/// # Errors
/// [`Error::Io`]; [`Error::Rotten`]; [`Error::OtherForm`].
pub fn load(disk: &dyn Disk) -> Result<Loaded> {
    let mut taken = Replay { image: Image::default(), head: None, is_over: None };
    let found = read(disk, None, &mut taken)?;
    Ok(Loaded { image: taken.image, head: taken.head, found })
}

/// Reads what comes before frame `below`, unless it is given up meanwhile.
///
/// # Errors
/// As [`load`]; it was given up.
pub fn load_below(disk: &dyn Disk, below: u64, is_over: &AtomicBool) -> Result<Loaded> {
    let mut taken = Replay { image: Image::default(), head: None, is_over: Some(is_over) };
    let found = read(disk, Some(below), &mut taken)?;
    Ok(Loaded { image: taken.image, head: taken.head, found })
}

/// Reads what the files say more than when they were loaded.
///
/// # Errors
/// As [`load`].
pub fn load_on(disk: &dyn Disk, loaded: Loaded) -> Result<Loaded> {
    let Loaded { image, head, mut found } = loaded;
    let mut taken = Replay { image, head, is_over: None };
    match read_on(disk, &mut found, &mut taken)? {
        true => Ok(Loaded { image: taken.image, head: taken.head, found }),
        false => load(disk),
    }
}

/// Image and head, as far as they were read.
struct Replay<'a> {
    image: Image,
    head: Option<FileHead>,
    /// True once nobody needs it.
    is_over: Option<&'a AtomicBool>,
}

impl Reader for Replay<'_> {
    type Error = Error;

    fn head(&mut self, file: &str, payload: &[u8]) -> Result<()> {
        self.head = Some(head(file, payload)?);
        Ok(())
    }

    fn records(&mut self, payload: &[u8]) -> std::result::Result<(), String> {
        if self.is_over.is_some_and(|is_over| is_over.load(Relaxed)) {
            return Err("it was given up".to_owned());
        }
        let kinds = self.head.as_ref().map_or(&[][..], |head| &head.kinds);
        let mut records = rmp_serde::Deserializer::new(payload);
        while !records.get_ref().is_empty() {
            let record = Vec::<Entry>::deserialize(&mut records);
            for entry in record.map_err(|error| format!("a record cannot be read: {error}"))? {
                self.image.apply(entry, kinds)?;
            }
        }
        Ok(())
    }
}

/// A file's head.
fn head(file: &str, payload: &[u8]) -> Result<FileHead> {
    let rotten = |why: String| Error::Rotten { file: file.to_owned(), at: 0, why };
    // A list whose first is its form, whatever follows.
    let form = match payload {
        [0x90..=0x9f, rest @ ..] => u32::deserialize(&mut rmp_serde::Deserializer::new(rest)).ok(),
        _ => None,
    };
    match form {
        Some(FORM) => rmp_serde::from_slice(payload)
            .map_err(|error| rotten(format!("its head cannot be read: {error}"))),
        Some(form) => Err(Error::OtherForm { what: file.to_owned(), form, known: FORM }),
        None => Err(rotten("its head has no form".to_owned())),
    }
}
