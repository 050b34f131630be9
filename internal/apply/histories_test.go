package apply_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Whatever happens to a node, each switch leaves what the manifest says, and
// keeps what is not its own: see the checks of play. $HISTORIES are that many,
// of another seed each time; else it is a few, always the same.
func TestHistories(t *testing.T) {
	most, first := 150, uint64(1)
	if n, err := strconv.Atoi(os.Getenv("HISTORIES")); err == nil {
		most, first = n, uint64(time.Now().UnixNano())
	}
	if n, err := strconv.ParseUint(os.Getenv("HISTORIES_SEED"), 10, 64); err == nil {
		first = n
	}
	t.Logf("%d histories from HISTORIES_SEED=%d on", most, first)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // it is all short-lived
	dir, broken := memory(t), 0
	for i := range uint64(most) {
		h := draw(first + i)
		faults := h.play(filepath.Join(dir, "node"), first+i)
		if len(faults) == 0 {
			continue
		}
		h, faults = h.shrunk(filepath.Join(dir, "node"), first+i, faults)
		t.Errorf("seed %d:\n%s\n\n%s", first+i, strings.Join(h, "\n"), strings.Join(faults, "\n"))
		if broken++; broken == mostBroken {
			t.FailNow()
		}
	}
}

// mostBroken is how many histories may go wrong before the rest is let be.
const mostBroken = 3

// memory returns a directory that costs no disk, where there is one.
func memory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "meshgen-histories-") //nolint:usetesting // which may lie on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary directory
	return dir
}

// shrunk returns a history that goes wrong as well, from which no step and no
// key can be left out, and what goes wrong.
func (h history) shrunk(dir string, seed uint64, faults []string) (history, []string) {
	for size := len(h) / 2; size > 0; {
		smaller := false
		for i := 0; i+size <= len(h); {
			without := slices.Delete(slices.Clone(h), i, i+size)
			if f := without.play(dir, seed); len(f) > 0 {
				h, faults, smaller = without, f, true
			} else {
				i++
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	for i := 0; i < len(h); i++ {
		words := strings.Fields(h[i])
		for j := len(words) - 1; j > 0; j-- {
			less := slices.Clone(h)
			less[i] = strings.Join(slices.Delete(slices.Clone(words), j, j+1), " ")
			if !strings.Contains(words[j], "=") && words[j] != "cut" {
				continue
			}
			if f := less.play(dir, seed); len(f) > 0 {
				h, faults, words = less, f, strings.Fields(less[i])
			}
		}
	}
	return h, faults
}

// draw makes a history.
func draw(seed uint64) history {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 1))}
	h := history{"container m/a" + d.pick("", " deaf=yes"), "container m/b name=bat" + d.pick("", " deaf=yes")}
	switch d.IntN(5) {
	case 0:
		h = append(h, "network m/net subnet=5", "container m/a network=net", "switch")
	case 1:
		h = append(h, "volume m/data", "container m/a volume=data", "file m/f path=/etc/x/one notify=a", "switch")
	case 2:
		h = append(h, "volume m/data", "volume m/more", "container m/a volume=data port=8080", "container m/b volume=more port=8081", "switch")
	case 3:
		h = nil
	}
	if past := d.IntN(2) == 0; past { // a machine with a past
		d.past = true
		h = slices.Concat(d.found(), h, d.wants())
	}
	for range 2 + d.IntN(22) {
		h = append(h, d.step())
	}
	return append(h, "switch")
}

// adoptable are names that things are found under, and that are declared.
var adoptable = []string{
	"container:ant", "container:bat", "container:m-a", "unit:ant.service", "unit:m-a.service", "unit:m-b.service", "network:nat", "volume:vat", "file:/etc/x/one",
}

// handed are things that come by hand.
var handed = []string{
	"container ant", "container bat", "container m-a", "quadlet ant", "quadlet m-b", "unit ant.service", "unit m-a.service", "file /etc/x/one", "volume vat",
	"network nat",
}

type drawer struct {
	*rand.Rand
	past bool // of a machine that has found things
}

// found draws what a machine has before.
func (d drawer) found() history {
	var h history
	for range 1 + d.IntN(4) {
		h = append(h, "hand "+d.pick(handed...))
	}
	for range d.IntN(3) {
		h = append(h, d.pick("restart ant", "start ant.service", "start m-b.service", "start m-a.service", "mask m-a.service", "restart m-a"))
	}
	return h
}

// wants draws what has found things in its way.
func (d drawer) wants() history {
	var h history
	for _, line := range []string{
		"container m/a name=" + d.pick("ant", "m-a") + d.pick("", " unit=ant"), "container m/b name=" + d.pick("bat", "m-b"),
		"network m/net name=nat", "container m/a network=net", "volume m/data name=vat", "container m/a volume=data", "file m/f path=/etc/x/one notify=a",
	} {
		if d.IntN(3) > 0 {
			h = append(h, line+" takeover="+d.pick("adopt", "adopt", "hold"))
		}
	}
	return append(h, "switch"+d.killed())
}

