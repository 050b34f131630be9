package host

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func lay(t *testing.T, root, path, text string) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// As podman 5.4.2 writes it, in one file for each way in which a container lives.
const (
	lasting  = `[{"id":"aa","names":["hand"],"image":"1","layer":"2","metadata":"{}","created":"2026-12-01T14:43:55Z","flags":{}}]`
	volatile = `[{"id":"bb","names":["ant","alias"],"flags":{"Volatile":true}},{"id":"cc"}]`
	network  = `{"name": "net", "id": "dd", "driver": "bridge", "labels": {"io.meshgen.resource": "m/network/net"}}`
)

func TestStoreKnowsContainersByTheirNames(t *testing.T) {
	root := t.TempDir()
	s := Store{Root: root}
	if _, known := s.Containers(); known {
		t.Error("containers are known where there is no index")
	}
	lay(t, root, "var/lib/containers/storage/overlay-containers/containers.json", lasting)
	lay(t, root, "var/lib/containers/storage/overlay-containers/volatile-containers.json", volatile)
	ids, known := s.Containers()
	if want := map[string]string{"hand": "aa", "ant": "bb", "alias": "bb"}; !known || !maps.Equal(ids, want) {
		t.Errorf("containers: %v, %t, want %v", ids, known, want)
	}
	lay(t, root, "var/lib/containers/storage/overlay-containers/containers.json", lasting[:20])
	if _, known := s.Containers(); known {
		t.Error("containers are known where half an index is torn")
	}
}

func TestStoreKnowsSecretsByTheirLabels(t *testing.T) {
	const index = `{"secrets": {"6c": {"name": "db", "id": "6c", "labels": {"io.meshgen.resource": "m/secret/db"}, "driver": "file", "driverOptions": {"path": "/x"}}},
 "nameToID": {"db": "6c"}, "idToName": {"6c": "db"}}`
	root := t.TempDir()
	lay(t, root, "etc/containers/storage.conf", "[storage]\ngraphroot = \"/srv/pods\"\n")
	s := Store{Root: root}
	if _, known := s.Secrets(); known {
		t.Error("secrets are known where there is no index")
	}
	lay(t, root, "srv/pods/secrets/secrets.json", index)
	found, known := s.Secrets()
	if o := found["db"]; !known || len(found) != 1 || o.ID != "6c" || o.Driver != FileDriver || o.Labels["io.meshgen.resource"] != "m/secret/db" {
		t.Errorf("secrets: %+v, %t", found, known)
	}
	for _, torn := range []string{"", index[:40], `{"secrets": {"6c": {"name": "db", "id": "7d"}}}`} {
		lay(t, root, "srv/pods/secrets/secrets.json", torn)
		if _, known := s.Secrets(); known {
			t.Errorf("secrets are known by %q", torn)
		}
	}
}

func TestStoreIsWhereItsConfigurationSays(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "usr/share/containers/storage.conf", "[storage]\ngraphroot = \"/var/lib/containers/storage\"\n")
	lay(t, root, "etc/containers/storage.conf", "[storage]\n# graphroot = \"/nowhere\"\ngraphroot = \"/srv/pods\"\n")
	lay(t, root, "srv/pods/btrfs-containers/containers.json", lasting)
	lay(t, root, "srv/pods/volumes/data/_data/file", "")
	s := Store{Root: root}
	if ids, known := s.Containers(); !known || ids["hand"] != "aa" {
		t.Errorf("containers: %v, %t", ids, known)
	}
	made, there := s.VolumeMade("data")
	info, err := os.Stat(filepath.Join(root, "srv/pods/volumes/data"))
	if err != nil || !there || !made.Equal(info.ModTime()) {
		t.Errorf("volume: %v, %t, %v", made, there, err)
	}
	if _, there := s.VolumeMade("other"); there {
		t.Error("a volume is there that is not")
	}
}

func TestStoreKnowsANetworkByItsLabels(t *testing.T) {
	root := t.TempDir()
	lay(t, root, "etc/containers/networks/net.json", network)
	lay(t, root, "etc/containers/networks/torn.json", network[:30])
	s := Store{Root: root}
	if o, there := s.Network("net"); !there || o.ID != "dd" || o.Labels["io.meshgen.resource"] != "m/network/net" {
		t.Errorf("network: %+v, %t", o, there)
	}
	for _, name := range []string{"torn", "none"} {
		if _, there := s.Network(name); there {
			t.Errorf("network %s is there", name)
		}
	}
}
