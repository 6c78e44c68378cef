//! `action.yml`, step by step as GitHub runs it, on a repository of which it is known what is slower.
#![cfg(feature = "command")]

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use yaml_rust2::{Yaml, YamlLoader};

/// In place of cargo: it looks at what is to be installed, and has it installed already.
const CARGO: &str = r#"#!/bin/sh -e
test "$1 $2 $3" = "install --locked --path"
grep -q 'name = "kumiki-ab"' "$4/Cargo.toml"
ln -s "$AB" "${0%/*}/kumiki-ab"
"#;

/// In place of GitHub's command: it keeps what it is to say, and where.
const GH: &str = r#"#!/bin/sh -e
test "$1 $2 $4" = "pr comment --body-file"
test "$GH_TOKEN" = t
echo "$3" > "$RUNNER_TEMP/number"
cp "$5" "$RUNNER_TEMP/comment.md"
"#;

/// A runner with a copy of a repository, in which a pull request's commit is checked out.
struct Job {
    folder: TempDir,
    inputs: HashMap<String, String>,
    /// Outputs of steps, by `steps.ID.outputs.NAME`.
    outputs: HashMap<String, String>,
}

impl Job {
    /// The base branch's commit takes 20 ms, the pull request's `takes`; the base has gone on since.
    fn new(takes: &str, inputs: &[(&str, &str)]) -> Self {
        let text = |message: &str, line: &str| format!("# {message}\n{line}\n");
        let base = text("base", "sleep 0.02");
        let [own, since] = [text("pull request", takes), text("since", "sleep 0.9")];
        Job::of("job.sh", &base, &own, &since, inputs)
    }

    /// A file as the base branch has it, the pull request, and the base by now.
    fn of(file: &str, base: &str, own: &str, since: &str, inputs: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let job = Job {
            folder,
            inputs: inputs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect(),
            outputs: HashMap::new(),
        };
        for part in ["bin", "temp", "origin"] {
            fs::create_dir(job.at(part)).unwrap();
        }
        for (name, text) in [("cargo", CARGO), ("gh", GH)] {
            let file = job.at("bin").join(name);
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let origin = job.at("origin");
        git(&origin, &["init", "--quiet", "--initial-branch=main"]);
        job.commit(file, base, "base");
        git(&origin, &["switch", "--quiet", "--create", "pr"]);
        job.commit(file, own, "pull request");
        git(&origin, &["switch", "--quiet", "main"]);
        job.commit(file, since, "what others did since");
        let words = ["clone", "--quiet", "--branch", "pr", "origin", "work"];
        git(job.folder.path(), &words);
        job
    }

    fn at(&self, part: &str) -> PathBuf {
        self.folder.path().join(part)
    }

    fn commit(&self, file: &str, text: &str, message: &str) {
        let origin = self.at("origin");
        fs::write(origin.join(file), text).unwrap();
        git(&origin, &["add", file]);
        let who = ["-c", "user.name=t", "-c", "user.email=t@t"];
        git(&origin, &[&who[..], &["commit", "--quiet", "--message", message]].concat());
    }

    /// Value of an expression, or of a text in quotes.
    fn value(&self, expression: &str, defaults: &Yaml) -> String {
        let expression = expression.trim();
        if let Some(text) = expression.strip_prefix('\'') {
            return text.trim_end_matches('\'').to_owned();
        }
        if let Some(input) = expression.strip_prefix("inputs.") {
            let default = || defaults[input]["default"].as_str().map(str::to_owned);
            let given = self.inputs.get(input).cloned().or_else(default);
            return given.unwrap_or_else(|| panic!("no input {input}"));
        }
        match expression {
            "github.base_ref" => "main".to_owned(),
            "github.event.pull_request.number" => "7".to_owned(),
            _ => self.outputs.get(expression).cloned().unwrap_or_default(),
        }
    }

    /// Whether a step with this condition runs.
    fn holds(&self, condition: &str, defaults: &Yaml) -> bool {
        condition.split("&&").all(|part| {
            let (of, is) = match part.split_once("!=") {
                Some(sides) => (sides, false),
                None => (part.split_once("==").expect("a comparison"), true),
            };
            (self.value(of.0, defaults) == self.value(of.1, defaults)) == is
        })
    }

    /// Text in which expressions stand as `${{ … }}`.
    fn filled(&self, text: &str, defaults: &Yaml) -> String {
        let mut parts = text.split("${{");
        let mut all = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (expression, rest) = part.split_once("}}").expect("an expression's end");
            all += &(self.value(expression, defaults) + rest);
        }
        all
    }

