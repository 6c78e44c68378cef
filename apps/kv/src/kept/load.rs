//! What the log says, for one of the shards that there are now.

use anyhow::{Result, anyhow, bail};
use kumiki_journal::{Disk, Found, Reader, read};

use super::Kept;
use super::record::{Record, first};

/// Name of the files' form, and its number.
pub(crate) const HEAD: [u8; 13] = *b"kumiki-kv\x01\0\0\0";
/// Bytes of the name.
const NAME: usize = 9;

/// Checks that a file is of this program, and of a form that is known.
fn check(file: &str, head: &[u8]) -> Result<()> {
    let (name, form) = head.split_at_checked(NAME).unwrap_or_default();
    if name != &HEAD[..NAME] {
        bail!("{file} is no file of kumiki-kv: name another folder");
    }
    if form != &HEAD[NAME..] {
        let form = <[u8; 4]>::try_from(form).map_or(0, u32::from_le_bytes);
        bail!(
            "{file} is of form {form}, and 1 is known here: serve it by the version that has written it"
        );
    }
    Ok(())
}

/// Reads what there is only to know that it is whole, and where it ends.
pub(super) fn looked(disk: &dyn Disk) -> Result<Found> {
    struct Looked;
    impl Reader for Looked {
        type Error = ReadError;
        fn head(&mut self, file: &str, payload: &[u8]) -> Result<(), ReadError> {
            check(file, payload).map_err(ReadError)
        }
        fn records(&mut self, mut rest: &[u8]) -> Result<(), String> {
            while !rest.is_empty() {
                (_, _, rest) = first(rest).ok_or(UNREAD)?;
            }
            Ok(())
        }
    }
    read(disk, None, &mut Looked).map_err(|error| error.0)
}

/// Sentence about a record that is none.
const UNREAD: &str = "a record cannot be read";

/// An error of reading.
struct ReadError(anyhow::Error);

impl From<kumiki_journal::Error> for ReadError {
    fn from(error: kumiki_journal::Error) -> ReadError {
        ReadError(error.into())
    }
}

/// A table of keys that is loaded.
pub(crate) trait Loads {
    /// Takes all keys away.
    fn clear(&mut self);
    /// Sets a key; false if there is no memory for it.
    fn set(&mut self, key: &[u8], value: &[u8], goes_at: u64) -> bool;
    /// Sets when a key goes.
    fn goes(&mut self, key: &[u8], at: u64);
    /// Takes a key away.
    fn remove(&mut self, key: &[u8]);
}

/// Gives a shard the keys that are its, and the generation of all.
pub(crate) fn load(
    kept: &Kept,
    keys: &mut impl Loads,
    is_own: impl Fn(&[u8]) -> bool,
) -> Result<u32> {
    let before = super::held(&kept.files).segments.first();
    let mut loading = Loading { keys, is_own, generation: 0, is_full: false };
    read(&*kept.disk, Some(before), &mut loading).map_err(|error| error.0)?;
    if loading.is_full {
        return Err(anyhow!(
            "the machine has no memory for the keys and values of {}",
            kept.folder()
        ));
    }
    Ok(loading.generation)
}

struct Loading<'a, K, F> {
    keys: &'a mut K,
    is_own: F,
    /// The highest so far.
    generation: u32,
    is_full: bool,
}

impl<K: Loads, F: Fn(&[u8]) -> bool> Reader for Loading<'_, K, F> {
    type Error = ReadError;

    fn head(&mut self, file: &str, payload: &[u8]) -> Result<(), ReadError> {
        check(file, payload).map_err(ReadError)
    }

    fn records(&mut self, mut rest: &[u8]) -> Result<(), String> {
        while !rest.is_empty() {
            let (generation, record, more) = first(rest).ok_or(UNREAD)?;
            rest = more;
            if generation > self.generation {
                self.generation = generation;
                self.keys.clear();
            }
            if generation < self.generation {
                continue;
            }
            match record {
                Record::Set { key, value, goes_at } if (self.is_own)(key) => {
                    self.is_full |= !self.keys.set(key, value, goes_at);
                }
                Record::Goes { key, at } if (self.is_own)(key) => self.keys.goes(key, at),
                Record::Gone { key } if (self.is_own)(key) => self.keys.remove(key),
                _ => {}
            }
        }
        Ok(())
    }
}
