# services.meshgen: see docs/nixos.md.
{ version }:
{
  config,
  lib,
  pkgs,
  utils,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.meshgen;
  podman = config.virtualisation.podman.package;
  json = pkgs.formats.json { };

  # JSON is CUE.
  fromValues =
    values:
    pkgs.runCommand "meshgen-manifest-values" { } ''
      mkdir $out
      { printf 'package mesh\n\n'; cat ${json.generate "mesh.json" values}; } >$out/mesh.cue
    '';
  isDirectory = builtins.isPath cfg.manifest || builtins.isString cfg.manifest || lib.isDerivation cfg.manifest;
  # What the machine would refuse is refused here, by the same program and the
  # machine's own Quadlet: nothing of it reaches the machine.
  manifest = pkgs.runCommand "meshgen-manifest" { nativeBuildInputs = [ cfg.package ]; } ''
    cp -rL ${if isDirectory then cfg.manifest else fromValues cfg.manifest} $out
    install -D ${podman}/libexec/podman/quadlet root/usr/libexec/podman/quadlet
    install -D ${pkgs.writeText "hostname" config.networking.hostName} root/etc/hostname
    meshgen check --root root --manifest $out ${lib.optionalString (lib.elem "--allow-empty" cfg.flags) "--allow-empty"}
  '';

  # The services that come with the package, each a file of the directory.
  packaged = map (lib.removeSuffix ".service") (
    lib.filter (lib.hasSuffix ".service") (lib.attrNames (builtins.readDir ../systemd))
  );
in
{
  options.services.meshgen = {
    enable = lib.mkEnableOption "meshgen, which has the machine run what its manifest says";

    package = mkOption {
      type = types.package;
      default = import ./package.nix { inherit pkgs version; };
      defaultText = lib.literalMD "the flake's own";
      description = "The package to use.";
    };

    manifest = mkOption {
      type = types.nullOr (types.either types.path json.type);
      default = null;
      example = lib.literalExpression ''
        {
          modules.forge.containers.gitea.Container = {
            Image = "docker.io/gitea/gitea:1.24";
            PublishPort = [ "3000:3000" ];
          };
        }
      '';
      description = ''
        What the machine is told: a directory of CUE, or the same as Nix values. Each
        switch to another NixOS generation brings its manifest into force, a switch back
        as well. With null the manifest is what lies in /etc/meshgen/manifest, and
        `meshgen switch` is for whoever writes it.
      '';
    };

    flags = mkOption {
      type = types.listOf types.str;
      default = [ ];
      example = [ "--rollback=never" ];
      description = "Flags of the `meshgen switch` that brings the manifest into force.";
    };

    audit = {
      enable = lib.mkEnableOption "an audit at intervals, which logs what is new";
      interval = mkOption {
        type = types.str;
        default = "10min";
        description = "The time between two audits, as in {manpage}`systemd.time(7)`.";
      };
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = config.system.etc.overlay.enable -> config.system.etc.overlay.mutable;
        message = "services.meshgen: generations lie in /etc/meshgen, and with system.etc.overlay.mutable = false nothing can be written there";
      }
    ];

    virtualisation.podman.enable = true;
    environment.systemPackages = [ cfg.package ];
    environment.pathsToLink = [ "/lib/meshgen" ]; # where units look for the guard
    # From here come the units and the generator; podman's module does the same for
    # Quadlet's. To name one in systemd.generators, too, would make two of one name.
    systemd.packages = [ cfg.package ];
    environment.etc = lib.mkIf (cfg.manifest != null) { "meshgen/manifest".source = manifest; };

    systemd.services =
      lib.genAttrs packaged (_: {
        path = [ podman ];
        # A recovery is for the boot, and a switch is no reason to stop one.
        restartIfChanged = false;
      })
      // lib.optionalAttrs (cfg.manifest != null) {
        meshgen-apply = {
          description = "Bring the manifest of this NixOS generation into force";
          wantedBy = [ "multi-user.target" ];
          wants = [ "network-online.target" ];
          # The boot runs what is in force, and does not wait for a switch: one that
          # it waited for could not wait for units that come after it.
          after = [
            "multi-user.target"
            "network-online.target"
            "meshgen-recover.service"
            "meshgen-confirm.service"
            "meshgen-switch.service"
          ];
          requires = [ "sysinit.target" ];
          conflicts = [ "shutdown.target" ];
          before = [ "shutdown.target" ];
          unitConfig.DefaultDependencies = false;
          path = [ podman ];
          # Another podman makes other units of the same manifest.
          restartTriggers = [
            manifest
            podman
          ];
          stopIfChanged = false;
          serviceConfig = {
            Type = "oneshot";
            RemainAfterExit = true;
            ExecStart = utils.escapeSystemdExecArgs (
              [
                "${cfg.package}/bin/meshgen"
                "switch"
              ]
              ++ cfg.flags
            );
          };
        };
      };

    systemd.timers = lib.mkIf cfg.audit.enable {
      meshgen-audit = {
        wantedBy = [ "timers.target" ];
        timerConfig = {
          # The empty one takes back what the unit itself has.
          OnBootSec = [
            ""
            "2min"
          ];
          OnUnitActiveSec = cfg.audit.interval;
        };
      };
    };
  };
}
