# As much of nixpkgs as the files beside use. A package is its name, a path in the
# store that nothing makes, and the arguments that it was asked for with; what a script
# makes can be built, with the programs of the host.
let
  lib = import ./lib.nix;
  made =
    name: args:
    {
      type = "derivation";
      inherit name args;
      outPath = "/nix/store/${builtins.substring 0 32 (builtins.hashString "sha256" (name + text args))}-${name}";
      overrideAttrs = other: made (other.pname or name) (args // other);
    };
  # What a change of makes another derivation.
  text = args: builtins.toJSON (builtins.removeAttrs args [ "src" "meta" ]);
in
{
  inherit lib;
  buildGo126Module = args: made args.pname args;
  runCommand = name: args: script: derivation {
    inherit name;
    system = builtins.currentSystem;
    builder = "/bin/bash";
    args = [ "-euc" script ];
    PATH = lib.concatStringsSep ":" (map (p: "${p}/bin") (args.nativeBuildInputs or [ ]) ++ [ "/usr/bin" "/bin" ]);
  };
  writeText = builtins.toFile;
  formats.json = _: {
    type = lib.types.attrsOf lib.types.anything // {
      # Values of any depth come together.
      merge =
        let
          join = a: b: if builtins.isAttrs a && builtins.isAttrs b then a // builtins.mapAttrs (n: v: if a ? ${n} then join a.${n} v else v) b else b;
        in
        _: builtins.foldl' join { };
    };
    generate = name: values: builtins.toFile name (builtins.toJSON values);
  };
  mkShell = args: made "shell" args;
  testers.runNixOSTest = test: made test.name { inherit (test) testScript; } // {
    nodes = builtins.mapAttrs (_: node: import ./nixos.nix { modules = [ node ]; }) test.nodes;
    inherit (test) testScript;
  };
}
// lib.genAttrs [ "bash" "gnumake" "gnutar" "gopls" "makeBinaryWrapper" "podman" ] (name: made name { })
// {
  pkgsStatic.busybox = made "busybox" { };
}
