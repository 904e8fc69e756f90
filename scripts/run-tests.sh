#!/bin/sh
# All tests but the longest: first what may run side by side, then what measures time, alone.
#
#   scripts/run-tests.sh PYTHON WORKERS
#
# A test with a real server, volume or browser that failed is run once more, with nothing beside it:
# a machine that is shared may be slower for a while than any limit allows. What passes only then is
# named. A unit test has no such excuse.
set -u
python=$1 workers=$2
failed=.pytest_cache/v/cache/lastfailed

pytest() {
    "$python" -m pytest --durations=20 --durations-min=5 "$@"
}

rm -f "$failed"
pytest -n "$workers" --dist loadgroup --no-loadscope-reorder -m "not alone and not nightly" tests
beside=$?
pytest -m "alone and not nightly" tests/server tests/privileged tests/browser
alone=$?
[ "$beside" -eq 0 ] && [ "$alone" -eq 0 ] && exit 0
# 1: tests failed; anything else is not about a test
[ "$beside" -le 1 ] && [ "$alone" -le 1 ] && [ -s "$failed" ] || exit 1
grep -q '"tests/unit' "$failed" && exit 1

echo "Once more, alone:"
# a group's name after the test's is pytest-xdist's
"$python" -c 'import json, re, sys
for name in json.load(open(sys.argv[1])): print(re.sub(r"@[^]]*$", "", name))' "$failed" |
    xargs -d '\n' "$python" -m pytest -m "not nightly" || exit 1
echo "These failed at first, beside others, and passed alone; their failures are above."
