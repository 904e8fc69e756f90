#!/bin/sh
# Install the system packages whose programs or files are missing; where that is not possible, say in one
# line what is missing and what will be skipped for it. Only a missing linker stops the setup.
set -eu

. "$(dirname "$0")/apt.sh"

# program | packages | what is skipped without it
programs='
cc|gcc libc6-dev|building
mkfs.xfs|xfsprogs|emulated volumes with XFS
mkfs.ext4|e2fsprogs|emulated volumes with ext4
mkfs.btrfs|btrfs-progs|emulated volumes with btrfs
fusermount3|fuse3|emulated volumes
losetup|mount|emulated volumes
setpriv|util-linux|emulated volumes
fio|fio|device measurements
nbdkit|nbdkit|tests of the bench beside nbdkit
nbdfuse|libnbd-bin|tests of the bench beside nbdkit
qemu-storage-daemon|qemu-system-common|tests of the bench beside qemu
sysbench|sysbench|loads with sysbench
chromium|chromium|browser tests
fc-match|fontconfig|browser tests in several fonts
/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf|fonts-dejavu-core|browser tests in DejaVu
/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf|fonts-liberation|browser tests in Liberation
/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf|fonts-noto-core|browser tests in Noto
npm|npm|the crash test on the embedded PostgreSQL
openssl|openssl|the crash test on the embedded PostgreSQL
/usr/lib/postgresql/15/bin/postgres|postgresql-15|tests with PostgreSQL 15
'

missing() {
	echo "$programs" | while IFS='|' read -r program packages purpose; do
		[ -z "$program" ] || [ -f "$program" ] || command -v "$program" >/dev/null ||
			echo "$program|$packages|$purpose"
	done
}

packages_of() {
	echo "$1" | cut -d'|' -f2 | tr '\n' ' '
}

# Debian makes and starts a cluster on port 5432 with the server's package: not wanted here. Its
# switch is set while the package is being installed, and put back.
install_postgresql() {
	switch=/etc/postgresql-common/createcluster.conf
	apt_install postgresql-common || return 1
	as_root cp -p "$switch" "$switch.pgstow"
	as_root sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' "$switch"
	status=0
	apt_install postgresql-15 || status=1
	as_root mv "$switch.pgstow" "$switch"
	return $status
}

install() {
	case "$1" in
	postgresql-15) install_postgresql ;;
	*) apt_install $1 ;;
	esac
}

wanted=$(missing)
[ -n "$wanted" ] || exit 0
echo "pgstow: installing $(packages_of "$wanted")" >&2
if as_root true; then
	echo "$wanted" | cut -d'|' -f2 | while read -r packages; do
		install "$packages" </dev/null >/dev/null 2>&1 || true
	done
fi
left=$(missing)
[ -n "$left" ] || exit 0
skipped=$(echo "$left" | cut -d'|' -f3 | sort -u | paste -sd, | sed 's/,/, /g')
echo "pgstow: could not install $(packages_of "$left")(root or sudo is needed, and Debian 12's packages); without: $skipped" >&2
