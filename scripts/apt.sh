# Sourced: apt_install PACKAGE… as root or through sudo that asks nothing; fails where it cannot.

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	else
		return 1
	fi
}

apt_update() {
	if [ -z "${apt_is_updated:-}" ]; then
		apt_is_updated=1
		as_root apt-get -qq -o DPkg::Lock::Timeout=300 update >&2 || true
	fi
}

apt_install() {
	command -v apt-get >/dev/null || return 1
	as_root true || return 1
	apt_update
	as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -qq -y \
		-o DPkg::Lock::Timeout=300 install --no-install-recommends "$@" >&2
}
