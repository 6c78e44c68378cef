#!/bin/sh
# Is my commit slower than another one? Builds both, each in a folder of its own, and runs them in
# pairs. Exit status of `kumiki ab`: 0 no slower, 1 HEAD is slower, 2 an error, 3 it cannot be said.
#
#   commit-slower.sh BASE BUILD-LINE RUN-LINE
#   commit-slower.sh main 'cargo build --release' 'target/release/app bench.input'
set -eu
[ $# -eq 3 ] || { echo "usage: commit-slower.sh BASE BUILD-LINE RUN-LINE" >&2; exit 2; }
base=$1 build=$2 run=$3

folder=$(mktemp -d)
clean() {
	git worktree remove --force "$folder/old"
	git worktree remove --force "$folder/new"
	rm -rf "$folder"
}
trap 'clean 2> /dev/null || true' EXIT
# What is not committed does not count.
git worktree add --quiet --detach "$folder/old" "$base"
git worktree add --quiet --detach "$folder/new" HEAD
for side in old new; do
	(cd "$folder/$side" && sh -c "$build") >&2 || { echo "$side: it cannot be built" >&2; exit 2; }
done
kumiki ab --shell -- "cd '$folder/old' && $run" --- "cd '$folder/new' && $run"