// killed draws whether and when a switch dies.
func (d drawer) killed() string {
	at := " kill=" + strconv.Itoa(1+d.IntN(40))
	return d.pick("", "", at, at+" cut")
}

// passing draws a step of the life of what is adopted.
func (d drawer) passing() string {
	switch n := d.IntN(20); {
	case n < 8:
		return "release " + d.pick(adoptable...) + d.killed()
	case n < 11:
		return "adopt " + d.pick(adoptable...) + d.killed()
	case n < 13:
		return "switch" + d.killed()
	case n < 14:
		return "rollback" + d.killed()
	case n < 15:
		return "hand " + d.pick(handed...)
	case n < 16:
		return "container " + d.pick("m/a", "m/b") + " env=" + d.pick("FAIL:start", "FAIL:run", "N:1", "")
	case n < 18: // what took a place goes on elsewhere
		return d.pick("container m/a name=cow", "container m/a unit=cow", "container m/b name=", "network m/net name=", "file m/f path=/etc/x/two", "move container m/a m/c")
	}
	return d.pick("container", "network", "volume", "file") + " " + d.pick("m/a", "m/b", "m/net", "m/data", "m/f") + " takeover=" + d.pick("adopt", "hold", "refuse")
}

func (d drawer) pick(words ...string) string { return words[d.IntN(len(words))] }

// keys draws up to most of the keys, each with one of its values.
func (d drawer) keys(most int, all map[string][]string) string {
	s := ""
	order := slices.Sorted(maps.Keys(all))
	for range d.IntN(most + 1) {
		key := d.pick(order...)
		s += " " + key + "=" + d.pick(all[key]...)
	}
	return s
}

func (d drawer) step() string {
	switch n := d.IntN(100); {
	case d.past && n%3 == 0:
		return d.passing()
	case n < 14:
		return "switch"
	case n < 30:
		return "switch kill=" + strconv.Itoa(1+d.IntN(30)) + d.pick("", "", " cut")
	case n < 63:
		return d.edit(n)
	case n < 67:
		return "remove " + d.pick("container m/a", "container m/b", "network m/net", "volume m/data", "file m/f", "file m/g")
	case n < 79:
		return "swap " + d.pick("container unit m/a m/b", "container name m/a m/b", "container name m/b m/c", "container volume m/a m/b",
			"file path m/f m/g", "network name m/net n/net", "network subnet m/net n/net", "container port m/a m/b")
	case n < 82:
		return "move container " + d.pick("m/a m/c", "m/b m/d", "m/c m/a", "m/a n/a")
	case n < 83:
		return "module " + d.pick("m n", "n m", "m o", "o m")
	case n < 84:
		return "rename " + d.pick("ant", "bat", "m-a", "m-b")
	case n < 85:
		return "reboot"
	case n < 90:
		if d.IntN(5) == 0 {
			return d.pick("stop", "start") + " m-net-network.service"
		}
		return d.pick("stop", "start", "die", "fail", "mask", "unmask") + " " + d.pick("ant", "bat", "m-a", "m-b") + ".service"
	case n < 97:
		return d.pick("hand", "hand", "gone") + " " + d.pick("container ant", "container bat", "container m-a", "network nat", "network m-net",
			"volume vat", "volume m-more", "file /etc/x/one", "file /etc/y/one", "unit ant.service", "unit m-a.service",
			"quadlet ant", "quadlet m-b")
	}
	return d.pick("edit", "delete") + " " + d.pick(paths...)
}

// edit draws a line that declares something; n is from 30 to 62.
func (d drawer) edit(n int) string {
	names, takeovers := []string{"", "ant", "bat", "cow"}, []string{"", "hold", "hold", "refuse", "adopt", "adopt", "adopt"}
	switch {
	case n < 46:
		return "container " + d.pick("m/a", "m/b", "m/c", "n/a") + d.keys(2, map[string][]string{
			"unit": names, "name": names, "env": {"", "N:1", "N:1", "N:2", "N:2", "FAIL:start", "FAIL:run"}, "deaf": {"", "yes"}, "volume": {"", "data", "more"}, "network": {"", "net"}, "port": {"", "8080", "8081"},
			"takeover": takeovers,
		})
	case n < 52:
		return "network " + d.pick("m/net", "n/net") + d.keys(2, map[string][]string{
			"unit": {"", "ant", "nat"}, "name": {"", "nat", "net"}, "subnet": {"", "5", "6"}, "takeover": takeovers,
		})
	case n < 57:
		return "volume " + d.pick("m/data", "m/more", "n/data") + d.keys(1, map[string][]string{"unit": {"", "vat"}, "name": {"", "vat", "vet"}, "takeover": takeovers})
	}
	return "file " + d.pick("m/f", "m/g") + " path=" + d.pick(paths...) + d.keys(2, map[string][]string{
		"content": {"1", "2"}, "notify": {"", "a", "b"}, "takeover": takeovers,
	})
}
