//! Commands of transactions. `EXEC` and `WATCH` run where the keys are (`crate::dispatch`).

use super::row::flag::{FAST, NOSCRIPT, NOW};
use super::row::{Done, Here, Row, Run};
use crate::session::Multi;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: (i32, i32, i32),
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row { name, arity, flags: flags | NOSCRIPT, keys, run, group: "transactions", since, summary }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("discard", 1, FAST | NOW, (0, 0, 0), Run::Unwatch(discard), "2.0.0", "Gives a transaction up."),
    row("exec", 1, NOW, (0, 0, 0), Run::Exec, "1.2.0", "Runs a transaction, if what is watched has not changed."),
    row("multi", 1, FAST | NOW, (0, 0, 0), Run::Here(multi), "1.2.0", "Begins a transaction: what follows is queued."),
    row("unwatch", 1, FAST, (0, 0, 0), Run::Unwatch(unwatch), "2.2.0", "Watches no key any more."),
    row("watch", -2, FAST | NOW, (1, -1, 1), Run::Watch, "2.2.0", "Watches keys: if one changes, the next transaction does not run."),
];

fn multi(h: &mut Here<'_>) -> Done {
    if h.session.multi.is_some() {
        return Err("ERR MULTI calls can not be nested");
    }
    h.session.multi = Some(Multi::default());
    h.out.ok();
    Ok(())
}

fn discard(h: &mut Here<'_>) -> Done {
    h.session.multi.take().ok_or("ERR DISCARD without MULTI")?;
    h.out.ok();
    Ok(())
}

fn unwatch(h: &mut Here<'_>) -> Done {
    h.out.ok();
    Ok(())
}
