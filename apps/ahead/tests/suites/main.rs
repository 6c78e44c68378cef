//! The test suites of programs that walk trees, from the source packages of the Debian that this is: with the library in front of
//! every program, and all folders taken for cold, their tests have the results that they have without.
//!
//! `cargo xtask test ahead-suites`: some minutes for each, as the programs are built first.

mod source;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library as it was built for this test.
fn library() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    let places = [folder, folder.parent().unwrap()];
    let found =
        places.iter().map(|folder| folder.join("libkumiki_ahead.so")).find(|at| at.exists());
    found.unwrap_or_else(|| panic!("libkumiki_ahead.so is not beside {}", own.display()))
}

/// A project's suite.
struct Suite {
    /// Debian's source package, and a file of it that a built one has.
    package: &'static str,
    built: &'static str,
    /// Lines for a shell in its folder: what builds the programs and those of the tests, and what runs the tests.
    build: &'static str,
    run: &'static str,
    /// The name and result of a test, if a line says one.
    result: fn(&str) -> Option<(&str, &str)>,
    /// Tests that there are at least, and that hold.
    least: usize,
    /// Tests of which the result changes from run to run, or tells that the library is there, and why.
    unsteady: &'static [(&'static str, &'static str)],
}

/// Results by the tests' names.
type Results = BTreeMap<String, String>;

impl Suite {
    fn results(&self, folder: &Path, library: Option<&Path>) -> Results {
        let mut command = Command::new("sh");
        command.args(["-c", self.run]).current_dir(folder).env("LC_ALL", "C");
        // Not in front of the shell alone: of all that it starts.
        let counts = tempfile::NamedTempFile::new().unwrap();
        counts.as_file().set_len(4096).unwrap();
        if let Some(library) = library {
            command.env("LD_PRELOAD", library).env("KUMIKI_AHEAD", "cold=1");
            command.env("KUMIKI_AHEAD_COUNTS", counts.path());
        }
        let output = command.output().unwrap();
        if library.is_some() {
            // By their places in apps/ahead/src/counts.rs.
            let counts = std::fs::read(counts.path()).unwrap();
            let count = |at: usize| u64::from_ne_bytes(counts[at * 8..][..8].try_into().unwrap());
            let (programs, asked) = (count(0), count(5));
            eprintln!("{}: {programs} programs, {asked} names asked ahead", self.package);
            assert!(programs > 100 && asked > 100, "the library was not in front of them");
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let found = said.lines().filter_map(self.result);
        found.map(|(name, result)| (name.trim().to_owned(), result.trim().to_owned())).collect()
    }

    fn holds(&self) {
        let Some(folder) = source::of(self.package) else { return };
        if !folder.join(self.built).exists() {
            let output =
                Command::new("sh").args(["-ec", self.build]).current_dir(&folder).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "building {}: {said}", folder.display());
        }
        let plain = self.results(&folder, None);
        let ahead = self.results(&folder, Some(&library()));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        plain.values().for_each(|result| *counts.entry(result).or_default() += 1);
        eprintln!("{}: {} tests, without the library {counts:?}", self.package, plain.len());
        assert!(plain.len() >= self.least, "{}: only {plain:?}", self.package);
        let mut faults = String::new();
        let names = plain.keys().chain(ahead.keys().filter(|name| !plain.contains_key(*name)));
        for name in names.filter(|name| self.unsteady.iter().all(|(is, _)| is != name)) {
            let (without, with) = (plain.get(name), ahead.get(name));
            if without != with {
                let _ = writeln!(faults, "{name}: {without:?} without, {with:?} with");
            }
        }
        assert!(faults.is_empty(), "{}:\n{faults}", self.package);
    }
}

#[test]
fn rsync_s_own() {
    let suite = Suite {
        package: "rsync",
        built: "tls",
        // Debian's patches are newer than what is made of them.
        build: "touch aclocal.m4; sleep 1; touch configure.sh config.h.in
            ./configure -q --disable-acl-support --disable-xattr-support --disable-openssl --disable-xxhash \
            --disable-zstd --disable-lz4 --disable-md2man --disable-roll-simd >/dev/null
            printf 'include Makefile\\nprograms: $(CHECK_PROGS) $(CHECK_SYMLINKS)\\n' >programs.mk
            make -s -j2 -f programs.mk programs >/dev/null",
        run: "rm -rf testtmp; ./runtests.sh 2>&1",
        // `PASS    itemize`
        result: |line| {
            let (result, name) = line.split_once(char::is_whitespace)?;
            let is_result = ["PASS", "FAIL", "SKIP", "XFAIL", "ERROR"].contains(&result);
            let name = name.trim().split(' ').next()?;
            is_result.then_some((name, result))
        },
        least: 30,
        unsteady: &[],
    };
    suite.holds();
}

