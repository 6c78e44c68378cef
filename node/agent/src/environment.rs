//! Variables that programs of a node find: those of its image, and what every program expects.

use std::process::Command;

use kumiki_rootfs::Program;
use rustix::system::uname;

use super::{root, users};
use users::Who;

/// Names and values; what comes later counts.
pub(super) struct Environment(Vec<(String, String)>);

/// Variables for a program that runs as this user, root if it is none; HOME is that user's, by the image's
/// `/etc/passwd`.
pub(super) fn of(who: Option<&Who>, image: Option<Program>) -> Environment {
    let place = root::place().unwrap_or(std::path::Path::new("/"));
    let home = users::home(place, who.map_or(0, |who| who.user));
    let host = uname().nodename().to_string_lossy().into_owned();
    made(home, host, image.map(|program| program.environment).unwrap_or_default())
}

fn made(home: String, host: String, image: Vec<String>) -> Environment {
    let mut variables = vec![("HOME".to_owned(), home), ("HOSTNAME".to_owned(), host)];
    let words = image.iter().filter_map(|word| word.split_once('='));
    variables.extend(words.map(|(name, value)| (name.to_owned(), value.to_owned())));
    Environment(variables)
}

impl Environment {
    /// Gives them to a program.
    pub(super) fn tell(self, command: &mut Command) {
        command.envs(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_s_own_variables_count() {
        let image = vec!["HOME=/srv".to_owned(), "A=b=c".to_owned(), "odd".to_owned()];
        let mut command = Command::new("x");
        made("/root".into(), "n1".into(), image).tell(&mut command);
        let has = |name: &str| {
            let found = command.get_envs().find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value?.to_str())
        };
        assert_eq!(
            [has("HOME"), has("HOSTNAME"), has("A")],
            [Some("/srv"), Some("n1"), Some("b=c")]
        );
        assert_eq!(has("odd"), None);
    }
}
