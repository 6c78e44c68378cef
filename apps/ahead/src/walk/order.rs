//! The order in which a program goes through a folder: as the folder has its names, sorted by these, or by the files' numbers.
//!
//! In a small folder all is within reach soon, whatever the order. In a large one the names that come next are elsewhere for a
//! program that sorts. The last ones that it used may ascend in several orders (`module12.js` to `module17.js` by their names
//! and by their numbers): it goes by the one in which they lie nearest to each other, and what is asked goes on behind the
//! last one in that.

use super::{Number, Walk};
use crate::demand::{KINDS, Kind};
use crate::names::{Name, Names};
use crate::shared::Shared;
use crate::uses::{RECENT, Recent};

/// Names up to which the order of a folder does not count.
const FEW: u32 = 64;

/// An order in which a program goes through a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Folder,
    /// The bytes of the names, as in sorted lists and in git's index.
    Name,
    /// The numbers of the files, by which fts sorts folders of ten thousand names.
    Number,
}

impl By {
    fn is_before(self, one: &(u32, Name<'_>), other: &(u32, Name<'_>)) -> bool {
        match self {
            By::Folder => one.0 < other.0,
            By::Name => one.1.name < other.1.name,
            By::Number => one.1.inode < other.1.inode,
        }
    }

    /// Names that lie between these two in this order.
    fn between(self, names: &Names, one: &(u32, Name<'_>), other: &(u32, Name<'_>)) -> u32 {
        if self == By::Folder {
            return other.0.saturating_sub(one.0 + 1);
        }
        let all = (0..names.len()).filter_map(|at| Some((at, names.get(at)?)));
        let between = all.filter(|name| self.is_before(one, name) && self.is_before(name, other));
        u32::try_from(between.count()).unwrap_or(u32::MAX)
    }
}

/// Next name of one kind, in its order.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    by: By,
    next: u32,
    /// Uses from which on the order is judged again.
    judged: u32,
}

/// Orders of one folder's names, of each kind of request.
#[derive(Debug)]
pub(super) struct Orders {
    cursors: [Cursor; KINDS],
    /// Positions in an order that is not the folder's.
    sorted: Option<(By, Vec<u32>)>,
}

impl Orders {
    /// Begins in these orders, as far as there is room for that.
    pub(super) fn begin(names: &Names, by: [By; KINDS]) -> Self {
        let cursor = Cursor { by: By::Folder, next: 0, judged: RECENT as u32 };
        let mut orders = Orders { cursors: [cursor; KINDS], sorted: None };
        if names.len() > FEW {
            for (at, by) in by.into_iter().enumerate() {
                if orders.sort(names, by)
                    && let Some(cursor) = orders.cursors.get_mut(at)
                {
                    cursor.by = by;
                }
            }
        }
        orders
    }

    /// True for a folder whose order counts.
    pub(super) fn is_judged(&self, names: &Names) -> bool {
        names.len() > FEW
    }

    /// Has an order of these names at hand; false where another one stands there, or without memory.
    fn sort(&mut self, names: &Names, by: By) -> bool {
        if by == By::Folder {
            return true;
        }
        if let Some((there, _)) = &self.sorted {
            let is_used = self.cursors.iter().any(|cursor| cursor.by == *there);
            if *there == by || is_used {
                return *there == by;
            }
        }
        let mut positions = Vec::new();
        if positions.try_reserve_exact(names.len() as usize).is_err() {
            return false;
        }
        positions.extend(0..names.len());
        match by {
            By::Number => {
                positions.sort_unstable_by_key(|at| names.get(*at).map(|name| name.inode))
            }
            _ => positions.sort_unstable_by_key(|at| names.get(*at).map(|name| name.name)),
        }
        self.sorted = Some((by, positions));
        true
    }

    fn cursor(&mut self, kind: Kind) -> Option<&mut Cursor> {
        self.cursors.get_mut(kind as usize)
    }

    /// Position of the next name; beyond all where there is none.
    pub(super) fn next(&self, kind: Kind) -> u32 {
        let Some(cursor) = self.cursors.get(kind as usize) else { return u32::MAX };
        match (&self.sorted, cursor.by) {
            (_, By::Folder) => cursor.next,
            (Some((_, positions)), _) => {
                positions.get(cursor.next as usize).copied().unwrap_or(u32::MAX)
            }
            (None, _) => u32::MAX,
        }
    }

