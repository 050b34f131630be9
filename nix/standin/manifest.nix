# The manifest of a machine, to be built with these programs: values and flags are JSON.
{
  programs,
  values,
  flags ? "[]",
}:
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
          manifest = builtins.fromJSON values;
          flags = builtins.fromJSON flags;
        };
      }
    ];
  };
in
machine.config.environment.etc."meshgen/manifest".source
