#!/bin/sh
# All tests in two halves at once, since those with Spark mostly wait for it. Those without take what the others leave,
# in two processes, so that both cores are busy when the half with Spark has ended; with them run some that start a
# Spark of their own. Their output comes one after the other.
set -u
bin=.venv/bin
# Otherwise both halves, and the engines, compile the same kernels at the same time.
"$bin/python" -m penstock.compiled
log=$(mktemp)
# Short: the path of a Unix socket has about 100 bytes.
own=$(mktemp -d /tmp/t.XXXX)
trap 'rm -rf "$log" "$own"' EXIT

nice -n 5 "$bin/python" -m pytest -m "not spark or apart" -n 2 --dist worksteal --basetemp="$own/t" \
	-p no:cacheprovider "$@" >"$log" 2>&1 &
without=$!
trap 'kill $without 2>/dev/null; rm -rf "$log" "$own"; exit 130' INT TERM

"$bin/python" -m pytest -m "spark and not apart" "$@"
with=$?
wait $without
rest=$?
cat "$log"
# 5: nothing was selected, as when the arguments name tests of one half only.
[ $with -eq 0 ] || [ $with -eq 5 ] || exit $with
[ $rest -eq 0 ] || [ $rest -eq 5 ] || exit $rest