    /// The next name was looked at.
    pub(super) fn pass(&mut self, kind: Kind) {
        self.cursor(kind).into_iter().for_each(|cursor| cursor.next += 1);
    }

    /// Place of a position in an order that is at hand.
    fn rank(&self, by: By, at: u32) -> Option<u32> {
        match (by, &self.sorted) {
            (By::Folder, _) => Some(at),
            (_, Some((_, positions))) => {
                let place = positions.iter().position(|one| *one == at)?;
                u32::try_from(place).ok()
            }
            (_, None) => None,
        }
    }

    /// Goes over to another order if the names that were used last ascend in that, and not in this one or lie nearer to each
    /// other; and on to where the program is. Gives the order if either is so.
    fn judge(&mut self, kind: Kind, names: &Names, recent: &Recent) -> Option<By> {
        let used = recent.count();
        let cursor = self.cursor(kind)?;
        if names.len() <= FEW || used < cursor.judged {
            return None;
        }
        cursor.judged = used.saturating_mul(2);
        let is = cursor.by;
        let last = recent.last()?;
        let found = last.map(|at| names.get(at).map(|name| (at, name)));
        let ascends = |by: By| {
            found.iter().zip(found.iter().skip(1)).all(|(one, other)| match (one, other) {
                (Some(one), Some(other)) => by.is_before(one, other),
                _ => false,
            })
        };
        let newest = *last.last()?;
        let (first, end) = (found.first()?.as_ref()?, found.last()?.as_ref()?);
        let orders = [is, By::Folder, By::Name, By::Number].into_iter().filter(|by| ascends(*by));
        let by = orders.min_by_key(|by| by.between(names, first, end))?;
        if by == is {
            let rank = self.rank(is, newest)?;
            let cursor = self.cursor(kind)?;
            let is_behind = rank >= cursor.next;
            if is_behind {
                cursor.next = rank + 1;
            }
            return is_behind.then_some(is);
        }
        // What stands there for this kind alone gives way.
        self.cursor(kind)?.by = By::Folder;
        if !self.sort(names, by) {
            self.cursor(kind)?.by = is;
            return None;
        }
        let rank = self.rank(by, newest)?;
        let cursor = self.cursor(kind)?;
        (cursor.by, cursor.next) = (by, rank + 1);
        Some(by)
    }
}

