//! The lines of one operand: a directory comes after what is in it.

use std::io::{self, Write};

use crate::format::Format;
use crate::tree::{Directory, ROOT, Tree, join};

/// What is printed.
#[derive(Debug)]
pub(crate) struct Style {
    pub(crate) format: Format,
    /// Lines for directories, and files that the tree has kept, down to this
    /// depth.
    pub(crate) deepest: u32,
    /// A directory's line is without its subdirectories.
    pub(crate) separate: bool,
    /// What ends a line.
    pub(crate) end: u8,
}

impl Style {
    pub(crate) fn line(&self, out: &mut impl Write, bytes: u64, path: &[u8]) -> io::Result<()> {
        write!(out, "{}\t", self.format.size(bytes))?;
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
    /// How long the path was above it.
    above: usize,
    /// The children that are left.
    children: std::ops::Range<usize>,
}

/// Prints the lines of `tree`; returns what it takes.
pub(crate) fn print(tree: &Tree, style: &Style, out: &mut impl Write) -> io::Result<u64> {
    let Some(root) = tree.directories.first() else {
        style.line(out, tree.alone_bytes, tree.operand.to_bytes())?;
        return Ok(tree.alone_bytes);
    };
    let totals = totals(tree);
    let printed = |number: u32, directory: &Directory| {
        if style.separate { alone(directory) } else { totals[number as usize] }
    };
    let total = totals[ROOT as usize];
    if style.deepest == 0 {
        style.line(out, printed(ROOT, root), tree.operand.to_bytes())?;
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
                style.line(out, file.bytes, &path)?;
                path.truncate(above);
            }
            None => {
                style.line(out, printed(at.number, tree.directory(at.number)), &path)?;
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

/// What each directory takes with everything below it.
fn totals(tree: &Tree) -> Vec<u64> {
    let mut totals: Vec<_> = tree.directories.iter().map(alone).collect();
    // Children have higher numbers than their parents.
    for (number, directory) in tree.directories.iter().enumerate().skip(1).rev() {
        totals[directory.parent as usize] =
            totals[directory.parent as usize].saturating_add(totals[number]);
    }
    totals
}

/// What a directory takes without its subdirectories.
fn alone(directory: &Directory) -> u64 {
    let own = if directory.dropped { 0 } else { directory.own_bytes };
    own.saturating_add(directory.files_bytes)
}
