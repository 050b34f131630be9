//go:build systemd

package vmtests

import (
	"slices"
	"strings"
	"testing"
)

// A network stays, held or for a unit that is masked, and another is declared on its
// subnet: the switch is refused before anything is touched, and says what to do.
func TestSubnetOfANetworkThatStays(t *testing.T) {
	v := Boot(t)
	v.WriteManifest(single(`
	policy: remove: "keep"
	networks: kept: Network: Subnet: "10.99.5.0/24"
	networks: used: {policy: remove: "remove", Network: Subnet: "10.99.6.0/24"}
	containers: x: Container: {Image: "localhost/probe:1", Network: ["used"]}`))
	v.Switch()
	v.Run("systemctl", "mask", "m-x.service")
	v.WriteManifest(single(`containers: x: ` + probe))
	v.Switch()
	for _, c := range []struct{ subnet, want string }{
		{"10.99.5.0/24", "network:m-kept, 10.99.5.0/24, which is held"},
		{"10.99.6.0/25", "network:m-used, 10.99.6.0/24, which stays"},
	} {
		v.WriteManifest(single(`
	containers: x: ` + probe + `
	networks: new: Network: Subnet: "` + c.subnet + `"`))
		if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, c.want) {
			t.Errorf("subnet %s: %+v", c.subnet, r)
		}
		v.mustBeGone("m-new-network.service")
		v.mustRun("m-x")
	}
	v.Run("systemctl", "unmask", "m-x.service")
	v.Switch()
	v.mustRun("m-x")
	if networks := strings.Fields(v.Run("podman", "network", "ls", "--format", "{{.Name}}")); !slices.Equal(networks, []string{"m-kept", "m-new", "podman"}) {
		t.Errorf("there are %s", networks)
	}

	// One whose subnet podman chose goes after the new one has come.
	v.WriteManifest(single(`networks: auto: {}`))
	v.Switch()
	subnet := strings.TrimSpace(v.Run("podman", "network", "inspect", "m-auto", "--format", "{{(index .Subnets 0).Subnet}}"))
	v.WriteManifest(single(`networks: fixed: Network: Subnet: "` + subnet + `"`))
	if r := v.Exec("meshgen", "switch"); r.Code != 3 || !strings.Contains(r.Stderr, "network:m-auto, "+subnet+", which goes with this switch") {
		t.Errorf("subnet %s: %+v", subnet, r)
	}
}
