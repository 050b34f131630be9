package units

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
)

// MarkSection is the section of a unit file in which a unit of ours carries
// the address of its resource, under the key MarkKey. systemd.unit(5) ignores
// sections whose names begin with X-, and Quadlet passes them on.
const (
	MarkSection = "X-Meshgen"
	MarkKey     = "Resource"
)

// MarkLabel is the label that carries the address of its resource on a podman
// object of ours.
const MarkLabel = "io.meshgen.resource"

// DigestLabel is the label that carries, on a secret of ours, its [Secret] digest.
const DigestLabel = "io.meshgen.digest"

// FragmentLabel is the label that carries, on a container of ours, the path of the
// unit file by which it was started, as systemd knows it.
const FragmentLabel = "io.meshgen.fragment"

// WithFragment returns the text of a container's service, as a converter made it,
// with [FragmentLabel] on the container. It is not in the Quadlet: who copies that,
// or the service, into a place of their own starts what has another path, or none.
func WithFragment(service string) string {
	var b strings.Builder
	for line := range strings.Lines(service) {
		before, after, ok := strings.Cut(line, labelled)
		value, rest, more := strings.Cut(after, " ")
		if ok && more && strings.HasPrefix(line, "ExecStart=") {
			line = before + labelled + value + fragmentLabelled + " " + rest
		}
		b.WriteString(line)
	}
	return b.String()
}

const (
	labelled = " --label " + MarkLabel + "="
	// fragmentLabelled has a specifier of systemd.unit(5), the path to the fragment.
	fragmentLabelled = " --label " + FragmentLabel + "=%y"
)

// QuadletFile returns the name of the resource's Quadlet file; "" for what is
// none.
func QuadletFile(r Resource) string {
	switch r.Address.Kind {
	case KindContainer, KindPod, KindVolume, KindNetwork:
		return r.Name + "." + string(r.Address.Kind)
	case KindUnit, KindFile, KindDir, KindSecret:
	}
	return ""
}

// Render returns the text of the resource's Quadlet file, in the syntax of
// podman-systemd.unit(5), or of its unit file, systemd.unit(5), with our marks
// in it. The same resource always gives the same text.
func Render(r Resource) string {
	var b strings.Builder
	b.WriteString("# Written by meshgen for " + r.Address.String() + "; changes here are lost.\n")
	writeSection(&b, Section{Name: MarkSection, Entries: []Entry{
		{Key: MarkKey, Values: []string{r.Address.String()}},
	}})
	own := ownSection(r.Address.Kind)
	for _, s := range r.Sections {
		if s.Name == own && r.Address.Kind != KindUnit {
			s.Entries = append(slices.Clip(s.Entries), mark(r))
		}
		writeSection(&b, s)
	}
	return b.String()
}

// Plain returns the text of [Render] without our marks: for who is to have the
// resource for their own. What runs by the one is by [RunDigest] what runs by the
// other.
func Plain(r Resource) string {
	var b strings.Builder
	b.WriteString("# Was " + r.Address.String() + " of meshgen.\n")
	for _, s := range r.Sections {
		writeSection(&b, s)
	}
	return b.String()
}

// mark returns the entry by which podman gives an object our label. [Pod] has Label
// since podman 5.6 alone.
func mark(r Resource) Entry {
	if r.Address.Kind == KindPod {
		return Entry{Key: "PodmanArgs", Values: []string{"--label " + MarkLabel + "=" + r.Address.String()}}
	}
	return Entry{Key: "Label", Pairs: []Pair{{Name: MarkLabel, Value: r.Address.String()}}}
}

// ownSection returns the section that Quadlet reads for a kind: [Container] in
// a .container file.
func ownSection(k Kind) string {
	return strings.ToUpper(string(k[:1])) + string(k[1:])
}

func writeSection(b *strings.Builder, s Section) {
	b.WriteString("\n[" + s.Name + "]\n")
	for _, e := range s.Entries {
		for _, v := range e.Values {
			b.WriteString(e.Key + "=" + v + "\n")
		}
		for _, p := range e.Pairs {
			b.WriteString(e.Key + "=" + Quote(p.Name+"="+p.Value, s.Name) + "\n")
		}
	}
}

// isSystemd reports whether systemd reads the section itself. What stands in
// those of Quadlet ends in ExecStart=, where systemd also expands $.
func isSystemd(section string) bool {
	switch section {
	case ownSection(KindContainer), ownSection(KindPod), ownSection(KindVolume), ownSection(KindNetwork), "Quadlet":
		return false
	}
	return true
}

// Quote returns s so that it comes out of a section letter for letter: quoted and
// escaped as in systemd.syntax(7), specifiers of systemd.unit(5) doubled, and
// variables of systemd.service(5) doubled where the value ends in a command
// line.
func Quote(s, section string) string {
	replacements := []string{
		`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "%", "%%",
	}
	if !isSystemd(section) {
		replacements = append(replacements, "$", "$$")
	}
	return `"` + strings.NewReplacer(replacements...).Replace(s) + `"`
}

// RunDigest returns the sha256 of what makes a running service what it is, in
// hexadecimal: its text without comments, [Install], the X- sections, the
// description, the source path, our labels and what [Guarded] adds; of a pod's also
// which containers it pulls in. Two texts with one digest need no restart between
// them.
func RunDigest(text string) string {
	h := sha256.New()
	for line := range runLines(text) {
		_, _ = h.Write([]byte(line + "\n")) // a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SameRun reports whether two texts come to the same by what [RunDigest] goes by, also
// where one of them has never borne our label.
func SameRun(a, b string) bool {
	lines := func(text string) (lines []string) {
		for line := range runLines(text) {
			lines = append(lines, strings.TrimRight(line, " ")) // where the label was the last word
		}
		return lines
	}
	return slices.Equal(lines(a), lines(b))
}

// runLines returns the lines that make a running service what it is.
func runLines(text string) iter.Seq[string] {
	return func(yield func(string) bool) { eachRunLine(text, yield) }
}

func eachRunLine(text string, yield func(string) bool) {
	skip, guarded := false, false
	pod := strings.Contains(text, "\n[X-Pod]\n")
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "[") {
			skip = line == "[Install]" || strings.HasPrefix(line, "[X-")
		}
		if skip || line == "" || line[0] == '#' || line[0] == ';' || isDescriptive(line) || pod && isPull(line) {
			continue
		}
		if isGuard(line) {
			guarded = true
			continue
		}
		if guarded {
			line = withoutNoReplace(line)
		}
		if !yield(withoutLabel(line)) {
			return
		}
	}
}

func isDescriptive(line string) bool {
	key, _, _ := strings.Cut(line, "=")
	return key == "Description" || key == "Documentation" || key == "SourcePath"
}

// isPull reports whether a line of a pod's unit may name its containers: a pod runs
// on as it is when one comes or goes.
func isPull(line string) bool {
	return strings.HasPrefix(line, "Wants=") || strings.HasPrefix(line, "Before=")
}

func withoutLabel(line string) string {
	line = strings.Replace(line, fragmentLabelled, "", 1)
	before, after, ok := strings.Cut(line, labelled)
	if !ok {
		return line
	}
	_, rest, _ := strings.Cut(after, " ")
	return before + " " + rest
}

// Mark returns the address in the mark of a unit's text; ok is false where it
// bears none.
func Mark(text string) (a Address, ok bool) {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = line
		}
		value, found := strings.CutPrefix(line, MarkKey+"=")
		if !found || section != "["+MarkSection+"]" {
			continue
		}
		a, err := ParseAddress(value)
		return a, err == nil
	}
	return Address{}, false
}
