# Imports localhost/probe:1 and :2 on a machine: sh images.sh [PROBE BUSYBOX], two
# static programs.
set -eu
probe=${1:-/run/probe} busybox=${2:-/usr/bin/busybox}
dir=$(mktemp -d)
mkdir "$dir/bin" "$dir/tmp"
cp "$probe" "$dir/bin/probe"
cp "$busybox" "$dir/bin/busybox"
for name in sh cat echo kill ls nc rm touch; do
	ln -s busybox "$dir/bin/$name"
done
for version in 1 2; do
	tar -C "$dir" -c . | podman import --quiet --change ENV=PATH=/bin --change "ENV=VERSION=$version" \
		--change 'CMD=["probe","sleep"]' - "localhost/probe:$version"
done
rm -r "$dir"
