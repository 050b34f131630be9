# The script of each check's driver, by the check's name.
let
  pkgs = import ./pkgs.nix;
in
builtins.mapAttrs (_: t: t.testScript) (
  import ../tests.nix {
    inherit pkgs;
    package = import ../package.nix { inherit pkgs; version = "unknown"; };
    module = import ../module.nix { version = "unknown"; };
  }
)
