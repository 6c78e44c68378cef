//! What `--help` prints, from the rows of the options.

use std::fmt::Write;

use super::options::{ROWS, Row, Takes};
use crate::talk;

/// Columns of a terminal, and where the help of an option begins.
const WIDTH: usize = 79;
const INDENT: usize = 26;

const NOTES: &str = "\
Examples:
  kumiki-du -sh /usr                 how much /usr takes, in a unit that fits
  kumiki-du -h -d 1 ~                the same for each directory in the home
  kumiki-du -xsc /var /opt           two totals and their sum, mounts left out
  kumiki-du -a --exclude='*.o' .     every file but object files
  kumiki-du -0 . | sort -zn          names with line feeds survive
  kumiki-du -ht 1G /                 directories of 1 GiB and more
  kumiki-du --time -d 1 ~            when anything below was modified last
  find . -name '*.log' -print0 | kumiki-du -ch --files0-from=-

Options, lines and messages are those of GNU du of coreutils 9.7, in its order:
directories after what is in them. They are printed when an operand has been
gone through, first what could not be read. Which name of a file with several
hard links counts can differ in a directory of more than 10,000 entries, which
GNU du reorders.

With -L an empty directory given as DIR/ keeps its slash, which GNU du cuts off.

Other releases of GNU du differ: up to 9.1 --apparent-size counts directories
and devices, too. -d -1 is taken for -d 0 from 9.4 to 9.11 and here, and refused
by those before and after. The letter A is there from 9.10 on. Words, digits and
dates are those of the C locale.

Long options may be shortened as long as one only fits, but for --plain and
--parallel, which GNU du does not have.

Sizes are rounded up. SIZE is a number (with 0x before it hexadecimal, with 0
octal) and a unit, or one of both: K, M, G, T, P, E (powers of 1024; KiB and so
on are the same), KB, MB and so on (powers of 1000). Without an option sizes are
in the block size of DU_BLOCK_SIZE, BLOCK_SIZE or BLOCKSIZE, or else 1024 bytes
(512 if POSIXLY_CORRECT is set). TIME_STYLE says how times are printed, TZ where
the clock stands.

Exit status: 0 if everything was counted; 1 if something could not be read, the
command line is wrong, or the output cannot be written, which is said on stderr.
";

/// The whole text.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Disk usage of files and, recursively, of directories: what du says, with the\n\
         system calls made in parallel\n\n",
    );
    let name = String::from_utf8_lossy(talk::name());
    let _ = writeln!(text, "Usage: {name} [OPTION]... [FILE]...");
    let _ = writeln!(text, "  or:  {name} [OPTION]... --files0-from=FILE\n");
    text.push_str("Without a FILE the working directory is counted.\n\nOptions:\n");
    ROWS.iter().for_each(|row| option(&mut text, row));
    text.push('\n');
    text.push_str(NOTES);
    text
}

fn option(text: &mut String, row: &Row) {
    let letters = row.letters.iter().map(|&letter| format!("-{}", char::from(letter)));
    let mut names = letters.collect::<Vec<_>>();
    if !row.name.is_empty() {
        names.push(format!("--{}", row.name));
    }
    let value = match row.takes {
        Takes::Nothing => String::new(),
        Takes::Value(value) => format!("={value}"),
        Takes::Maybe(value) => format!("[={value}]"),
    };
    let lead = if row.letters.is_empty() { "      " } else { "  " };
    let mut line = format!("{lead}{}{value}", names.join(", "));
    if line.len() + 2 > INDENT {
        text.push_str(&line);
        text.push('\n');
        line.clear();
    }
    for word in row.help.split(' ') {
        let begins = line.trim_start().is_empty() || line.len() <= INDENT;
        if line.len() < INDENT {
            line.push_str(&" ".repeat(INDENT - line.len()));
        } else if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(INDENT);
        } else if !begins {
            line.push(' ');
        }
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_a_terminal_and_every_option_is_there() {
        let help = help();
        let long =
            help.lines().filter(|line| line.chars().count() > 80 && !line.contains("[OPTION]"));
        assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
        for row in ROWS.iter().filter(|row| !row.name.is_empty()) {
            assert!(help.contains(&format!("--{}", row.name)), "{}", row.name);
        }
        assert!(
            help.contains("\n  -k                      The same as --block-size=1K\n"),
            "{help}"
        );
    }
}
