# As much of NixOS as the files beside use: the options with their types, and of what
# NixOS makes of them the generators and the units that packages bring.
{ modules }:
let
  lib = import ./lib.nix;
  pkgs = import ./pkgs.nix;
  inherit (lib) mkOption types;
  list = mkOption { type = types.listOf types.str; default = [ ]; };
  flag = default: mkOption { type = types.bool; inherit default; };
  number = mkOption { type = types.int; default = 1; };
  settings = mkOption { type = types.attrsOf types.anything; default = { }; };

  unit = {
    description = mkOption { type = types.str; default = ""; };
    unitConfig = settings;
    wantedBy = list;
    wants = list;
    requires = list;
    conflicts = list;
    after = list;
    before = list;
  };
  service = types.submodule {
    options = unit // {
      path = mkOption { type = types.listOf types.package; default = [ ]; };
      script = mkOption { type = types.lines; default = ""; };
      serviceConfig = settings;
      restartIfChanged = flag true;
      stopIfChanged = flag true;
      restartTriggers = mkOption { type = types.listOf types.package; default = [ ]; };
    };
  };
  timer = types.submodule { options = unit // { timerConfig = settings; }; };

  options = {
    assertions = mkOption { type = types.listOf types.anything; default = [ ]; };
    environment = {
      systemPackages = mkOption { type = types.listOf types.package; default = [ ]; };
      pathsToLink = list;
      etc = mkOption {
        type = types.attrsOf (types.submodule { options.source = mkOption { type = types.path; }; });
        default = { };
      };
    };
    networking.hostName = mkOption { type = types.str; default = "machine"; };
    # Each is evaluated as the machine that it is: with all that is not of it.
    specialisation = mkOption {
      type = types.attrsOf (types.submodule { options.configuration = mkOption { type = types.anything; }; });
      default = { };
    };
    system.etc.overlay = {
      enable = flag false;
      mutable = flag true;
    };
    systemd = {
      packages = mkOption { type = types.listOf types.package; default = [ ]; };
      generators = mkOption { type = types.attrsOf types.path; default = { }; };
      services = mkOption { type = types.attrsOf service; default = { }; };
      timers = mkOption { type = types.attrsOf timer; default = { }; };
    };
    virtualisation = {
      podman = {
        enable = flag false;
        package = mkOption { type = types.package; default = pkgs.podman; };
      };
      cores = number;
      memorySize = number;
      diskSize = number;
    };
  };

  # NixOS' own module for podman.
  podman = { config, lib, ... }: {
    config = lib.mkIf config.virtualisation.podman.enable {
      environment.systemPackages = [ config.virtualisation.podman.package ];
      systemd.packages = [ config.virtualisation.podman.package ];
    };
  };

  utils.escapeSystemdExecArgs =
    words: lib.concatStringsSep " " (map (w: builtins.replaceStrings [ "%" "$" ] [ "%%" "$$" ] (builtins.toJSON w)) words);

  evaluated = lib.evalModules {
    specialArgs = { inherit pkgs utils; };
    modules = [
      { inherit options; }
      podman
    ] ++ modules;
  };
  inherit (evaluated) config;
  failed = lib.filter (a: !a.assertion) config.assertions;

  # NixOS links the generators of all packages into one directory, and then those of
  # systemd.generators by `ln -s`: one name twice is an error.
  brought = {
    meshgen = [ "meshgen-generator" ];
    podman = [ "podman-system-generator" ];
  };
  generators =
    lib.concatMap (p: brought.${p.name} or [ ]) config.systemd.packages ++ lib.attrNames config.systemd.generators;
in
if failed != [ ] then
  throw (lib.concatStringsSep "; " (map (a: a.message) failed))
else if lib.unique generators != generators then
  throw "a generator twice: ${lib.concatStringsSep ", " generators}"
else
  {
    inherit config generators;
    specialisation = builtins.mapAttrs (
      _: s: import ./nixos.nix { modules = modules ++ [ { specialisation = lib.mkForce { }; } s.configuration ]; }
    ) config.specialisation;
  }
