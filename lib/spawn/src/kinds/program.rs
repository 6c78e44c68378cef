//! The kind *program*.

use std::path::PathBuf;

use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Error, Place, Result};

use crate::image::NoProgram;
use crate::program::Program;

/// Created from a path:
///
/// ```
/// use kumiki_resource::Builder;
/// use kumiki_spawn::{Process, Program};
///
/// let interface = Builder::new().kind::<Program>().kind::<Process>().per_core()?;
/// let place = interface.places()[0];
/// let program = interface.create::<Program>(place, Some("true"), "/bin/true".into())?;
/// let command = interface.with(&program, |program, ()| program.command())?;
/// let process = interface.create::<Process>(place, None, command)?;
/// assert!(Process::wait(&interface, &process)?.success());
/// # Ok::<(), kumiki_resource::Error>(())
/// ```
impl Kind for Program {
    const NAME: &'static str = "program";
    type Spec = PathBuf;
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create(path: PathBuf, (): &mut ()) -> Result<Program> {
        let refused = |error: NoProgram| match error {
            NoProgram::Unreadable { path, error } => {
                let what = path.display().to_string();
                Error::System { kind: Self::NAME, what, source: error, way: "" }
            }
            other => Error::Kind { kind: Self::NAME, text: other.to_string() },
        };
        Program::load(path).map_err(refused)
    }

    /// Processes of it go on.
    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: format!("resident {}", self.path().display()), bytes: self.bytes() }
    }
}
