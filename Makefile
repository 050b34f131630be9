# Each target does one thing that one could type; `make help` lists them.

PREFIX  ?= /usr
DESTDIR ?=
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)

# Where the units of containers will find the guard: generations have it, and outlive
# whatever is installed.
GUARD   ?= $(PREFIX)/lib/meshgen/meshgen-guard

GO      ?= go
LINT     = $(GO) tool -modfile=tools.mod golangci-lint
BUILD    = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION) -X meshgen/generator.GuardProgram=$(GUARD)'
CACHE    = $(or $(MESHGEN_CACHE),/var/cache/meshgen-vmtests)

SHELL       = bash
.SHELLFLAGS = -o pipefail -ec

# Where a machine is missing, the tests that need one are skipped, but not in CI.
ifeq ($(CI),true)
export MESHGEN_REQUIRE_MACHINE = 1
endif

# The built-in policy is what this compiler makes of its source: another version
# makes another binary. RATIONALE.md says what that means.
POLICY_CC = clang-14

# What the tests on a machine need of the host's Debian, what the model needs, and
# what policies are built with, and manual pages tried with.
PACKAGES = mmdebstrap debian-archive-keyring spin gcc libc6-dev clang-14 lld-14 rustc libstd-rust-dev-wasm32 groff-base

.PHONY: all
all: build       ## the same as build

.PHONY: build
build:           ## the programs, static, into bin/
	$(BUILD) -o bin/ ./cmd/meshgen ./cmd/meshgen-generator ./cmd/meshgen-guard

.PHONY: install
install: build   ## the programs, their pages and completions, the units, the header for policies, below DESTDIR and PREFIX
	install -D -m 0755 bin/meshgen $(DESTDIR)$(PREFIX)/bin/meshgen
	install -D -m 0755 bin/meshgen-generator $(DESTDIR)$(PREFIX)/lib/systemd/system-generators/meshgen-generator
	install -D -m 0755 bin/meshgen-guard $(DESTDIR)$(PREFIX)/lib/meshgen/meshgen-guard
	install -D -m 0644 policy/sdk/meshgen.h $(DESTDIR)$(PREFIX)/include/meshgen/meshgen.h
	$(GO) run ./cmd/meshgen man | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/man/man1/meshgen.1
	install -D -m 0644 docs/man/meshgen-generator.8 $(DESTDIR)$(PREFIX)/share/man/man8/meshgen-generator.8
	$(GO) run ./cmd/meshgen completion bash | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/bash-completion/completions/meshgen
	$(GO) run ./cmd/meshgen completion zsh | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_meshgen
	$(GO) run ./cmd/meshgen completion fish | install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/meshgen.fish
	for unit in meshgen-recover.service meshgen-confirm.service meshgen-switch.service meshgen-audit.service meshgen-audit.timer; do \
		sed 's|/usr/bin/|$(PREFIX)/bin/|' systemd/$$unit | \
			install -D -m 0644 /dev/stdin $(DESTDIR)$(PREFIX)/lib/systemd/system/$$unit; \
	done

# A version that dpkg and rpm can compare: that of the last tag, else the day and commit.
PACKAGE_VERSION ?= $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//;s/-/+/g' | grep . || git log -1 --format=0~%cd.%h --date=format:%Y%m%d)

