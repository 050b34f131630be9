# What can be known of the files beside without nixpkgs: every machine is evaluated,
# against a stand-in, and has the units, generators and files that it should have.
# `make nix-check` prints this as JSON: each expectation with what it is, and should be.
let
  pkgs = import ./standin/pkgs.nix;
  inherit (pkgs) lib;
  flake = (import ../flake.nix).outputs {
    self = flake // { shortRev = "0123456"; };
    nixpkgs = {
      inherit lib;
      legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (_: pkgs);
    };
  };
  system = "x86_64-linux";
  package = flake.packages.${system}.default;
  tests = flake.checks.${system};

  machine = services: import ./standin/nixos.nix {
    modules = [
      flake.nixosModules.default
      { services.meshgen = services; }
    ];
  };
  off = machine { };
  bare = machine { enable = true; };
  values = { modules.m.containers.x.Container.Image = "localhost/probe:1"; };
  declared = machine { enable = true; manifest = values; flags = [ "--rollback=never" ]; };
  directory = machine { enable = true; manifest = ./standin; audit = { enable = true; interval = "1h"; }; };
  apply = m: m.config.systemd.services.meshgen-apply;
  manifest = m: m.config.environment.etc."meshgen/manifest".source;
  fails = x: !(builtins.tryEval (builtins.deepSeq x x)).success;

  is = name: got: want: { inherit name got want; };
in
[
  (is "nothing without enable" (off.config.systemd.services // { inherit (off) generators; }) { generators = [ ]; })
  (is "the generators" bare.generators [ "podman-system-generator" "meshgen-generator" ])
  (is "podman" bare.config.virtualisation.podman.enable true)
  (is "the guard's place is linked" bare.config.environment.pathsToLink [ "/lib/meshgen" ])
  (is "the programs are on the PATH" (map (p: p.name) bare.config.environment.systemPackages) [ "podman" "meshgen" ])
  (is "no manifest of Nix's" bare.config.environment.etc { })
  (is "each unit that is packaged finds podman" (lib.attrNames bare.config.systemd.services) (
    map (lib.removeSuffix ".service") (lib.filter (lib.hasSuffix ".service") (lib.attrNames (builtins.readDir ../systemd)))
  ))
  (is "by its PATH" (lib.unique (map (s: s.path) (lib.attrValues bare.config.systemd.services))) [ [ pkgs.podman ] ])
  (is "a manifest of values" (manifest declared).name "meshgen-manifest")
  (is "is applied" (apply declared).serviceConfig.ExecStart ''"${package}/bin/meshgen" "switch" "--rollback=never"'')
  (is "by each boot" (apply declared).wantedBy [ "multi-user.target" ])
  (is "which does not wait for it" (apply declared).unitConfig.DefaultDependencies false)
  (is "and by each change" (lib.elem (manifest declared) (apply declared).restartTriggers) true)
  (is "another manifest is another trigger" ((apply declared).restartTriggers == (apply directory).restartTriggers) false)
  (is "an audit" directory.config.systemd.timers.meshgen-audit.timerConfig.OnUnitActiveSec "1h")
  (is "by a timer that is packaged" (lib.filter (t: !(builtins.pathExists (../systemd + "/${t}.timer"))) (lib.attrNames directory.config.systemd.timers)) [ ])
  (is "no audit unasked" bare.config.systemd.timers { })
  (is "a wrong option is refused" (fails (machine { enable = true; manifets = { }; }).config.systemd.services) true)
  (is "a wrong type is refused" (fails (machine { enable = true; manifest = 1; }).config.environment.etc) true)
  (is "an immutable /etc is refused" (fails (import ./standin/nixos.nix {
    modules = [
      flake.nixosModules.default
      { services.meshgen.enable = true; system.etc.overlay = { enable = true; mutable = false; }; }
    ];
  }).generators) true)
  (is "the guard is found by a path that stays" (builtins.match ".*GUARD=/run/current-system/sw/lib/meshgen/meshgen-guard .*" package.args.buildPhase != null) true)
  (is "the machines of the tests" (builtins.mapAttrs (_: t: builtins.deepSeq t.nodes.machine.config.systemd t.nodes.machine.generators) tests) (
    builtins.mapAttrs (_: _: [ "podman-system-generator" "meshgen-generator" ]) tests
  ))
  (is "have the scenarios" (lib.all (t: lib.elem "meshgen-scenarios" (map (p: p.name) t.nodes.machine.config.environment.systemPackages)) (lib.attrValues tests)) true)
  (is "the renamed one has another manifest" (
    let m = tests.declared.nodes.machine; in manifest m == manifest m.specialisation.renamed
  ) false)
  (is "the shell" flake.devShells.${system}.default.name "shell")
]
