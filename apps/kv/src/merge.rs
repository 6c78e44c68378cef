//! One answer of those of several shards.

use crate::commands::{Merge, NO_CLIENT};
use crate::resp::{Out, number};

/// Makes one answer of those of several shards; where any will do, the first from `begin` on.
pub(crate) fn merged<'a>(
    merge: Merge,
    begin: usize,
    parts: &mut dyn Iterator<Item = &'a [u8]>,
    out: &mut Out,
) {
    let parts: Vec<&[u8]> = parts.collect();
    // What one refuses is refused.
    if let Some(error) = parts.iter().find(|part| part.first() == Some(&b'-')) {
        return out.bytes.extend_from_slice(error);
    }
    // The number of an answer, and what stands behind it.
    let head = |part: &'a [u8]| {
        let end = part.windows(2).position(|two| two == b"\r\n").unwrap_or(part.len());
        let count = number(part.get(1..end).unwrap_or_default()).unwrap_or(0);
        (count, part.get(end + 2..).unwrap_or_default())
    };
    let sum = || parts.iter().map(|part| head(part).0).sum::<i64>();
    match merge {
        Merge::Sum | Merge::Killed => out.integer(sum()),
        Merge::KilledOne if sum() == 0 => out.error(NO_CLIENT),
        Merge::KilledOne => out.ok(),
        Merge::First => out.bytes.extend_from_slice(parts.first().copied().unwrap_or_default()),
        Merge::Array => {
            out.array(usize::try_from(sum()).unwrap_or(0));
            parts.iter().for_each(|part| out.bytes.extend_from_slice(head(part).1));
        }
        Merge::Any => {
            let is_something = |part: &&&[u8]| part.starts_with(b"$") && !part.starts_with(b"$-1");
            let mut from_there = parts.iter().cycle().skip(begin).take(parts.len());
            let part = from_there.find(is_something).or(parts.first());
            out.bytes.extend_from_slice(part.copied().unwrap_or_default());
        }
        Merge::Text => {
            let mut text = Vec::new();
            for part in &parts {
                let body = head(part).1;
                let body = body.strip_suffix(b"\r\n").unwrap_or(body);
                text.extend_from_slice(body.strip_prefix(b"txt:").unwrap_or(body));
            }
            out.text(&text);
        }
    }
}

/// Makes one list of several, whose elements take turns in this order.
pub(crate) fn interleaved(order: &[u16], mut parts: Vec<&[u8]>, out: &mut Out) {
    if let Some(error) = parts.iter().find(|part| part.first() == Some(&b'-')) {
        return out.bytes.extend_from_slice(error);
    }
    // The first line of an element or a list has its length.
    fn line(part: &[u8]) -> (usize, Option<i64>) {
        let end = part.iter().position(|byte| *byte == b'\n').map_or(part.len(), |at| at + 1);
        (end, number(part.get(1..end.saturating_sub(2)).unwrap_or_default()))
    }
    parts.iter_mut().for_each(|part| *part = &part[line(part).0..]);
    out.array(order.len());
    for number in order {
        let Some(part) = parts.get_mut(usize::from(*number)) else { return };
        let (head, length) = line(part);
        // What is not there has a line alone.
        let bytes = length.and_then(|length| usize::try_from(length).ok()).map_or(0, |it| it + 2);
        let (element, rest) = part.split_at((head + bytes).min(part.len()));
        out.bytes.extend_from_slice(element);
        *part = rest;
    }
}
