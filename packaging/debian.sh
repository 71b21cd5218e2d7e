#!/usr/bin/env bash
# Builds a Debian package of a `treedb` binary: packaging/debian.sh BINARY FOLDER [OPTIONS OF dpkg-deb]
#
# The package has the binary, the configuration, the systemd unit, the Grafana dashboard and the licences. It creates the user `treedb`
# and does not start the server by itself before the configuration was looked at: `systemctl enable --now treedb`.
set -euo pipefail
binary=$(realpath "$1")
folder=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg --print-architecture)
# The C library that the binary was linked with, if it was.
libc=$(objdump -T "$binary" 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1 | cut -d_ -f2 || true)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

install -Dm755 "$binary" "$root/usr/bin/treedb"
strip --strip-unneeded "$root/usr/bin/treedb"
install -Dm644 packaging/treedb.toml "$root/etc/treedb/treedb.toml"
install -Dm644 packaging/systemd/treedb.service "$root/lib/systemd/system/treedb.service"
install -Dm644 packaging/grafana/treedb.json "$root/usr/share/doc/treedb/grafana.json"
install -Dm644 packaging/prometheus/treedb.rules.yml "$root/usr/share/doc/treedb/treedb.rules.yml"
install -Dm644 docs/operations.md "$root/usr/share/doc/treedb/operations.md"
install -Dm644 LICENSE "$root/usr/share/doc/treedb/copyright"
for script in postinst prerm postrm; do
    install -Dm755 "packaging/debian/$script" "$root/DEBIAN/$script"
done
echo /etc/treedb/treedb.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<END
Package: treedb
Version: $version
Architecture: $architecture
Maintainer: The TreeDB developers
Section: database
Priority: optional
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: adduser${libc:+, libc6 (>= $libc), libgcc-s1}
Description: document and vector database that speaks MongoDB's protocol
 A server for MongoDB's drivers and tools, with transactions, change streams,
 aggregation and vector search, on a storage engine that survives power cuts.
END
dpkg-deb --root-owner-group "$@" --build "$root" "$folder/treedb_${version}_$architecture.deb"
