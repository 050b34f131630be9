# The manifest of a machine with one container, to be built with these programs.
{ programs, container }:
let
  package = name: { type = "derivation"; inherit name; outPath = programs; };
  machine = import ./nixos.nix {
    modules = [
      (import ../module.nix { version = "unknown"; })
      {
        virtualisation.podman.package = package "podman";
        services.meshgen = {
          enable = true;
          package = package "meshgen";
          manifest.modules.m.containers.x.Container = builtins.fromJSON container;
        };
      }
    ];
  };
in
machine.config.environment.etc."meshgen/manifest".source