    /// Runs the action; the step that failed, if one did.
    fn run(&mut self) -> Option<String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(here.join("action.yml")).unwrap();
        let action = YamlLoader::load_from_str(&text).unwrap().remove(0);
        let defaults = &action["inputs"];
        for step in action["runs"]["steps"].as_vec().unwrap() {
            let name = step["name"].as_str().unwrap();
            if step["if"].as_str().is_some_and(|condition| !self.holds(condition, defaults)) {
                continue;
            }
            assert_eq!(step["shell"].as_str(), Some("bash"), "{name}");
            let script = self.at("temp").join("step.sh");
            fs::write(&script, self.filled(step["run"].as_str().unwrap(), defaults)).unwrap();
            let output = self.at("temp").join("output");
            fs::write(&output, "").unwrap();
            let path = format!("{}:{}", self.at("bin").display(), std::env::var("PATH").unwrap());
            let mut bash = Command::new("bash");
            bash.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(&script);
            bash.current_dir(self.at("work")).env("PATH", path);
            bash.env("GITHUB_ACTION_PATH", here).env("RUNNER_TEMP", self.at("temp"));
            bash.env("GITHUB_OUTPUT", &output).env("GITHUB_STEP_SUMMARY", self.at("temp/summary"));
            bash.env("AB", env!("CARGO_BIN_EXE_kumiki-ab"));
            for (key, value) in step["env"].as_hash().into_iter().flatten() {
                let value = self.filled(value.as_str().unwrap(), defaults);
                bash.env(key.as_str().unwrap(), value);
            }
            if !bash.status().unwrap().success() {
                return Some(name.to_owned());
            }
            let said = fs::read_to_string(&output).unwrap();
            for (key, value) in said.lines().filter_map(|line| line.split_once('=')) {
                let id = step["id"].as_str().expect("who has outputs has an id");
                self.outputs.insert(format!("steps.{id}.outputs.{key}"), value.to_owned());
            }
        }
        None
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.at("temp").join(file)).unwrap_or_default()
    }

    fn status(&self) -> &str {
        &self.outputs["steps.compare.outputs.status"]
    }
}

fn git(folder: &Path, words: &[&str]) {
    assert!(Command::new("git").current_dir(folder).args(words).status().unwrap().success());
}

const INPUTS: [(&str, &str); 4] =
    [("build", "chmod +x job.sh"), ("command", "sh job.sh"), ("token", "t"), ("for", "20s")];

/// Held against the base branch as it is now it would be faster.
#[test]
fn a_slower_commit_fails_the_job_and_the_comment_says_so() {
    let mut job = Job::new("sleep 0.1", &INPUTS);
    assert_eq!(job.run().as_deref(), Some("Fail if it is slower"));
    assert_eq!((job.status(), &*job.read("number")), ("1", "7\n"));
    let said = job.read("comment.md");
    assert!(said.contains("B is slower") && said == job.read("summary"), "{said}");
}

/// The page's table of languages: a program of each, of which the pull request's does five times as much.
#[test]
fn a_program_of_each_language_is_built_and_compared() {
    const CPP: &str =
        "int main() { volatile long s = 0; for (long i = 0; i < N; i++) s = s + i; }\n";
    const RUST: &str = "fn main() { (0..N_u64).for_each(|i| _ = std::hint::black_box(i)); }\n";
    const GO: &str =
        "package main\n\nvar s int\n\nfunc main() { for i := 0; i < N; i++ { s ^= i * s } }\n";
    const PYTHON: &str = "for i in range(N): pass\n";
    for (compiler, file, text, n, build, command) in [
        ("c++", "app.cc", CPP, 20_000_000_u64, "c++ -O1 -o app app.cc", "./app"),
        ("rustc", "app.rs", RUST, 20_000_000, "rustc -O -o app app.rs", "./app"),
        ("go", "app.go", GO, 20_000_000, "go build -o app app.go", "./app"),
        ("python3", "app.py", PYTHON, 1_000_000, "true", "python3 app.py"),
    ] {
        let version = if compiler == "go" { "version" } else { "--version" };
        if !Command::new(compiler).arg(version).output().is_ok_and(|it| it.status.success()) {
            println!("passed over: no {compiler} here");
            continue;
        }
        let of = |n: u64| text.replace('N', &n.to_string());
        // It ends as soon as the verdict stands; beside much other work pairs take long.
        let span = [("for", "4m")];
        let inputs = [&[("build", build), ("command", command)], &INPUTS[2..3], &span].concat();
        let mut job = Job::of(file, &of(n), &of(5 * n), &of(20 * n), &inputs);
        assert_eq!(job.run().as_deref(), Some("Fail if it is slower"), "{file}");
        assert!(job.read("comment.md").contains("B is slower"), "{}", job.read("comment.md"));
    }
}

#[test]
fn who_does_not_want_the_job_to_fail_or_a_comment_has_neither() {
    let more = [("fail-on-slower", "false"), ("token", "")];
    let mut job = Job::new("sleep 0.1", &[&INPUTS[..2], &INPUTS[3..], &more].concat());
    assert_eq!(job.run(), None);
    assert_eq!((job.status(), &*job.read("comment.md")), ("1", ""));
}

#[test]
fn a_commit_that_is_as_fast_passes_and_one_that_fails_to_run_does_not() {
    let mut same = Job::new("sleep 0.02", &[&INPUTS[..3], &[("for", "3s")]].concat());
    assert_eq!(same.run(), None);
    assert!(["0", "3"].contains(&same.status()), "{}", same.status());
    let mut broken = Job::new("exit 5", &INPUTS);
    assert_eq!(broken.run().as_deref(), Some("Compare"));
}
