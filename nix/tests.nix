# The scenarios as NixOS VM tests. The program that plays a step runs in the machine,
# and is the one that runs on machines of any other kind; here is only what comes
# between two steps.
{
  pkgs,
  package,
  module,
}:
let
  inherit (pkgs) lib;

  # The probe is the program of the containers, static like the machine's own.
  programs = package.overrideAttrs {
    pname = "meshgen-scenarios";
    buildPhase = ''
      mkdir -p $out/bin
      go build -trimpath -o $out/bin/ ./vmtests/cmd/scenario ./vmtests/probe
    '';
    installPhase = "true";
  };

  machine = {
    imports = [ module ];
    services.meshgen.enable = true;
    environment.systemPackages = [ programs ];
    virtualisation = {
      cores = 2;
      memorySize = 2048;
      diskSize = 4096;
    };
    # The recipe of the images is that of the other machines, too.
    systemd.services.probe-images = {
      description = "Import the images that the scenarios use";
      wantedBy = [ "multi-user.target" ];
      before = [ "multi-user.target" ];
      path = [
        pkgs.bash # its sh
        pkgs.gnutar
        pkgs.podman
      ];
      # A power cut may come before the kernel writes them by itself.
      script = ''
        podman image exists localhost/probe:2 ||
          sh ${../vmtests/machine/images.sh} ${programs}/bin/probe ${pkgs.pkgsStatic.busybox}/bin/busybox
        sync
      '';
      serviceConfig = {
        Type = "oneshot";
        RemainAfterExit = true;
      };
    };
  };

  play =
    name:
    pkgs.testers.runNixOSTest {
      name = "meshgen-${name}";
      nodes.machine = machine;
      testScript = ''
        import json

        machine.wait_for_unit("multi-user.target")
        scenarios = json.loads(machine.succeed("scenario list --json"))
        then = {s["name"]: s["then"] for s in scenarios}["${name}"]
        for number, what in enumerate(then, start=1):
            with subtest(f"step {number}"):
                print(machine.succeed(f"scenario ${name} {number}"))
            if what == "reboot":
                machine.shutdown()
                machine.start()
            elif what == "power cut":
                machine.crash()
                machine.start()
            else:
                assert what == "nothing", what
            machine.wait_for_unit("multi-user.target")
      '';
    };

  web = name: {
    modules.site.containers.web = {
      inherit name;
      Container = {
        Image = "localhost/probe:1";
        Network = "none";
      };
    };
  };

  # What there is on NixOS alone: the manifest belongs to the system's generation, and
  # goes forward and back with it.
  declared = pkgs.testers.runNixOSTest {
    name = "meshgen-declared";
    nodes.machine = {
      imports = [ machine ];
      services.meshgen.manifest = web "ant";
      specialisation.renamed.configuration.services.meshgen.manifest = lib.mkForce (web "bat");
    };
    testScript = ''
      def runs(name):
          machine.wait_until_succeeds("test ! -e /etc/meshgen/pending")
          machine.wait_until_succeeds(f"test \"$(podman ps --format '{{{{.Names}}}}')\" = {name}")

      base = machine.succeed("readlink -f /run/current-system").strip()
      runs("ant")
      machine.succeed(f"{base}/specialisation/renamed/bin/switch-to-configuration test")
      runs("bat")
      machine.succeed(f"{base}/bin/switch-to-configuration test")
      runs("ant")
      machine.shutdown()
      machine.start()
      runs("ant")
      machine.succeed("meshgen plan --exit-code")
    '';
  };
in
lib.genAttrs [
  "rename"
  "takeover"
  "crash"
  "generator"
  "first-boot"
] play
// {
  inherit declared;
}
