# Becomes PID 1 of a machine: sh boot.sh DISK ROOT, in fresh namespaces and in
# the machine's own cgroup, with descriptor 3 open for the word that it is done.
set -eu
disk=$1 root=$2 new=$1/merged

mount --make-rprivate /
mount -t overlay -o "lowerdir=$root,upperdir=$disk/upper,workdir=$disk/work" overlay "$new"
# Podman's overlay driver does not nest on an overlay.
mount --bind "$disk/containers" "$new/var/lib/containers"
mount -t proc proc "$new/proc"
mount -t sysfs sysfs "$new/sys"
mount -t cgroup2 cgroup2 "$new/sys/fs/cgroup"
mount -t tmpfs -o mode=0755 tmpfs "$new/run"
mount -t tmpfs tmpfs "$new/tmp"
mount -t tmpfs -o mode=0755 tmpfs "$new/dev"

# A boot is told from the one before by this id, which the kernel gives once.
cat /proc/sys/kernel/random/uuid >"$disk/boot-id"
mount --bind "$disk/boot-id" "$new/proc/sys/kernel/random/boot_id"

mkdir "$new/dev/net" "$new/dev/pts" "$new/dev/shm"
for node in null zero full random urandom tty fuse net/tun loop-control; do
	[ -e "/dev/$node" ] || continue
	: >"$new/dev/$node"
	mount --bind "/dev/$node" "$new/dev/$node"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$new/dev/pts"
mount -t tmpfs tmpfs "$new/dev/shm"
ln -s pts/ptmx "$new/dev/ptmx"
ln -s /proc/self/fd "$new/dev/fd"
ln -s fd/0 "$new/dev/stdin"
ln -s fd/1 "$new/dev/stdout"
ln -s fd/2 "$new/dev/stderr"

cd "$new"
pivot_root . .
umount -l .
cd /
ip link set lo up
echo ready >&3
# The root is complete: nothing in it needs an update at a first boot. Systemd
# reads this as a kernel's command line, since it runs in a container. The clock is
# the host's, and is not set from here: see Machine.Command, too.
exec setpriv --bounding-set -sys_time -- env -i container=meshgen PATH=/usr/sbin:/usr/bin \
	/usr/lib/systemd/systemd --system --log-target=journal systemd.condition_needs_update=0 3>&-
