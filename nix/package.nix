# The programs, the units and what else `make install` lays.
{ pkgs, version }:
let
  inherit (pkgs) lib;
  # go.mod says which Go is the least.
  buildGoModule = pkgs.buildGo126Module or pkgs.buildGoModule;
  # NixOS has this link wherever the system's store path is. Generations lie in /etc
  # and name the guard: a store path in them would be gone with the next garbage
  # collection, and no container would start.
  sw = "/run/current-system/sw";
  flags = "PREFIX=$out GUARD=${sw}/lib/meshgen/meshgen-guard VERSION=${version}";
in
buildGoModule {
  pname = "meshgen";
  inherit version;
  src = lib.cleanSource ../.;
  # `make vendor-hash` says what it has to be.
  vendorHash = "sha256-4fVMHJbANgHDxdPGpf85zhlgM8pD8SufJwee+giOo6c=";
  env.CGO_ENABLED = "0";
  nativeBuildInputs = [ pkgs.makeBinaryWrapper ];
  buildPhase = ''
    runHook preBuild
    make build ${flags}
    runHook postBuild
  '';
  # The tests are for a checkout: they want more of a machine than the sandbox has.
  doCheck = false;
  # A service of systemd finds no podman by its PATH on NixOS, and it is services that
  # run the guard.
  installPhase = ''
    runHook preInstall
    make install ${flags}
    wrapProgram $out/lib/meshgen/meshgen-guard --suffix PATH : ${sw}/bin
    runHook postInstall
  '';
  meta = {
    description = "Podman Quadlet units and config files that leave nothing behind";
    license = lib.licenses.asl20;
    mainProgram = "meshgen";
    platforms = lib.platforms.linux;
  };
}
