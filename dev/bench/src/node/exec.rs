//! `true` in a node and on its host.

use std::time::Instant;

use anyhow::{Result, ensure};
use kumiki_measure::bench::Row;
use kumiki_node::{Ending, Session};

use super::{NODE, run};
use crate::run::median_of;

/// Turns of each way, in each start of the node.
const TIMES: usize = 20;
/// A way is warm after so many.
const WARM: usize = 3;

/// Who runs it, in turns. The first and the last are alike: a process that runs asks for
/// it, here the node's agent and there its own kernel. A client that is started for it, as
/// a person does, takes longer by its own start.
#[derive(Default)]
pub(super) struct Exec {
    client: Vec<Vec<f64>>,
    session: Vec<Vec<f64>>,
    host: Vec<Vec<f64>>,
}

impl Exec {
    /// A turn of each, in a node that runs.
    pub(super) fn measure(&mut self) -> Result<()> {
        let (mut client, mut session, mut host) = (Vec::new(), Vec::new(), Vec::new());
        for time in 0..TIMES + WARM {
            for (samples, way) in [
                (&mut client, by_client as fn() -> Result<()>),
                (&mut session, by_session),
                (&mut host, by_host),
            ] {
                let begin = Instant::now();
                way()?;
                if time >= WARM {
                    samples.push(begin.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
        self.client.push(client);
        self.session.push(session);
        self.host.push(host);
        Ok(())
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let base = Some(median_of(&self.host));
        [("kumiki", &self.session), ("kumiki/client", &self.client), ("host", &self.host)]
            .map(|(subject, groups)| Row::of(("exec_true", subject), "ms", groups, base))
            .into()
    }
}

fn by_client() -> Result<()> {
    run(&["kumiki", "node", "exec", NODE, "--", "true"])
}

fn by_session() -> Result<()> {
    let (ending, ..) = Session::open(NODE)?.output(&["true".to_owned()])?;
    ensure!(ending == Ending::Exited(0), "true in the node: {ending:?}");
    Ok(())
}

fn by_host() -> Result<()> {
    run(&["true"])
}
