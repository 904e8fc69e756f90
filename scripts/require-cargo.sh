#!/bin/sh
# Say what to do where the Rust toolchain, or (with "linker" as $1) a linker, is missing.
set -eu

if ! command -v cargo >/dev/null; then
	echo "pgstow: cargo is not on PATH; install Rust 1.88 or newer from https://rustup.rs" >&2
	exit 1
fi
if [ "${1:-}" = linker ] && ! command -v cc >/dev/null; then
	echo "pgstow: there is no C linker (cc); install the packages gcc and libc6-dev" >&2
	exit 1
fi
