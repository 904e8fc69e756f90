#!/bin/sh
# Create the virtual environment named by $1 with the first Python here that is new enough.
set -eu

fail() {
	echo "pgstow: $1" >&2
	exit 1
}

find_python() {
	for name in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
		if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
			command -v "$name"
			return
		fi
	done
	found=$("${PYTHON:-python3}" --version 2>&1) || found='none'
	fail "Python 3.11 or newer is needed, found: $found; install it, or name it: make setup PYTHON=…"
}

python=$(find_python)
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
	package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
	. "$(dirname "$0")/apt.sh"
	apt_install "$package" >/dev/null 2>&1 ||
		fail "$python cannot make virtual environments; install the package $package (as root: apt-get install $package)"
fi
"$python" -m venv "$1" ||
	fail "$python could not make a virtual environment in $1; remove $1 and run make setup again"
