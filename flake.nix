{
  description = "A machine runs what its manifest says and nothing else";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      version = self.shortRev or self.dirtyShortRev or "unknown";
      each = f: lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (system: f nixpkgs.legacyPackages.${system});
      package = pkgs: import ./nix/package.nix { inherit pkgs version; };
    in
    {
      packages = each (pkgs: {
        default = package pkgs;
      });

      nixosModules.default = import ./nix/module.nix { inherit version; };

      # The scenarios that every kind of machine plays, on NixOS: docs/nixos.md.
      checks = each (
        pkgs:
        import ./nix/tests.nix {
          inherit pkgs;
          package = package pkgs;
          module = self.nixosModules.default;
        }
      );

      devShells = each (pkgs: {
        default = pkgs.mkShell {
          inputsFrom = [ (package pkgs) ];
          packages = [
            pkgs.gopls
            pkgs.gnumake
          ];
        };
      });
    };
}
