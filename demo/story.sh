#!/usr/bin/env bash
# The story that meshgen is for, told by the programs themselves: a container and
# its config file get other names, and nothing of the old ones stays behind. It
# ends with an error where anything comes out otherwise than it says.
#
#   make demo              on a throw-away machine, systemd and podman and all
#   demo/story.sh DIR      below DIR, an empty directory, where nothing runs
#
# The container image is a stand-in for the real one: it answers on a port.
set -eEuo pipefail
trap 'echo "story: the last command failed" >&2' ERR

root=${1:-}                                # "" is a machine that is ours alone
meshgen="meshgen${root:+ --root $root}"
manifest=$root/etc/meshgen/manifest/forge.cue

bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' plain=$'\e[0m'
fi

# say tells what comes next.
say() {
	printf '\n'
	printf "$bold# %s$plain\n" "$@"
}

# run shows a command and then its output.
run() {
	printf '$ %s\n' "$1"
	eval "$1"
}

# refused is run for a command that has to end with this exit code.
refused() {
	local code=0
	run "$2" || code=$?
	printf '(exit %d)\n' "$code"
	check "the exit code of $2" "$code" "$1"
}

# check ends the story where something is not as it was told.
check() {
	if [ "$2" != "$3" ]; then
		printf 'story: %s: is "%s", should be "%s"\n' "$1" "$2" "$3" >&2
		exit 1
	fi
}

here() { if [ -e "$1" ]; then echo here; else echo gone; fi; }
running() { podman ps --sort names --format '{{.Names}}' "$@" | xargs; }
unit() { systemctl show --value --property LoadState,ActiveState "$1" | xargs; }
started() { systemctl show --value --property InvocationID "$1"; }

# podman ps, in less than 80 columns.
ps="podman ps --sort names --format 'table {{.Names}}\t{{.Image}}\t{{.Status}}'"
state='systemctl show -p LoadState,ActiveState forge-gitea-server'

# before shows the same rename with bare Quadlets, and clears it away.
before() {
	local dir=/etc/containers/systemd
	mkdir -p $dir
	cat >$dir/forge-gitea-server.container <<-'END'
		[Container]
		ContainerName=forge-gitea-server
		Image=localhost/probe:1
		Exec=probe serve :3000
		Network=none
		Volume=forge-data:/data
	END
	systemctl daemon-reload
	systemctl start forge-gitea-server

	say 'First without meshgen. A container runs from a Quadlet file.'
	run "cat $dir/*.container"
	say 'It is to be called gitea, so the file and ContainerName= are renamed.'
	run "cd $dir"
	run "mv forge-gitea-server.container gitea.container"
	run "sed -i s/=forge-gitea-server/=gitea/ gitea.container"
	run "systemctl daemon-reload && systemctl start gitea"
	say 'Now both run, on one volume, and systemd has lost what would stop the old:'
	run "$ps"
	run "$state"
	check 'the running containers' "$(running)" 'forge-gitea-server gitea'
	check 'the users of the volume' "$(running --filter volume=forge-data)" 'forge-gitea-server gitea'
	check 'the old unit' "$(unit forge-gitea-server)" 'not-found active'

	cd /
	systemctl stop gitea
	rm $dir/*.container
	podman rm --force --time 0 forge-gitea-server >/dev/null
	podman volume rm forge-data >/dev/null
	systemctl daemon-reload
	systemctl reset-failed
}

declare_forge() {
	mkdir -p "$(dirname "$manifest")"
	cat >"$manifest" <<'END'
package mesh

modules: forge: {
	containers: "gitea.server": Container: {
		Image:       "localhost/probe:1"
		Exec:        "probe serve :3000"
		PublishPort: "3000:3000"
		Network:     "net"
		Volume: ["data:/data", "/etc/gitea:/etc/gitea:ro"]
	}
	containers: db: Container: {
		Image:   "localhost/probe:1"
		Exec:    "probe store :5432"
		Network: "net"
		Volume:  "db:/data"
	}
	volumes: {data: {}, db: {}}
	networks: net: {}
	files: "app.ini": {
		path:    "/etc/gitea/app.ini"
		content: "[server]\nHTTP_PORT = 3000\n"
		notify: "gitea.server": "restart"
	}
}
END
	if [ "$(id -u)" != 0 ]; then
		sed -i "s/^\t\tnotify:/\t\towner: $(id -u), group: $(id -g)\n&/" "$manifest"
	fi
}

rename_forge() {
	sed -i -e '/^\tcontainers: "gitea.server"/i\	containers: "gitea.server": name: "gitea"' \
		-e 's|"/etc/gitea/app.ini"|"/etc/gitea/gitea.ini"|' "$manifest"
}

if [ -n "$root" ]; then
	say "Nothing runs below $root: systemd, podman and the containers are" \
		'left out. The files, the ledger and the decisions are the real ones.'
	mkdir -p "$root/etc"
	echo forge >"$root/etc/hostname"
	if [ "$(id -u)" != 0 ]; then
		say 'Only root gives files away: here they are declared to be yours.'
	fi
else
	before
fi

say 'With meshgen: what this machine is to have, in one manifest. A container has' \
	'an id, "gitea.server"; a name follows from it where none is given.'
declare_forge
run "cat $manifest"
run "$meshgen check"
say 'Bring it into force.'
run "$meshgen switch"
if [ -z "$root" ]; then
	run "$ps"
	check 'the running containers' "$(running)" 'forge-db forge-gitea-server'
	db=$(started forge-db)
else
	run "ls $root/etc/meshgen/current/quadlet"
fi
run "ls $root/etc/gitea"
check 'the config file' "$(here "$root/etc/gitea/app.ini")" here

say 'Give the container a name, and its config file another path.'
cp "$manifest" "$manifest.before"
rename_forge
run "diff $manifest.before $manifest" || true
rm "$manifest.before"
say 'What would that do?'
run "$meshgen plan"
say 'Do it.'
run "$meshgen switch"

say 'The old is gone: stopped while systemd still knew how, then removed.'
if [ -z "$root" ]; then
	run "$ps"
	run "$state"
	check 'the running containers' "$(running)" 'forge-db gitea'
	check 'all containers' "$(podman ps --all --sort names --format '{{.Names}}' | xargs)" 'forge-db gitea'
	check 'the old unit' "$(unit forge-gitea-server)" 'not-found inactive'
	check 'the new unit' "$(unit gitea)" 'loaded active'
	check 'the run of forge-db, which had no part in it' "$(started forge-db)" "$db"
else
	run "ls $root/etc/meshgen/current/quadlet"
	check 'the old Quadlet' "$(here "$root/etc/meshgen/current/quadlet/forge-gitea-server.container")" gone
	check 'the new Quadlet' "$(here "$root/etc/meshgen/current/quadlet/gitea.container")" here
fi
run "ls $root/etc/gitea"
check 'the old config file' "$(here "$root/etc/gitea/app.ini")" gone
check 'the new config file' "$(here "$root/etc/gitea/gitea.ini")" here

say 'Its names are not forgotten: the ledger has every one that was ever given.'
ledger=$root/var/lib/meshgen/ledger
run "grep -o '\"target\":\"[^\"]*\",\"why\":\"[^\"]*\"' $ledger"
for target in unit:forge-gitea-server.service container:forge-gitea-server file:/etc/gitea/app.ini; do
	grep -q "\"retire\"[^}]*\"$target\"" "$ledger" || check "the ledger on $target" forgotten retired
done

say 'Again: there is nothing to do, and nothing is done.'
ledger_before=$(cksum "$ledger")
run "$meshgen switch"
run "$meshgen plan --exit-code"
check 'the ledger' "$(cksum "$ledger")" "$ledger_before"

say 'A checkout that went wrong is not an order to remove everything.'
cp "$manifest" "$root/forge.cue"
run "echo 'package mesh' >$manifest"
refused 3 "$meshgen switch"
check 'the config file' "$(here "$root/etc/gitea/gitea.ini")" here
if [ -z "$root" ]; then
	check 'the running containers' "$(running)" 'forge-db gitea'
fi

say 'One that is meant says so. What goes leaves nothing behind but its data.'
run "$meshgen switch --allow-empty"
run "$meshgen status"
if [ -z "$root" ]; then
	run "podman ps --all --quiet"
	run "podman volume ls"
	check 'all containers' "$(podman ps --all --quiet)" ''
	check 'the networks' "$(podman network ls --format '{{.Name}}' | xargs)" podman
	check 'the volumes' "$(podman volume ls --format '{{.Name}}' | sort | xargs)" 'forge-data forge-db'
fi
check '/etc/gitea' "$(here "$root/etc/gitea")" gone

say 'Each step was checked: had one come out otherwise, this would have failed.'
