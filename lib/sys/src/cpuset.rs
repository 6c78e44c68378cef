//! Sets of cpus, of any number, in the kernel's own list notation.
//!
//! C's `cpu_set_t` ends at 1024 cpus; Linux goes to 8192 on x86-64. This set
//! grows with what is put into it.

use std::fmt;

/// A set of cpu numbers.
///
/// ```
/// use kumiki_sys::cpuset::CpuSet;
///
/// let set: CpuSet = "0-3,8,10-11".parse()?;
/// assert_eq!(set.len(), 7);
/// assert!(set.contains(8) && !set.contains(9));
/// assert_eq!(set.to_string(), "0-3,8,10-11");
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
// `words` never ends in a zero word, so that equal sets are equal values.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        CpuSet { words: Vec::new() }
    }

    /// A set from the kernel's bit mask: bit `b` of word `w` is cpu `64·w + b`.
    pub fn from_words(mut words: Vec<u64>) -> Self {
        let used = words.iter().rposition(|&word| word != 0);
        words.truncate(used.map_or(0, |last| last + 1));
        CpuSet { words }
    }

    /// The kernel's bit mask, no longer than the largest cpu needs.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds a cpu; `true` if it was not in the set.
    pub fn insert(&mut self, cpu: usize) -> bool {
        let word = cpu / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let new = !self.contains(cpu);
        self.words[word] |= 1 << (cpu % 64);
        new
    }

    /// Removes a cpu; `true` if it was in the set.
    pub fn remove(&mut self, cpu: usize) -> bool {
        let there = self.contains(cpu);
        if there {
            self.words[cpu / 64] &= !(1 << (cpu % 64));
            *self = Self::from_words(std::mem::take(&mut self.words));
        }
        there
    }

    /// True if `cpu` is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        let word = self.words.get(cpu / 64).copied().unwrap_or(0);
        word >> (cpu % 64) & 1 == 1
    }

    /// Number of cpus.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The smallest cpu.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// The cpus, smallest first.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| index * 64 + bit)
        })
    }

    /// The cpus in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        let pairs = self.words.iter().zip(&other.words);
        Self::from_words(pairs.map(|(a, b)| a & b).collect())
    }

    /// The cpus of this set that are not in `other`.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|&cpu| !other.contains(cpu)).collect()
    }

    /// True if every cpu of this set is in `other`.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.intersection(other) == *self
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut set = CpuSet::new();
        set.extend(cpus);
        set
    }
}

impl Extend<usize> for CpuSet {
    fn extend<I: IntoIterator<Item = usize>>(&mut self, cpus: I) {
        for cpu in cpus {
            self.insert(cpu);
        }
    }
}

impl fmt::Display for CpuSet {
    /// The kernel's list notation (`%*pbl`, lib/vsprintf.c): `0-3,8,10-11`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn cpus() -> impl Strategy<Value = BTreeSet<usize>> {
        prop::collection::btree_set(prop_oneof![0usize..70, 0usize..9000], 0..200)
    }

    proptest! {
        #[test]
        fn text_round_trip(model in cpus()) {
            let set: CpuSet = model.iter().copied().collect();
            let back: CpuSet = set.to_string().parse().unwrap();
            prop_assert_eq!(&back, &set);
            prop_assert_eq!(back.iter().collect::<BTreeSet<_>>(), model);
        }

        #[test]
        fn behaves_like_a_set(a in cpus(), b in cpus()) {
            let mut set: CpuSet = a.iter().copied().collect();
            let other: CpuSet = b.iter().copied().collect();
            prop_assert_eq!(set.len(), a.len());
            prop_assert_eq!(set.first(), a.first().copied());
            prop_assert!(set.intersection(&other).iter().eq(a.intersection(&b).copied()));
            prop_assert!(set.difference(&other).iter().eq(a.difference(&b).copied()));
            prop_assert_eq!(set.is_subset(&other), a.is_subset(&b));
            for &cpu in &b {
                prop_assert_eq!(set.remove(cpu), a.contains(&cpu));
            }
            prop_assert_eq!(set, a.difference(&b).copied().collect::<CpuSet>());
        }
    }

    #[test]
    fn emptied_set_equals_a_new_one() {
        let mut set = CpuSet::from_iter([5000]);
        assert!(set.remove(5000));
        assert_eq!(set, CpuSet::new());
        assert!(set.is_empty());
        assert_eq!(set.to_string(), "");
        assert_eq!("\n".parse::<CpuSet>().unwrap(), set);
    }
}
