//! The longest part that two values have in common.

use super::options::{SYNTAX, integer};
use super::row::{Call, Done};

/// Bytes of the table of two values, at most.
const MOST: usize = 64 << 20;

pub(super) fn lcs(c: &mut Call<'_>) -> Done {
    let (mut wants_length, mut wants_places, mut with_length, mut least) = (false, false, false, 0);
    let mut at = 3;
    while at < c.words.len() {
        let is = |name: &[u8]| c.word(at).eq_ignore_ascii_case(name);
        if is(b"IDX") {
            wants_places = true;
        } else if is(b"LEN") {
            wants_length = true;
        } else if is(b"WITHMATCHLEN") {
            with_length = true;
        } else if is(b"MINMATCHLEN") && at + 1 < c.words.len() {
            at += 1;
            least = usize::try_from(integer(c.word(at))?.max(0)).unwrap_or(usize::MAX);
        } else {
            return Err(SYNTAX);
        }
        at += 1;
    }
    if wants_length && wants_places {
        return Err("ERR If you want both the length and indexes, please just use IDX.");
    }
    let value = |at| c.shard.keys.get(c.word(at), c.now).map_or(&b""[..], |found| found.value);
    let (a, b) = (value(1), value(2));
    let columns = b.len() + 1;
    let cells = (a.len() + 1).checked_mul(columns).filter(|cells| cells * 4 <= MOST);
    let cells =
        cells.ok_or("ERR Insufficient memory, failed allocating transient memory for LCS")?;
    let mut table = vec![0_u32; cells];
    for (row, one) in a.iter().enumerate() {
        for (column, other) in b.iter().enumerate() {
            let here = (row + 1) * columns + column + 1;
            table[here] = match one == other {
                true => table[here - columns - 1] + 1,
                false => table[here - columns].max(table[here - 1]),
            };
        }
    }
    let length = table[cells - 1];
    if wants_length {
        c.out.integer(length.into());
        return Ok(());
    }
    // Back from the end; what they have in common is found from behind.
    let (mut row, mut column) = (a.len(), b.len());
    let (mut common, mut matches) = (Vec::new(), Vec::new());
    let mut run: Option<(usize, usize, usize)> = None;
    while row > 0 && column > 0 {
        let here = row * columns + column;
        if a[row - 1] == b[column - 1] {
            common.push(a[row - 1]);
            (row, column) = (row - 1, column - 1);
            run = match run {
                Some((first, other, length)) if first == row + 1 && other == column + 1 => {
                    Some((row, column, length + 1))
                }
                ended => {
                    matches.extend(ended);
                    Some((row, column, 1))
                }
            };
        } else if table[here - columns] > table[here - 1] {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    matches.extend(run);
    common.reverse();
    if !wants_places {
        c.out.bulk(&common);
        return Ok(());
    }
    matches.retain(|(_, _, length)| *length >= least);
    c.out.map(2);
    c.out.bulk(b"matches");
    c.out.array(matches.len());
    for (first, other, length) in matches {
        c.out.array(2 + usize::from(with_length));
        for from in [first, other] {
            c.out.array(2);
            c.out.integer(from as i64);
            c.out.integer((from + length - 1) as i64);
        }
        if with_length {
            c.out.integer(length as i64);
        }
    }
    c.out.bulk(b"len");
    c.out.integer(length.into());
    Ok(())
}