#[test]
fn tar_s_own() {
    let suite = Suite {
        package: "tar",
        built: "src/tar",
        // Root may configure it here.
        build: "touch aclocal.m4; sleep 1; touch configure config.h.in; sleep 1
            find . -name Makefile.in -exec touch {} +
            touch tests/package.m4; touch tests/testsuite
            FORCE_UNSAFE_CONFIGURE=1 ./configure -q --without-posix-acls --without-selinux --without-xattrs >/dev/null
            make -s -j2 >/dev/null
            make -s -C tests check TESTSUITEFLAGS=--list >/dev/null",
        run: "make -s -C tests check TESTSUITEFLAGS=-j1 2>&1",
        // `  7: long names in V7 archives                       ok`
        result: |line| {
            let (number, rest) = line.split_once(": ")?;
            number.trim().parse::<u32>().ok()?;
            let (name, result) = rest.rsplit_once("  ")?;
            Some((name, result.split(" (").next()?))
        },
        least: 150,
        unsteady: &[],
    };
    suite.holds();
}

/// Those of its programs that walk folders and look at files.
#[test]
fn coreutils_own() {
    let suite = Suite {
        package: "coreutils",
        built: "src/ls",
        build: "touch aclocal.m4; sleep 1; touch configure lib/config.hin; sleep 1
            find . -name Makefile.in -exec touch {} +
            FORCE_UNSAFE_CONFIGURE=1 ./configure -q --disable-nls --disable-acl --without-selinux >/dev/null
            # Manual pages need more than is here.
            make -s -k -j2 SUBDIRS=. >/dev/null 2>&1 || test -x src/ls",
        run: "tests=; for folder in chgrp chmod chown cp du install ln ls mkdir mv readlink rm rmdir touch; do
                tests=\"$tests $(echo tests/$folder/*.sh)\"
            done
            rm -f tests/*/*.log tests/*/*.trs
            make -k check SUBDIRS=. TESTS=\"$tests\" 2>&1",
        // `PASS: tests/cp/abuse.sh`
        result: |line| {
            let (result, name) = line.split_once(": ")?;
            let is_result = ["PASS", "FAIL", "SKIP", "XFAIL", "ERROR"].contains(&result);
            (is_result && name.ends_with(".sh")).then_some((name, result))
        },
        least: 150,
        unsteady: &[(
            "tests/ls/stat-free-symlinks.sh",
            "it counts calls by strace, and so those that look at names ahead",
        )],
    };
    suite.holds();
}

/// Those of files and the index: basics, checkouts, `status`, `add`, `grep`, `clean`, worktrees.
#[test]
fn git_s_own() {
    let suite = Suite {
        package: "git",
        built: "git",
        build: "make -s -j2 NO_GETTEXT=1 NO_TCLTK=1 NO_CURL=1 NO_EXPAT=1 NO_OPENSSL=1 NO_PYTHON=1 \
                CFLAGS=-O1 all >/dev/null",
        run: "cd t; rm -rf test-results trash*; ls t000*.sh t1[03]0*.sh t20*.sh t22*.sh t37*.sh t73*.sh t75*.sh | \
            TEST_NO_MALLOC_CHECK=1 xargs -P2 -I{} sh -c \
            'sh {} >test-{}.log 2>/dev/null </dev/null; sed -n \"s/^\\(not ok\\|ok\\) \\([0-9]*\\).*/{} \\2: \\1/p\" test-{}.log; rm -f test-{}.log'",
        // `t0001-init.sh 12: ok`
        result: |line| {
            let (name, result) = line.rsplit_once(": ")?;
            (name.starts_with('t') && ["ok", "not ok"].contains(&result)).then_some((name, result))
        },
        least: 1000,
        unsteady: &[],
    };
    suite.holds();
}
