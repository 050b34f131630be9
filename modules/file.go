package modules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"meshgen/units"
)

// file completes a config file.
func (l *loader) file(d *declared, all fields) {
	file := &units.File{Mode: 0o644, Owner: "root", Group: "root"}
	d.File = file
	file.Path = l.ownPath(all, "file", reserved())
	l.access(all, &file.Mode, &file.Owner, &file.Group)
	file.Content = l.content(d, all)
	sum := sha256.Sum256(file.Content)
	file.Digest = hex.EncodeToString(sum[:])
	file.Notify = l.notifications(d, all)
}

// access reads who owns a file or a directory, and who else may do what with it.
func (l *loader) access(all fields, mode *uint32, owner, group *string) {
	if text, ok := l.text(all, "mode"); ok {
		bits, err := strconv.ParseUint(text, 8, 32)
		if err == nil { // the schema has seen to it
			*mode = uint32(bits)
		}
	}
	if f, ok := all.get("owner"); ok {
		*owner, _ = l.scalar(f)
	}
	if f, ok := all.get("group"); ok {
		*group, _ = l.scalar(f)
	}
}

// ownPath returns the path of a file or a directory, which is what names it.
func (l *loader) ownPath(all fields, what string, barred []reservation) string {
	name, ok := l.text(all, "path")
	if !ok {
		return ""
	}
	f, _ := all.get("path")
	switch {
	case strings.ContainsFunc(name, unicode.IsControl):
		l.fault(l.place(f.value, f.path), f.path, "holds a control character", "")
	case filepath.Clean(name) != name || name == "/":
		l.fault(l.place(f.value, f.path), f.path, fmt.Sprintf("%q is not the plain path of a %s", name, what),
			"want one without a final slash, double slashes, . and ..")
	default:
		for _, r := range barred {
			if name == r.dir || strings.HasPrefix(name, r.dir+"/") {
				l.fault(l.place(f.value, f.path), f.path, fmt.Sprintf("%q is not for a %s of a manifest", name, what), r.reason)
			}
		}
	}
	return name
}

// A reservation is a directory that nothing of a manifest may lie in.
type reservation struct{ dir, reason string }

func reserved() []reservation {
	const (
		own  = "it is meshgen's own"
		unit = "systemd is given units by way of the generator: declare a container, volume, network or unit"
		live = "it is the kernel's, and holds no files that last"
	)
	return []reservation{
		{"/etc/meshgen", own},
		{"/var/lib/meshgen", own},
		{"/run/meshgen", own},
		{"/etc/systemd/system", unit},
		{"/run/systemd", unit},
		{"/usr/lib/systemd", unit},
		{"/usr/local/lib/systemd", unit},
		{"/etc/containers/systemd", unit},
		{"/run/containers/systemd", unit},
		{"/usr/share/containers/systemd", unit},
		{"/proc", live},
		{"/sys", live},
		{"/dev", live},
	}
}

// content returns what the file is to hold, from content or source.
func (l *loader) content(d *declared, all fields) []byte {
	content, hasContent := all.get("content")
	source, hasSource := all.get("source")
	switch {
	case hasContent && hasSource:
		l.fault(l.label(source.value, source.path), source.path, "excludes content", "want one of the two")
	case hasContent && l.accepts(content):
		text, err := resolved(content.value).Bytes()
		if err != nil {
			l.evaluation(err)
		}
		return text
	case hasSource:
		return l.sourceContent(all, source)
	case !hasContent && d.value.Err() == nil:
		l.fault(d.Position, d.path.to("content"), "missing", "want content, or source: a file beside the manifest")
	}
	return nil
}

// sourceContent reads a file below the manifest directory. A symbolic link
// that leads out of it is refused.
func (l *loader) sourceContent(all fields, f field) []byte {
	name, ok := l.text(all, "source")
	if !ok {
		return nil
	}
	content, err := readBelow(l.dir, name, mostSource+1)
	switch {
	case err != nil:
		l.fault(l.place(f.value, f.path), f.path, fmt.Sprintf("%q: %s", name, err), "want a file below the manifest directory")
	case len(content) > mostSource:
		l.fault(l.place(f.value, f.path), f.path, fmt.Sprintf("%q: larger than 64 MiB", name),
			"what a manifest holds is read whole, and kept with each generation: put it elsewhere, into a volume or an image")
		return nil
	}
	return content
}

// mostSource is how many bytes a file may have that a manifest names.
const mostSource = 64 << 20

// readBelow returns the content of a regular file below a directory, or the
// first most bytes of it.
func readBelow(dir, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = root.Close() }() // read only
	// A named pipe would block an open.
	info, err := root.Stat(name)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file")
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = f.Close() }() // read only
	return io.ReadAll(io.LimitReader(f, most))
}

// errOutside is what is said of a path, or a link, that leads out.
var errOutside = errors.New("lies outside the manifest directory")

// cause returns why a file could not be read, without the file's name. What the
// kernel refuses has a number; what has none [os.Root] refused itself.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		if _, kernel := errors.AsType[syscall.Errno](e); !kernel {
			return errOutside
		}
		return e.Err
	}
	return err
}

// notifications returns what the module's containers and units do when the file
// changes, all as if they were containers: the resolver knows better.
func (l *loader) notifications(d *declared, all fields) []units.Notification {
	f, ok := all.get("notify")
	if !ok {
		return nil
	}
	var list []units.Notification
	for _, n := range l.fields(f.value, f.rule, f.path) {
		if !l.accepts(n) {
			continue
		}
		action, err := resolved(n.value).String()
		if err != nil {
			l.evaluation(err)
			continue
		}
		list = append(list, units.Notification{
			Resource: units.Address{Module: d.Address.Module, Kind: units.KindContainer, ID: n.name},
			Action:   action,
		})
	}
	return list
}
