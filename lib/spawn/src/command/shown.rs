//! A command as it would be typed.

use std::fmt;

use super::Command;

/// Prints as `std::process::Command` does: the folder and environment that were set, the program,
/// its arguments.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(folder) = self.get_current_dir() {
            write!(f, "cd {folder:?} && ")?;
        }
        if self.environment.clear {
            f.write_str("env -i ")?;
        } else {
            let removed = self.get_envs().filter(|(_, value)| value.is_none());
            for (place, (name, _)) in removed.enumerate() {
                let begin = if place == 0 { "env " } else { "" };
                write!(f, "{begin}-u {} ", name.to_string_lossy())?;
            }
        }
        for (name, value) in self.get_envs() {
            if let Some(value) = value {
                write!(f, "{}={value:?} ", name.to_string_lossy())?;
            }
        }
        if self.program != self.args[0] {
            write!(f, "[{:?}] ", self.program)?;
        }
        write!(f, "{:?}", self.args[0])?;
        self.get_args().try_for_each(|arg| write!(f, " {arg:?}"))
    }
}