impl Walk {
    /// Has a folder's names be asked in the order in which the program goes through them, and those of the next folders.
    pub(super) fn judge_order(&mut self, shared: &Shared, number: Number, kind: Kind) {
        let Some(uses) = shared.uses.of(number.folder) else { return };
        let Some(known) = self.of(number) else { return };
        let recent = uses.recent(kind);
        let by = recent.and_then(|recent| known.orders.judge(kind, &known.names, recent));
        let Some(by) = by else { return };
        known.give_up(shared, uses, kind);
        if let Some(first) = self.orders.get_mut(kind as usize) {
            *first = by;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use rustix::fs::FileType;

    use super::*;

    /// Names and numbers in an order that has nothing to do with either.
    fn names(count: u32) -> Names {
        let mut names = Names::new();
        for at in 0..count {
            let number = at * 7919 % count;
            let name = CString::new(format!("name{number:05}")).unwrap();
            let inode = u64::from(number * 104_729 % count);
            names.push(Name { inode, kind: FileType::RegularFile, name: &name }).unwrap();
        }
        names
    }

    /// Positions of all names, sorted.
    fn sorted<T: Ord>(names: &Names, key: impl Fn(Name<'_>) -> T) -> Vec<u32> {
        let mut all: Vec<u32> = (0..names.len()).collect();
        all.sort_by_key(|at| key(names.get(*at).unwrap()));
        all
    }

    /// The names that are asked next after the program has used these.
    fn asked(orders: &mut Orders, names: &Names, used: &[u32]) -> Vec<u32> {
        let recent = Recent::default();
        for at in used {
            recent.add(*at);
            orders.judge(Kind::Contents, names, &recent);
        }
        let next = (0..20).map(|_| {
            let at = orders.next(Kind::Contents);
            orders.pass(Kind::Contents);
            at
        });
        next.collect()
    }

    #[test]
    fn what_comes_next_is_asked_whatever_the_order() {
        let names = names(1009);
        let folder: Vec<u32> = (0..names.len()).collect();
        let by_name = sorted(&names, |name| name.name.to_owned());
        let by_number = sorted(&names, |name| name.inode);
        for order in [&folder, &by_name, &by_number] {
            // From the second one on, and half of them.
            for step in [1, 2] {
                let used: Vec<u32> = order.iter().copied().skip(1).step_by(step).take(6).collect();
                for begun in [By::Folder, By::Name] {
                    let mut orders = Orders::begin(&names, [By::Folder, begun, By::Folder]);
                    let is_so = order == if begun == By::Folder { &folder } else { &by_name };
                    // It was ahead already.
                    let ahead = if is_so { 20 } else { 0 };
                    (0..ahead).for_each(|_| orders.pass(Kind::Contents));
                    let from = if is_so { 20 } else { 2 + 5 * step };
                    let asked = asked(&mut orders, &names, &used);
                    assert_eq!(asked, order[from..][..20], "begun by {begun:?}");
                }
            }
        }
    }

    #[test]
    fn who_is_behind_the_program_goes_on_where_it_is() {
        let names = names(1009);
        let mut orders = Orders::begin(&names, [By::Folder; KINDS]);
        assert_eq!(asked(&mut orders, &names, &[500, 501, 502, 503, 504, 505])[0], 506);
    }

    #[test]
    fn of_two_orders_the_one_counts_in_which_what_is_used_lies_together() {
        let mut names = Names::new();
        // As they are made: without zeros in front of their numbers.
        for at in 0..1009_u32 {
            let number = at * 7919 % 1009;
            let name = CString::new(format!("module{number}.js")).unwrap();
            let inode = u64::from(number) + 100;
            names.push(Name { inode, kind: FileType::RegularFile, name: &name }).unwrap();
        }
        let by_number = sorted(&names, |name| name.inode);
        for (begun, used) in [(By::Folder, &by_number[12..18]), (By::Name, &by_number[12..24])] {
            let mut orders = Orders::begin(&names, [By::Folder, begun, By::Folder]);
            let next = by_number.iter().position(|at| at == used.last().unwrap()).unwrap() + 1;
            assert_eq!(asked(&mut orders, &names, used), by_number[next..][..20], "{begun:?}");
        }
    }

    #[test]
    fn who_goes_by_all_orders_at_once_stays_in_the_first() {
        let mut names = Names::new();
        for at in 0..1009_u32 {
            let name = CString::new(format!("name{at:05}")).unwrap();
            let inode = u64::from(at);
            names.push(Name { inode, kind: FileType::RegularFile, name: &name }).unwrap();
        }
        let mut orders = Orders::begin(&names, [By::Folder; KINDS]);
        (0..20).for_each(|_| orders.pass(Kind::Contents));
        let recent = Recent::default();
        (0..6).for_each(|at| recent.add(at));
        assert_eq!(orders.judge(Kind::Contents, &names, &recent), None, "nothing is given up");
        assert_eq!(orders.next(Kind::Contents), 20);
    }

    #[test]
    fn names_in_no_order_and_small_folders_change_nothing() {
        let names = names(1009);
        let mut orders = Orders::begin(&names, [By::Folder; KINDS]);
        assert_eq!(asked(&mut orders, &names, &[5, 900, 7, 30, 2, 800])[0], 0);
        let few = self::names(FEW);
        let used = sorted(&few, |name| name.name.to_owned());
        let mut orders = Orders::begin(&few, [By::Folder; KINDS]);
        assert_eq!(asked(&mut orders, &few, &used)[0], 0);
    }

    #[test]
    fn two_kinds_may_have_one_order_beside_the_folders() {
        let names = names(1009);
        let mut orders = Orders::begin(&names, [By::Folder, By::Name, By::Name]);
        let by_number = sorted(&names, |name| name.inode);
        // The others need theirs.
        assert_ne!(asked(&mut orders, &names, &by_number[..6])[..], by_number[6..26]);
        assert_eq!(orders.next(Kind::Attributes), 0);
        let by_name = sorted(&names, |name| name.name.to_owned());
        assert_eq!(orders.next(Kind::Folders), by_name[0]);
    }
}
