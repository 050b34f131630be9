# leave takes the node out of the hands of meshgen before its programs go, as
# /etc/meshgen/on-remove says: eject, also where it is not there, or stop. Where that
# is refused or fails, the package stays.
leave() {
	word=eject
	if [ -e /etc/meshgen/on-remove ]; then
		read -r word </etc/meshgen/on-remove || true # a last line may lack its end
	fi
	if [ -L /etc/meshgen/current ] || [ -L /etc/meshgen/pending ]; then
		case $word in
		eject) meshgen eject --yes --quiet >/dev/null ;;
		stop) stop ;;
		*)
			echo "meshgen: /etc/meshgen/on-remove: $word: want eject or stop; nothing was touched" >&2
			return 1
			;;
		esac || {
			echo "meshgen: not removed: what it runs would be lost to systemd at the next boot" >&2
			return 1
		}
	elif [ -L /etc/meshgen/ejected ]; then
		meshgen eject --yes --quiet >/dev/null # one that was cut short is finished
	fi
	if [ -d /run/systemd/system ]; then
		systemctl --quiet disable --now meshgen-audit.timer || true # it may never have been enabled
	fi
}

# stop switches to a manifest that declares nothing. Volumes stay.
stop() {
	empty=$(mktemp -d) || return 1
	echo 'package mesh' >"$empty/mesh.cue"
	code=0
	meshgen switch --allow-empty --manifest "$empty" || code=$?
	rm -r "$empty"
	return "$code"
}
