# reload has systemd run its generators once, where it runs.
reload() {
	if [ -d /run/systemd/system ]; then
		systemctl daemon-reload || true # of a container that is being built, say
	fi
}