.PHONY: packages
packages:        ## deb and rpm, of what install lays down, into dist/
	rm -rf dist
	$(MAKE) install DESTDIR=$(CURDIR)/dist/stage PREFIX=/usr
	mkdir dist/stage/scripts
	for script in packaging/deb.* packaging/rpm.*; do \
		sed -e '/^#include reload.sh/{r packaging/reload.sh' -e 'd}' -e '/^#include leave.sh/{r packaging/leave.sh' -e 'd}' \
			$$script > dist/stage/scripts/$${script##*/}; \
	done
	for kind in deb rpm; do \
		PACKAGE_VERSION='$(PACKAGE_VERSION)' GOARCH=$$($(GO) env GOARCH) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
			$(GO) tool -modfile=packages.mod nfpm package --config packaging/nfpm.yaml --packager $$kind --target dist/; \
	done

.PHONY: check
check: lint      ## all that reads the code without running it
	$(GO) mod tidy -diff
	$(GO) vet -tags systemd,model,nix ./...

.PHONY: fmt
fmt:             ## format the code
	$(LINT) fmt

.PHONY: lint
lint:            ## format and rules of the house
	$(LINT) fmt --diff
	$(LINT) run

.PHONY: test
test: setup      ## every test that this host can run
	$(GO) test -tags systemd -timeout 45m ./...

.PHONY: machine-test
machine-test: setup  ## the tests on a real systemd machine
	$(GO) test -tags systemd -timeout 45m -v ./vmtests/...

HISTORIES ?= 10000
.PHONY: histories
histories:       ## HISTORIES random histories of a node, against a model of what must hold
	HISTORIES=$(HISTORIES) $(GO) test ./internal/apply -run 'TestHistories$$' -count 1 -timeout 60m -v

.PHONY: model
model: setup     ## the model of a switch in docs/model, searched by spin, and its figures
	$(GO) test -tags model -count 1 -v ./docs/model/

.PHONY: nix-check
nix-check: PACKAGES = nix-bin python3-minimal
nix-check: setup  ## the flake and its module, as far as they can be known without nixpkgs
	$(GO) test -tags nix -count 1 ./nix/

.PHONY: vendor-hash
vendor-hash: PACKAGES = nix-bin
vendor-hash: setup  ## the vendorHash of nix/package.nix, computed anew and compared
	$(GO) test -tags nix -count 1 -run TestVendorHash ./nix/

.PHONY: crash-test
crash-test: setup  ## a switch killed, and failed, at every call that changes anything: about an hour
	MESHGEN_EVERY_POINT=1 $(GO) test -tags systemd -timeout 6h -v -run 'KilledAt|WithAFailingDisk' ./vmtests/

.PHONY: bench
bench: setup     ## the measurements on machines, beside their yardsticks; BENCH takes flags
	CGO_ENABLED=0 $(GO) run ./vmtests/cmd/bench $(BENCH)

.PHONY: boot-report
boot-report: setup  ## what systemd counts of boots with podman's generator and with ours; REPORT takes flags
	CGO_ENABLED=0 $(GO) run ./vmtests/cmd/bootreport $(REPORT)

.PHONY: policy
policy: setup    ## the built-in policy, from its source
	$(POLICY_CC) --target=wasm32 -Os -Wall -Wextra -Werror -Wno-unused-function -ffreestanding -fno-builtin -nostdlib \
		-Wl,--no-entry,--strip-all,-z,stack-size=8192,--max-memory=65536 \
		-o policy/builtin/builtin.wasm policy/builtin/builtin.c
	chmod 644 policy/builtin/builtin.wasm

.PHONY: golden
golden:          ## write the goldens anew; look at the difference
	@grep -rl --include='*_test.go' 'flag.Bool("update"' . | xargs -r -n1 dirname | sort -u | while read -r dir; do \
		$(GO) test "$$dir" -update || exit 1; \
	done

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz:            ## every fuzz test for FUZZTIME
	@grep -rl --include=*_test.go '^func Fuzz' . | while read -r file; do \
		for name in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$file"); do \
			echo "$$name"; \
			$(GO) test "$$(dirname "$$file")" -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
		done; \
	done

.PHONY: demo
demo: setup build  ## the story, played on a throw-away machine
	@if $(GO) run ./vmtests/cmd/machine -check; then \
		echo "Booting a machine. The first time it has to be made, which takes minutes."; \
		$(GO) run ./vmtests/cmd/machine demo/story.sh; \
	else \
		dir=$$(mktemp -d /tmp/forge.XXXX); trap 'rm -rf "$$dir"' EXIT; \
		PATH="$$PWD/bin:$$PATH" demo/story.sh "$$dir"; \
	fi

.PHONY: setup
setup:           ## the Debian packages that the tests on a machine need
	@missing=; for name in $(PACKAGES); do \
		dpkg-query -W -f '$${Status}' $$name 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$name"; \
	done; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "The tests on a machine are skipped here: they need root, Debian and$$missing." >&2; exit 0; \
	fi; \
	apt-get update -q; DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing

.PHONY: help
help:            ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

.PHONY: clean
clean:           ## what was built, and the cache of the machines
	rm -rf bin dist $(CACHE)
