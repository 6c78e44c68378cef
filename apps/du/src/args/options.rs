//! Every option: one row, from which the command line is read and the help printed.

/// Options by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id {
    All,
    ApparentSize,
    BlockSize,
    Bytes,
    CountLinks,
    Dereference,
    DereferenceArgs,
    Exclude,
    ExcludeFrom,
    FilesFrom,
    Help,
    HumanReadable,
    Inodes,
    Kibibytes,
    MaxDepth,
    Mebibytes,
    NoDereference,
    Null,
    OneFileSystem,
    Parallel,
    Plain,
    SeparateDirs,
    Si,
    Summarize,
    Threshold,
    Time,
    TimeStyle,
    Total,
    Version,
}

/// Value of an option, and its name in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    Value(&'static str),
    /// Only after a `=`.
    Maybe(&'static str),
}

/// An option.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: Id,
    pub(crate) letters: &'static [u8],
    /// Empty if there are only letters.
    pub(crate) name: &'static str,
    pub(crate) takes: Takes,
    pub(crate) help: &'static str,
}

const fn row(
    id: Id,
    letters: &'static [u8],
    name: &'static str,
    takes: Takes,
    help: &'static str,
) -> Row {
    Row { id, letters, name, takes, help }
}

use Takes::{Maybe, Nothing, Value};

/// Options in the order in which GNU du names those that a shortened one could be.
pub(crate) const ROWS: &[Row] = &[
    row(Id::All, b"a", "all", Nothing, "A line for every file, not just for directories"),
    row(
        Id::ApparentSize,
        b"A",
        "apparent-size",
        Nothing,
        "How long regular files and symbolic links are, not what anything takes on the disk",
    ),
    row(
        Id::BlockSize,
        b"B",
        "block-size",
        Value("SIZE"),
        "Units of SIZE bytes: 512, 0x200, K, 4K, MiB, MB, ...; or human-readable, or si",
    ),
    row(Id::Bytes, b"b", "bytes", Nothing, "The same as --apparent-size --block-size=1"),
    row(Id::CountLinks, b"l", "count-links", Nothing, "Count a file as often as it has names here"),
    row(Id::Dereference, b"L", "dereference", Nothing, "Follow all symbolic links"),
    row(
        Id::DereferenceArgs,
        b"DH",
        "dereference-args",
        Nothing,
        "Follow symbolic links that are operands",
    ),
    row(Id::Exclude, b"", "exclude", Value("PATTERN"), "Leave out what matches a shell pattern"),
    row(
        Id::ExcludeFrom,
        b"X",
        "exclude-from",
        Value("FILE"),
        "Leave out what matches a pattern in FILE, one a line; - is stdin",
    ),
    row(
        Id::FilesFrom,
        b"",
        "files0-from",
        Value("FILE"),
        "Count what FILE names, with a NUL after each name; - is stdin",
    ),
    row(
        Id::HumanReadable,
        b"h",
        "human-readable",
        Nothing,
        "Sizes with a letter, powers of 1024: 1.1K 234M 2.0G",
    ),
    row(Id::Inodes, b"", "inodes", Nothing, "How many files there are, not what they take"),
    row(Id::Kibibytes, b"k", "", Nothing, "The same as --block-size=1K"),
    row(Id::Mebibytes, b"m", "", Nothing, "The same as --block-size=1M"),
    row(Id::Si, b"", "si", Nothing, "Sizes with a letter, powers of 1000"),
    row(
        Id::MaxDepth,
        b"d",
        "max-depth",
        Value("N"),
        "Lines only down to N levels below an operand",
    ),
    row(Id::Null, b"0", "null", Nothing, "End each line with a NUL, not a line feed"),
    row(
        Id::NoDereference,
        b"P",
        "no-dereference",
        Nothing,
        "Follow no symbolic links (the default)",
    ),
    row(
        Id::OneFileSystem,
        b"x",
        "one-file-system",
        Nothing,
        "Leave out what is on other file systems",
    ),
    row(
        Id::SeparateDirs,
        b"S",
        "separate-dirs",
        Nothing,
        "Directories without their subdirectories",
    ),
    row(Id::Summarize, b"s", "summarize", Nothing, "Only one line for each operand"),
    row(Id::Total, b"c", "total", Nothing, "A grand total at the end"),
    row(
        Id::Threshold,
        b"t",
        "threshold",
        Value("SIZE"),
        "No line for what takes less than SIZE; or, after a minus sign, more",
    ),
    row(
        Id::Time,
        b"",
        "time",
        Maybe("WORD"),
        "The latest time at which anything counted in a line was modified; or WORD: atime, access, \
         use (read), ctime, status (anything about it changed)",
    ),
    row(
        Id::TimeStyle,
        b"",
        "time-style",
        Value("STYLE"),
        "Times as full-iso, long-iso (the default), iso, or +FORMAT as date(1) takes it",
    ),
    row(
        Id::Plain,
        b"",
        "plain",
        Nothing,
        "Make one system call after the other, without other threads",
    ),
    row(
        Id::Parallel,
        b"",
        "parallel",
        Nothing,
        "Make system calls in parallel from the first one on, not only where many directories are \
         found",
    ),
    row(Id::Help, b"", "help", Nothing, "Print help"),
    row(Id::Version, b"", "version", Nothing, "Print version"),
];

impl Row {
    /// True if it may be shortened. Those that GNU du does not have may not: what is short for one
    /// of its own stays that.
    pub(crate) fn may_be_shortened(&self) -> bool {
        !matches!(self.id, Id::Plain | Id::Parallel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_options_have_one_name() {
        for (number, row) in ROWS.iter().enumerate() {
            assert!(!row.letters.is_empty() || !row.name.is_empty());
            for other in &ROWS[number + 1..] {
                assert!(row.name.is_empty() || row.name != other.name, "{}", row.name);
                assert!(row.id != other.id);
                assert!(row.letters.iter().all(|letter| !other.letters.contains(letter)));
            }
        }
    }
}
