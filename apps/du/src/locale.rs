//! What the environment says about characters.

use std::env::var_os;
use std::sync::LazyLock;

/// True if this locale's characters are UTF-8, by the variables that set it.
pub(crate) fn is_utf8() -> bool {
    static UTF8: LazyLock<bool> = LazyLock::new(|| {
        let set = |name| var_os(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        locale.ends_with("utf-8") || locale.ends_with("utf8")
    });
    *UTF8
}

/// True if the program keeps to POSIX where GNU's programs do not.
pub(crate) fn is_posix() -> bool {
    var_os("POSIXLY_CORRECT").is_some()
}
