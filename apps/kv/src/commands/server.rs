//! Commands on the server: what it is, how it is set, what it counts.

use super::config;
use super::keys::help;
use super::row::flag::{ADMIN, DANGEROUS, FAST, NO_MULTI, NOSCRIPT};
use super::row::{Done, Here, Row, Run};
use crate::info;

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    run: Run,
    since: &'static str,
    summary: &'static str,
) -> Row {
    Row { name, arity, flags, keys: (0, 0, 0), run, group: "server", since, summary }
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row("bgrewriteaof", 1, ADMIN | NOSCRIPT, Run::Here(bgrewriteaof), "1.0.0", "Begins a snapshot, as BGSAVE does, if keys are kept (--durable)."),
    row("bgsave", -1, ADMIN | NOSCRIPT, Run::Here(bgsave), "1.0.0", "Begins a snapshot, if keys are kept (--durable)."),
    row("config", -2, ADMIN, Run::Group(CONFIG), "2.0.0", "Asks for settings, and sets them."),
    row("debug", -2, ADMIN | NOSCRIPT, Run::Here(debug), "1.0.0", "Is refused, as it is by Redis without a setting of its own."),
    row("info", -1, DANGEROUS, Run::Here(info), "1.0.0", "Gives what the server is and counts."),
    row("lastsave", 1, FAST, Run::Here(lastsave), "1.0.0", "Gives the time of the last snapshot, or of the start."),
    row("role", 1, ADMIN | FAST | NOSCRIPT, Run::Here(role), "2.8.12", "Gives the server's role: master, without replicas."),
    row("save", 1, ADMIN | NOSCRIPT | NO_MULTI, Run::Here(save), "1.0.0", "Begins a snapshot, as BGSAVE does: what was answered is on the disk already."),
    row("time", 1, FAST, Run::Here(time), "2.6.0", "Gives the server's time."),
];

#[rustfmt::skip]
const CONFIG: &[Row] = &[
    row("config|get", -3, ADMIN, Run::Here(config::get), "2.0.0", "Gives the settings whose names match."),
    row("config|help", 2, ADMIN, Run::Here(config_help), "5.0.0", "Lists the subcommands of CONFIG."),
    row("config|resetstat", 2, ADMIN, Run::Here(resetstat), "2.0.0", "Sets what INFO counts to nought."),
    row("config|rewrite", 2, ADMIN, Run::Here(|_| Err("ERR The server is running without a config file")), "2.8.0", "Is refused: there is no file of settings."),
    row("config|set", -4, ADMIN, Run::Here(config::set), "2.0.0", "Sets settings, all or none."),
];

fn debug(_: &mut Here<'_>) -> Done {
    Err("ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.")
}

/// Begins a snapshot.
fn begin_save(h: &Here<'_>) -> Done {
    match h.shared.kept.as_ref().map(|kept| kept.begin_save()) {
        Some(true) => Ok(()),
        Some(false) => Err("ERR Background save already in progress"),
        None => Err("ERR Nothing is kept on a disk: start kumiki-kv with --durable FOLDER"),
    }
}

fn bgsave(h: &mut Here<'_>) -> Done {
    if h.words.len() > 2 || h.words.len() == 2 && !h.word(1).eq_ignore_ascii_case(b"SCHEDULE") {
        return Err("ERR syntax error");
    }
    begin_save(h)?;
    h.out.simple("Background saving started");
    Ok(())
}

fn bgrewriteaof(h: &mut Here<'_>) -> Done {
    begin_save(h)?;
    h.out.simple("Background append only file rewriting started");
    Ok(())
}

fn save(h: &mut Here<'_>) -> Done {
    begin_save(h)?;
    h.out.ok();
    Ok(())
}

fn lastsave(h: &mut Here<'_>) -> Done {
    let saved = h.shared.kept.as_ref().map_or_else(
        || h.shared.started(),
        |kept| kept.counts.saved.load(std::sync::atomic::Ordering::Relaxed),
    );
    h.out.integer(saved as i64);
    Ok(())
}

fn role(h: &mut Here<'_>) -> Done {
    h.out.array(3);
    h.out.bulk(b"master");
    h.out.integer(0);
    h.out.array(0);
    Ok(())
}

fn time(h: &mut Here<'_>) -> Done {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let since = since.unwrap_or_default();
    h.out.array(2);
    h.out.bulk(since.as_secs().to_string().as_bytes());
    h.out.bulk(since.subsec_micros().to_string().as_bytes());
    Ok(())
}

fn info(h: &mut Here<'_>) -> Done {
    let sections = h.words.from(1).iter().map(|word| String::from_utf8_lossy(word).to_lowercase());
    let sections: Vec<String> = sections.collect();
    h.out.text(info::text(h.shared, &sections).as_bytes());
    Ok(())
}

fn resetstat(h: &mut Here<'_>) -> Done {
    h.shared.reset_sums();
    h.out.ok();
    Ok(())
}

fn config_help(h: &mut Here<'_>) -> Done {
    help(h.out, CONFIG)
}
