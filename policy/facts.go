package policy

import (
	"slices"
	"strings"
)

// Fact describes a fact that a policy may ask for.
type Fact struct {
	Key         string   // a last part in capitals stands for any text
	Transitions []string // those in which it may be known; nil for all
	Meaning     string
	Example     string
}

// FactTable returns all facts that there are, in the order of the documents. A
// policy that asks for another key is told that it is not known.
func FactTable() []Fact {
	takeover, rename, transfer, remove, drift := "takeover", "rename", "transfer", "remove", "drift"
	only := func(transitions ...string) []string { return transitions }
	declared := only(takeover, rename, transfer, drift)
	there := only(takeover, rename, remove, drift)
	return []Fact{
		{"transition", nil, "what is to be decided: `takeover`, `rename`, `transfer`, `remove` or `drift`", "rename"},
		{"resource", nil, "the address of the resource", "forge/container/gitea.server"},
		{"module", nil, "the first part of the address", "forge"},
		{"kind", nil, "the second part of the address: `container`, `volume`, `network`, `unit`, `file`, `dir`…", "container"},
		{"id", nil, "the third part of the address", "gitea.server"},
		{"from", only(rename, transfer, remove, drift), "the target that the resource has", "container:forge-gitea-server"},
		{"from.kind", only(rename, transfer, remove, drift), "its kind", "container"},
		{"from.name", only(rename, transfer, remove, drift), "its name", "forge-gitea-server"},
		{"to", declared, "the target that the resource is to have", "container:gitea"},
		{"to.kind", declared, "its kind", "container"},
		{"to.name", declared, "its name", "gitea"},
		{"change", only(drift), "what other hands did: `content`, `mode`, `gone`, `directory` or `file` (stands in its place), `symlink`, `masked`, `overridden` (another definition comes before ours), `damaged` (ours in the generation), `renamed`, `remade`", "content"},
		{"data", nil, "whether the resource holds data: a volume, or a directory with something in it that is not of meshgen; one that is gone may have", "true"},
		{"dependents", nil, "addresses of the resources that refer to it", "forge/container/db forge/container/gitea.server"},
		{"candidates", only(transfer), "the addresses that the target may have had", "forge/container/gitea"},

		{"declared.image", declared, "the image, as the manifest has it", "docker.io/gitea/gitea:1.24"},
		{"declared.ports", declared, "the host's ports that it is to have", "tcp/2222 tcp/3000"},
		{"declared.digest", declared, "the sha256 of the content, or of the definition", "4b563a3a…"},
		{"generation", nil, "the number of the generation in force; not known before the first", "41"},
		{"node.name", nil, "the node's name, where it has one", "control"},
		{"node.adopted", nil, "whether the manifest says `node: adopted: true`", "false"},
		{"policy.NAME", nil, "a setting of that name in `policy:`, at the resource or else at its module", "follow"},

		{"observed.exists", nil, "whether the target is on the machine", "true"},
		{"observed.what", there, "what is there: `container`, `pod`, `volume`, `network`, `secret`, `unit`, `quadlet`, `mask`, `dropin`, `file`, `directory`, `symlink`", "quadlet"},
		{"observed.owner", there, "whose it is: `found` (there before the first switch, or let go), `foreign` (appeared later), `package` (of the distribution), `meshgen`", "found"},
		{"observed.released", only(takeover), "whether it was adopted once and given back by hand", "false"},
		{"observed.running", there, "whether it runs", "true"},
		{"observed.id", there, "podman's id of it", "9f2c41d07a3e…"},
		{"observed.image", there, "the image of the container, by the name it was made with", "docker.io/gitea/gitea:1.23"},
		{"observed.image.id", there, "the id of that image", "0c5b2b5f4a1d…"},
		{"observed.label.NAME", there, "a label of that name", "compose"},
		{"observed.ports", there, "the host's ports that it has", "tcp/3000"},
		{"observed.age", there, "seconds since it was made", "86400"},
		{"observed.digest", there, "the sha256 of the content, or of the definition", "e3b0c442…"},
		{"observed.same", there, "whether it is what is declared, so that nothing would have to change", "false"},
		{"observed.path", there, "where the file or the definition lies", "/etc/containers/systemd/gitea.container"},
		{"observed.unit", there, "the unit that runs it", "gitea.service"},
		{"observed.pod", there, "the pod that has the container", "forge"},
		{"observed.networks", there, "the networks that it is in", "forge podman"},

		{"record.state", nil, "what the ledger has of the target: `live`, `held`, `retired`, `found`", "live"},
		{"record.generation", nil, "the generation that last gave the machine this name", "40"},
		{"record.origin", nil, "how it came to be ours: `written`, `adopted`, `pulled`, `rebuilt`…", "written"},
	}
}

// FactOf returns the row of the table that a key belongs to.
func FactOf(key string) (f Fact, ok bool) {
	for _, f := range FactTable() {
		before, last, _ := cutLast(f.Key)
		if f.Key == key || last == "NAME" && len(key) > len(before) && strings.HasPrefix(key, before) {
			return f, true
		}
	}
	return Fact{}, false
}

// cutLast cuts a key behind its last dot.
func cutLast(key string) (before, last string, ok bool) {
	i := strings.LastIndexByte(key, '.')
	return key[:i+1], key[i+1:], i >= 0
}

// In reports whether the fact may be known in a transition.
func (f Fact) In(transition string) bool {
	return f.Transitions == nil || slices.Contains(f.Transitions, transition)
}
