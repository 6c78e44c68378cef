//! What a place has by its files: tables, names, states, leases and kept answers.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use kumiki_resource::{Id, Serial};

use crate::durable::entry::{Entry, KeptKind, OWN};
use crate::wire::Outcome;

/// All that a place has.
#[derive(Debug, Default, PartialEq)]
pub struct Image {
    /// Tables by the numbers of their kinds.
    pub tables: BTreeMap<u8, TableImage>,
    /// Clients by their leases.
    pub clients: HashMap<u64, ClientImage>,
}

/// A kind's table.
#[derive(Debug, Default, PartialEq)]
pub struct TableImage {
    pub kind: String,
    pub slots: Vec<SlotImage>,
}

/// A slot of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotImage {
    pub uses: u32,
    pub resource: Option<ResourceImage>,
}

/// A resource as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceImage {
    pub name: Option<String>,
    /// Form of its state.
    pub form: u32,
    pub state: Bytes,
}

/// Answers that are kept for a client.
#[derive(Debug, Default, PartialEq)]
pub struct ClientImage {
    pub first: u64,
    pub open: Vec<(u64, u64)>,
    pub answers: BTreeMap<u64, Outcome>,
}

impl ClientImage {
    fn is_seen(&self, serial: u64) -> bool {
        let is_in = |&(at, count): &(u64, u64)| serial >= at && serial - at < count;
        serial < self.first && !self.open.iter().any(is_in)
    }
}

/// The number of an id's kind, and its serial.
fn parts(id: u64) -> (u8, Serial) {
    let id = Id::from_u64(id);
    (id.kind().0, id.serial())
}

impl Image {
    /// Takes an entry of a file whose head has these kinds.
    ///
    /// # Errors
    /// A sentence that says why it cannot be.
    pub fn apply(&mut self, entry: Entry, kinds: &[KeptKind]) -> Result<(), String> {
        match entry {
            Entry::Made { id, name, form, state } => {
                let slot = self.slot(id, kinds)?;
                slot.resource = Some(ResourceImage { name, form, state });
            }
            Entry::Changed { id, form, state } => {
                let slot = self.slot(id, kinds)?;
                let name = slot.resource.take().and_then(|former| former.name);
                slot.resource = Some(ResourceImage { name, form, state });
            }
            Entry::Gone { id } => {
                self.slot(id, kinds)?.resource = None;
                self.clients.remove(&(id & OWN));
            }
            Entry::Used { id } => self.slot(id, kinds)?.resource = None,
            Entry::Answers { lease, first, open, answers } => {
                let client = self.clients.entry(lease & OWN).or_default();
                if first > client.first || (first == client.first && !client.open.is_empty()) {
                    (client.first, client.open) = (first, open);
                    // Those from `first` on, of which a client with much under way has many, are not looked at: a log
                    // has a record for each of its calls.
                    let before = client.answers.range(..first).map(|(serial, _)| *serial);
                    let seen: Vec<u64> = before.filter(|serial| client.is_seen(*serial)).collect();
                    seen.iter().for_each(|serial| _ = client.answers.remove(serial));
                }
                for (serial, answer) in answers {
                    if !client.is_seen(serial) {
                        client.answers.insert(serial, answer);
                    }
                }
            }
        }
        Ok(())
    }

    /// The slot of an id in this or a later use of it.
    fn slot(&mut self, id: u64, kinds: &[KeptKind]) -> Result<&mut SlotImage, String> {
        let (kind, serial) = parts(id);
        let its = kinds.iter().find(|one| one.number == kind);
        let its = its.ok_or_else(|| format!("it has no kind of number {kind}"))?;
        let table = self.tables.entry(kind).or_default();
        if table.kind != its.name {
            if !table.kind.is_empty() {
                return Err(format!("kind {kind} is {} there and {} here", table.kind, its.name));
            }
            table.kind.clone_from(&its.name);
        }
        let (index, most) = (serial.index() as usize, Serial::MOST as usize);
        if index >= most {
            return Err(format!("a table has {most} slots, and this would be number {index}"));
        }
        if table.slots.len() <= index {
            table.slots.resize(index + 1, SlotImage::default());
        }
        let slot = &mut table.slots[index];
        if serial.uses() < slot.uses || serial.uses() == 0 {
            return Err(format!("use {} of a slot that has had {}", serial.uses(), slot.uses));
        }
        if serial.uses() > slot.uses {
            *slot = SlotImage { uses: serial.uses(), resource: None };
        }
        Ok(slot)
    }

    /// Number of its resources, those that are leases left out, and of kept answers.
    pub fn counts(&self, lease: &str) -> (usize, usize) {
        let tables = self.tables.values().filter(|table| table.kind != lease);
        let resources =
            tables.flat_map(|table| &table.slots).filter(|slot| slot.resource.is_some());
        let answers = self.clients.values().map(|client| client.answers.len()).sum();
        (resources.count(), answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u64 = 3 << 40;

    fn id(index: u64, uses: u64) -> u64 {
        KIND | uses << 20 | index
    }

    fn kinds() -> Vec<KeptKind> {
        vec![KeptKind { number: 3, name: "counter".to_owned() }]
    }

    fn answer(text: &'static str) -> Outcome {
        Ok(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn it_is_what_its_entries_say_last() {
        let mut image = Image::default();
        let mut apply = |entry| image.apply(entry, &kinds());
        let state = Bytes::from_static;
        let made = |id, name: &str, bytes| Entry::Made {
            id,
            name: Some(name.to_owned()),
            form: 2,
            state: state(bytes),
        };
        apply(made(id(1, 1), "a", b"1")).unwrap();
        apply(Entry::Changed { id: id(1, 1), form: 2, state: state(b"2") }).unwrap();
        apply(made(id(0, 1), "b", b"3")).unwrap();
        apply(Entry::Gone { id: id(0, 1) }).unwrap();
        let wrong =
            apply(Entry::Changed { id: id(1, 0), form: 2, state: state(b"x") }).unwrap_err();
        assert!(wrong.contains("use 0"), "{wrong}");
        let other = apply(Entry::Gone { id: 9 << 40 | 1 << 20 }).unwrap_err();
        assert!(other.contains("number 9"), "{other}");
        let slots = &image.tables[&3].slots;
        assert_eq!(slots[0], SlotImage { uses: 1, resource: None });
        let resource = ResourceImage { name: Some("a".to_owned()), form: 2, state: state(b"2") };
        assert_eq!(slots[1], SlotImage { uses: 1, resource: Some(resource) });
        assert_eq!(image.counts("lease"), (1, 0));
    }

    #[test]
    fn answers_stay_until_their_client_has_seen_them() {
        let mut image = Image::default();
        let mut answers = |first, open: &[(u64, u64)], serial, text| {
            let answers = vec![(serial, answer(text))];
            let entry = Entry::Answers { lease: id(4, 1), first, open: open.to_vec(), answers };
            image.apply(entry, &kinds()).unwrap();
        };
        answers(1, &[], 1, "a");
        answers(1, &[], 2, "b");
        answers(3, &[(1, 1)], 3, "c");
        // Sent before, and come later.
        answers(2, &[], 4, "d");
        let client = &image.clients[&id(4, 1)];
        let kept: Vec<u64> = client.answers.keys().copied().collect();
        assert_eq!((client.first, kept), (3, vec![1, 3, 4]));
    }
}
