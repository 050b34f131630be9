# Makes the root that every machine shares and none writes: sh root.sh DIR MIRROR,
# in mount and PID namespaces of its own, so that nothing outlives a broken run.
set -eu
root=$1 mirror=$2

mount --make-rprivate /
mount -t proc proc /proc
mmdebstrap --quiet --variant=apt --include=systemd,systemd-sysv,dbus,podman,catatonit,crun,netavark,aardvark-dns,passt,nftables,iproute2,procps,strace,e2fsprogs,dosfstools,fusefat,busybox-static \
	trixie "$root" "$mirror"

# What a container has no use for, and what would run at a time of its own.
for unit in systemd-modules-load.service modprobe@.service systemd-logind.service getty@tty1.service \
	systemd-remount-fs.service dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount \
	sys-fs-fuse-connections.mount apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	man-db.timer; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# The host's cgroup2 may come without the pids controller.
mkdir -p "$root/etc/containers/containers.conf.d" "$root/var/lib/containers"
printf '[containers]\npids_limit = 0\n' >"$root/etc/containers/containers.conf.d/pids.conf"
# An empty id is filled at each machine's first boot.
: >"$root/etc/machine-id"
# aardvark-dns does not start without a name server; this one is nowhere.
rm -f "$root/etc/resolv.conf" "$root/etc/hostname"
echo nameserver 192.0.2.1 >"$root/etc/resolv.conf"
echo machine >"$root/etc/hostname"
