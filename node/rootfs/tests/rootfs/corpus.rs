//! Archives in every form that tar programs write, laid out and held against what `tar -x` makes of
//! them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kumiki_rootfs::{Limits, Root, Source, read};

use crate::about::differences;

/// Reads an archive to a new folder; what failed, for people.
pub(crate) fn read_tar(
    archive: &Path,
    limits: Limits,
) -> Result<(tempfile::TempDir, Root), String> {
    let work = tempfile::tempdir().unwrap();
    let data = work.path().join("data");
    fs::create_dir(&data).unwrap();
    let root = read(&Source::Tar(archive.to_owned()), &[], &data, limits);
    root.map(|root| (work, root)).map_err(|error| error.to_string())
}

/// Whether tests may make files of others; else it says what is not tried.
pub(crate) fn is_root(what: &str) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0);
    if !is_root {
        println!("skipped: only root can give files away, so {what} is not tried");
    }
    is_root
}

fn by_tar(archive: &Path, folder: &Path) {
    let mut command = Command::new("tar");
    command.args(["-x", "-p", "--delay-directory-restore", "--numeric-owner"]);
    command.args(["--xattrs", "--xattrs-include=*", "-f"]).arg(archive).arg("-C").arg(folder);
    // Where it complains, of a block of zeros alone or of a time in the future, it unpacks.
    let _ = command.stderr(Stdio::null()).status().unwrap();
}

fn corpus(folder: &Path) -> Option<Vec<(PathBuf, String)>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rootfs/corpus.py");
    let made = Command::new("python3").arg(script).arg(folder).stderr(Stdio::inherit()).output();
    let Ok(made) = made else {
        println!("skipped: python3 is missing, by which archives are made");
        return None;
    };
    assert!(made.status.success(), "the corpus is made");
    let lines = String::from_utf8(made.stdout).unwrap();
    let entry = |line: &str| {
        let (name, refusal) = line.split_once('\t').unwrap();
        (folder.join(name), refusal.to_owned())
    };
    Some(lines.lines().map(entry).collect())
}

#[test]
fn archives_of_all_programs_and_formats_become_what_tar_makes_of_them_or_are_refused_by_name() {
    if !is_root("what tar makes of an archive") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(archives) = corpus(&folder.path().join("corpus")) else { return };
    let mut wrong = Vec::new();
    let mut same = 0;
    for (archive, refusal) in &archives {
        let name = archive.file_name().unwrap().to_string_lossy().into_owned();
        let ours = tempfile::tempdir_in(folder.path()).unwrap();
        match (read_tar(archive, Limits::default()), refusal.as_str()) {
            (Err(error), "") => wrong.push(format!("{name}: {error}")),
            (Err(error), refusal) if !error.contains(refusal) => {
                wrong.push(format!("{name}: {error}, and not {refusal}"));
            }
            (Err(_), _) => {}
            (Ok(_), refusal) if !refusal.is_empty() => {
                wrong.push(format!("{name}: it is read, and not refused by {refusal}"));
            }
            (Ok((_work, root)), _) => {
                if let Err(error) = root.lay_out(ours.path()) {
                    wrong.push(format!("{name}: {error}"));
                    continue;
                }
                let theirs = tempfile::tempdir_in(folder.path()).unwrap();
                by_tar(archive, theirs.path());
                let differences = differences(ours.path(), theirs.path(), true);
                same += usize::from(differences.is_empty());
                wrong.extend(differences.iter().map(|found| format!("{name}: {found}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same >= 30, "{same} archives of {} were held against tar's", archives.len());
}
