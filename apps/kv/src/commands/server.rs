//! Commands on the server: what it is, how it is set, what it counts.

use super::config;
use super::keys::help;
use super::row::flag::{ADMIN, DANGEROUS, FAST, NOSCRIPT};
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
    row("config", -2, ADMIN, Run::Group(CONFIG), "2.0.0", "Asks for settings, and sets them."),
    row("debug", -2, ADMIN | NOSCRIPT, Run::Here(debug), "1.0.0", "Is refused, as it is by Redis without a setting of its own."),
    row("info", -1, DANGEROUS, Run::Here(info), "1.0.0", "Gives what the server is and counts."),
    row("role", 1, ADMIN | FAST | NOSCRIPT, Run::Here(role), "2.8.12", "Gives the server's role: master, without replicas."),
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
