//! Files in and out.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::machine;

#[test]
fn folders_go_in_and_come_out_as_they_are() {
    let Some(machine) = machine() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::write(tree.join("a/b/bytes"), (0..=255).collect::<Vec<u8>>()).unwrap();
    fs::set_permissions(tree.join("a/b/bytes"), fs::Permissions::from_mode(0o751)).unwrap();
    symlink("b/bytes", tree.join("a/link")).unwrap();
    machine.guest().put(&tree, Path::new("/tmp/put")).unwrap();
    let script = "stat -c %a /tmp/put/a/b/bytes; readlink /tmp/put/a/link";
    let output = machine.command("sh").args(["-c", script]).output().unwrap();
    assert_eq!(output.stdout, b"751\nb/bytes\n");
    let back = folder.path().join("back");
    fs::create_dir(&back).unwrap();
    machine.guest().get(Path::new("/tmp/put"), &back).unwrap();
    let bytes = fs::read(back.join("put/a/link")).unwrap();
    assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
}

#[test]
fn a_program_of_this_machine_runs_in_the_other() {
    let Some(machine) = machine() else { return };
    let own = std::env::current_exe().unwrap();
    machine.guest().put(&own, Path::new("tests")).unwrap();
    let output = machine.command("./tests").arg("--list").output().unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    assert!(names.contains("a_program_of_this_machine_runs_in_the_other"), "{names}");
}

#[test]
fn what_is_not_there_is_said() {
    let Some(machine) = machine() else { return };
    let missing = Path::new("/no/such/file");
    let error = machine.guest().put(missing, Path::new("x")).unwrap_err().to_string();
    assert!(error.contains("/no/such/file"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let error = machine.guest().get(missing, folder.path()).unwrap_err().to_string();
    assert!(error.contains("/no/such/file"), "{error}");
}

#[test]
fn what_has_no_end_is_not_copied() {
    let Some(machine) = machine() else { return };
    let error = machine.guest().put(Path::new("/dev/zero"), Path::new("zeros")).unwrap_err();
    assert!(error.to_string().contains("neither a file nor a folder"), "{error}");
}
