//! The lines of one operand: a directory comes after what is in it.

use std::io::{self, Write};

use crate::format::Format;
use crate::quote::in_words;
use crate::sum::Sum;
use crate::talk::say;
use crate::tree::{ROOT, Tree, join};
use crate::when::Layout;

/// Form of the lines.
#[derive(Debug)]
pub(crate) struct Style {
    pub(crate) format: Format,
    /// Lines for directories, and files that the tree has kept, down to this
    /// depth.
    pub(crate) deepest: u32,
    /// A directory's line is without its subdirectories.
    pub(crate) separate: bool,
    /// No line for less than that, or if negative, for more than its opposite.
    pub(crate) threshold: i64,
    /// Layout of times, if they are printed.
    pub(crate) layout: Option<Layout>,
    /// Byte that ends a line.
    pub(crate) end: u8,
}

impl Style {
    /// A line, if the threshold lets it.
    #[inline]
    fn line(&self, out: &mut impl Write, sum: Sum, path: &[u8]) -> io::Result<()> {
        let limit = self.threshold.unsigned_abs();
        let printed = if self.threshold < 0 { sum.amount <= limit } else { sum.amount >= limit };
        if printed { self.any_line(out, sum, path) } else { Ok(()) }
    }

    /// A line in any case.
    #[inline]
    pub(crate) fn any_line(&self, out: &mut impl Write, sum: Sum, path: &[u8]) -> io::Result<()> {
        write!(out, "{}\t", self.format.size(sum.amount))?;
        if let Some(layout) = &self.layout {
            let mut text = Vec::new();
            if !layout.write(&mut text, sum.time) {
                say([&b"time "[..], &in_words(&text), b" is out of range"].concat());
            }
            text.push(b'\t');
            out.write_all(&text)?;
        }
        out.write_all(path)?;
        out.write_all(&[self.end])
    }
}

/// A line to come, below a directory.
enum Child {
    Directory(u32),
    File(usize),
}

/// A directory whose children are being printed.
struct Open {
    number: u32,
    /// Length of the path above it.
    above: usize,
    /// The children that are left.
    children: std::ops::Range<usize>,
}

/// Prints the lines of `tree`; returns what it takes.
pub(crate) fn print(tree: &Tree, style: &Style, out: &mut impl Write) -> io::Result<Sum> {
    if tree.directories.is_empty() {
        style.line(out, tree.alone, tree.operand.to_bytes())?;
        return Ok(tree.alone);
    }
    let totals = totals(tree);
    let printed = |number: u32| {
        if style.separate { alone(tree, number) } else { totals[number as usize] }
    };
    let total = totals[ROOT as usize];
    if style.deepest == 0 {
        style.line(out, printed(ROOT), tree.operand.to_bytes())?;
        return Ok(total);
    }

    let children = children(tree, style.deepest);
    let below = |number: u32| {
        let start = children.partition_point(|&(parent, ..)| parent < number);
        let end = children.partition_point(|&(parent, ..)| parent <= number);
        start..end
    };
    let mut path = tree.operand.to_bytes().to_vec();
    let mut open = vec![Open { number: ROOT, above: 0, children: below(ROOT) }];
    while let Some(at) = open.last_mut() {
        let above = path.len();
        match at.children.next().map(|child| &children[child].2) {
            Some(&Child::Directory(number)) => {
                join(&mut path, tree.name(number).to_bytes());
                open.push(Open { number, above, children: below(number) });
            }
            Some(&Child::File(number)) => {
                let file = &tree.files[number];
                join(&mut path, tree.file_name(file).to_bytes());
                let sum = Sum { amount: file.bytes, time: tree.file_time(number) };
                style.line(out, sum, &path)?;
                path.truncate(above);
            }
            None => {
                style.line(out, printed(at.number), &path)?;
                path.truncate(at.above);
                open.pop();
            }
        }
    }
    Ok(total)
}

/// Everything down to a depth, by parent and then in the directory's order.
fn children(tree: &Tree, deepest: u32) -> Vec<(u32, u32, Child)> {
    let directories = (0u32..).zip(&tree.directories).skip(1);
    let directories = directories.filter(|(_, found)| !found.dropped && found.depth <= deepest);
    let directories =
        directories.map(|(number, found)| (found.parent, found.position, Child::Directory(number)));
    let files = tree.files.iter().enumerate().filter(|(_, file)| !file.dropped);
    let files = files.map(|(number, file)| (file.directory, file.position, Child::File(number)));
    let mut children: Vec<_> = directories.chain(files).collect();
    children.sort_unstable_by_key(|&(parent, position, _)| (parent, position));
    children
}

/// Sum of each directory with everything below it.
fn totals(tree: &Tree) -> Vec<Sum> {
    let count = tree.directories.len() as u32;
    let mut totals: Vec<_> = (0..count).map(|number| alone(tree, number)).collect();
    // Children have higher numbers than their parents.
    for (number, directory) in tree.directories.iter().enumerate().skip(1).rev() {
        let below = totals[number];
        totals[directory.parent as usize].add(below);
    }
    totals
}

/// Sum of a directory without its subdirectories.
fn alone(tree: &Tree, number: u32) -> Sum {
    let directory = tree.directory(number);
    let own = if directory.dropped { 0 } else { directory.own_bytes };
    Sum { amount: own.saturating_add(directory.files_bytes), time: tree.directory_time(number) }
}
