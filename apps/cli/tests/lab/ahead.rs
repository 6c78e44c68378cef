//! `kumiki ahead` over NFS: a server and its client in one machine of the lab, whose loopback takes its time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Labs, text};

/// Where the library and the programs stand in the machine.
const PLACE: &str = "/ahead";

/// Makes a tree, serves it by the kernel, and copies it from a fresh mount, without the library and with it. What a
/// server's programs would answer is told before it is asked: who 127.0.0.1 is, and what it may read.
const LINE: &str = r#"
set -e
ifconfig lo 127.0.0.1 up
mkdir -p /export /mnt/nfs /out
mount -t tmpfs tree /export
folder=0
while [ $folder -lt 12 ]; do
	mkdir /export/folder$folder
	file=0
	while [ $file -lt 25 ]; do
		head -c 3000 /dev/urandom >/export/folder$folder/file$file
		file=$((file + 1))
	done
	folder=$((folder + 1))
done
# Where the server keeps whom it knows: without it there is no end of its time of grace.
mkdir -p /var/lib/nfs/v4recovery
mount -t nfsd nfsd /proc/fs/nfsd
echo 'nfsd 127.0.0.1 2147483647 lab' >/proc/net/rpc/auth.unix.ip/channel
# Read only, from any port, the root of version 4.
echo 'lab /export 2147483647 9219 65534 65534 0' >/proc/net/rpc/nfsd.export/channel
echo 'lab 1 \x00000000 2147483647 /export' >/proc/net/rpc/nfsd.fh/channel
echo '-3 +4 +4.2' >/proc/fs/nfsd/versions
echo 'tcp 2049' >/proc/fs/nfsd/portlist
echo 8 >/proc/fs/nfsd/threads
echo Y >/proc/fs/nfsd/v4_end_grace
# Half of 20 ms, each way: where a machine is emulated, calls take that many times as long as those beside 1 ms.
LD_LIBRARY_PATH=$PLACE $PLACE/tc qdisc add dev lo root netem delay 10ms limit 10000
head -c 4096 /dev/zero >/counts
copy() {
	mount -t nfs4 -o ro,addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2 127.0.0.1:/ /mnt/nfs
	read began rest </proc/uptime
	LD_LIBRARY_PATH=$PLACE LD_PRELOAD=$1 KUMIKI_AHEAD_COUNTS=/counts $PLACE/$COPY
	read ended rest </proc/uptime
	# Requests of the client, and openings that the server has handed over to it.
	echo $began $ended $(sed -nE 's/^[^a-zA-Z]*(OPEN|OPEN_NOATTR|READ): ([0-9]+) .*/\2/p' /proc/self/mountstats) \
		$(cat /proc/fs/nfsd/clients/*/states | grep -c 'type: deleg')
	umount /mnt/nfs
}
copy ""
copy $PLACE/libkumiki_ahead.so
od -A n -v -t d8 -w8 /counts
"#;

/// Copies of programs and the libraries that they load, as words for the lab.
fn with_libraries(programs: &[PathBuf]) -> Vec<String> {
    let mut files = Vec::new();
    for program in programs {
        files.push(program.clone());
        let output = Command::new("ldd").arg(program).output().expect("ldd of package libc-bin");
        let said = text(&output.stdout);
        // The machine has the loader and the C library.
        let libraries = said.lines().filter_map(|line| line.split_once("=> ")?.1.split(' ').next());
        files.extend(libraries.filter(|path| !path.ends_with("/libc.so.6")).map(PathBuf::from));
    }
    files.sort();
    files.dedup();
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|file| format!("{}:{PLACE}/{}", file.display(), name(file))).collect()
}

fn found(program: &str) -> PathBuf {
    let places =
        ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(|place| Path::new(place).join(program));
    places
        .into_iter()
        .find(|place| place.exists())
        .unwrap_or_else(|| panic!("no {program}: packages tar, rsync, iproute2"))
}

/// The library as `kumiki ahead` finds it.
fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_kumiki")).parent().unwrap();
    let places = ["", "deps"].map(|place| folder.join(place).join("libkumiki_ahead.so"));
    let found = places.into_iter().find(|place| place.exists());
    found.expect("cargo build --package kumiki-ahead")
}

/// A line of seconds at which a copy began and ended, and the requests: READ, two sorts of OPEN, and delegations.
struct Copy {
    took: f64,
    requests: Vec<u64>,
}

impl Copy {
    fn of(line: &str) -> Self {
        let mut words = line.split(' ');
        let mut second = || words.next().unwrap().parse::<f64>().unwrap();
        let (began, ended) = (second(), second());
        let requests = words.map(|word| word.parse().unwrap()).collect();
        Copy { took: ended - began, requests }
    }
}

/// The server hands each opened file over (delegation), so that the program's own opening and reading ask for nothing.
#[test]
#[ignore = "long: a tree copied over a slow NFS, in a machine that may be emulated"]
fn over_a_slow_nfs_tar_has_its_files_asked_ahead() {
    // 3 and more where the cpus are its own.
    is_copied("tar", "-C /mnt/nfs -cf - . | sha256sum", 2.5);
}

/// Its list is made some folders before files are opened, and its reader is a process of its own.
#[test]
#[ignore = "long: a tree copied over a slow NFS, in a machine that may be emulated"]
fn over_a_slow_nfs_rsync_has_its_files_asked_ahead() {
    let sum = "(cd /out && find . -type f | sort | xargs cat | sha256sum; rm -r /out/*)";
    // Of an emulated machine beside other work.
    is_copied("rsync", &format!("-a /mnt/nfs/ /out/ && {sum}"), 1.5);
}

/// Copies without the library and with it; fails unless that is so many times as fast at least.
fn is_copied(program: &str, words: &str, least: f64) {
    let Some(labs) = Labs::new() else { return };
    let files = with_libraries(&[found(program), found("tc"), library()]);
    let line = LINE.replace("$COPY", &format!("{program} {words}")).replace("$PLACE", PLACE);
    let modules = ["nfsd", "nfsv4", "sch_netem"].map(|name| ["--module", name]).concat();
    let files: Vec<&str> = files.iter().flat_map(|file| ["--in", file]).collect();
    let run = ["lab", "run", "--cpus", "2", "--memory", "1G", "--timeout", "600s"];
    // Who has the cpu decides how many are asked before the program comes to them.
    let is_so = (0..3).any(|_| {
        let (said, _) =
            labs.gives(0, &[&run[..], &modules, &files, &["--", "sh", "-c", &line]].concat());
        let lines: Vec<&str> = said.lines().map(str::trim).collect();
        assert!(lines.len() > 20 && lines[0] == lines[2], "the copies differ: {said}");
        let (plain, ahead) = (Copy::of(lines[1]), Copy::of(lines[3]));
        let times = plain.took / ahead.took;
        println!("{:.1} s, ahead {:.1} s: {times:.1} times as fast", plain.took, ahead.took);
        let requests = || plain.requests.iter().zip(&ahead.requests);
        println!("READ, OPEN and delegations: {:?}, ahead {:?}", plain.requests, ahead.requests);
        // Of rsync's files 1 to 5 of 300 were read twice, in each of five runs beside other work; of tar's none.
        assert!(requests().all(|(plain, ahead)| plain.abs_diff(*ahead) <= 15), "{said}");
        // By their places in apps/ahead/src/counts.rs, behind the two copies.
        let count = |at: usize| lines[4 + at].parse::<u64>().unwrap();
        let (pools, asked, used) = (count(1), count(5), count(6));
        let (opened, opened_used) = (count(7), count(8));
        println!("{asked} names asked, {used} used; {opened} files opened, {opened_used} used");
        assert!(pools == 1, "nothing is found cold: {said}");
        // A name that rsync has in its list it uses by opening it.
        let (all, all_used) = (asked + opened, used + opened_used);
        all_used >= 300 && opened_used >= 150 && all_used * 2 >= all && times >= least
    });
    assert!(is_so, "of 300 files few were asked ahead, or in vain, or it is not faster");
}
