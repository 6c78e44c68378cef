//! Man pages and shell completions, made from the one definition in `args`.

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::args::{Cli, Completions, Man};
use crate::{Verdict, output};

pub(crate) fn man(args: Man) -> Result<Verdict> {
    match args.dir {
        Some(dir) => std::fs::create_dir_all(&dir)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &dir))
            .with_context(|| format!("writing man pages into {}", dir.display()))?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            output::data(&page)?;
        }
    }
    Ok(Verdict::Fine)
}

pub(crate) fn completions(args: Completions) -> Result<Verdict> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kumiki", &mut script);
    output::data(&script)?;
    Ok(Verdict::Fine)
}
