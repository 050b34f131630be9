package simulated

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"meshgen/generator"
)

// Converter makes services of Quadlets as podman's does, as far as the machine
// acts on them.
type Converter struct{}

// Fingerprint returns the same text for ever.
func (Converter) Fingerprint() string { return "simulated" }

// Version returns the version of podman that it is like.
func (Converter) Version(context.Context) (string, error) { return "5.4.2", nil }

// Convert makes the services. A Quadlet that refers to one that is not there,
// and a container without an image, are refused.
func (Converter) Convert(_ context.Context, quadlets map[string]string, source string) (generator.Output, []generator.Refusal, error) {
	out, refused := convert(quadlets, source)
	return out, refused, nil
}

func convert(quadlets map[string]string, source string) (generator.Output, []generator.Refusal) {
	c := conversion{quadlets: map[string]definition{}, source: source}
	for file, text := range quadlets {
		d := definition{keys: map[string][]string{}}
		parse([]byte(text), d.keys)
		c.quadlets[file] = d
	}
	out := generator.Output{Units: map[string]string{}, Links: map[string]string{}}
	var refused []generator.Refusal
	for _, file := range slices.Sorted(maps.Keys(quadlets)) {
		text, err := c.unit(file, quadlets[file])
		if err != nil {
			refused = append(refused, generator.Refusal{File: file, Message: err.Error()})
			continue
		}
		service := c.service(file)
		out.Units[service] = text
		for _, target := range c.quadlets[file].words("Install.WantedBy") {
			out.Links[target+".wants/"+service] = "../" + service
		}
	}
	return out, refused
}

type conversion struct {
	quadlets map[string]definition
	source   string
}

// service returns the service that a Quadlet becomes: podman-systemd.unit(5).
func (c conversion) service(file string) string {
	base, kind, _ := cutLast(file, ".")
	own := strings.ToUpper(kind[:1]) + kind[1:]
	if name := c.quadlets[file].value(own + ".ServiceName"); name != "" {
		return name + ".service"
	}
	if kind == "container" {
		return base + ".service"
	}
	return base + "-" + kind + ".service"
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func (c conversion) unit(file, text string) (string, error) {
	base, kind, ok := cutLast(file, ".")
	if !ok {
		return "", fmt.Errorf("%s: no Quadlet", file)
	}
	d := c.quadlets[file]
	var b strings.Builder
	// Its own section stays for whoever reads it, under another name.
	own := strings.ToUpper(kind[:1]) + kind[1:]
	b.WriteString(strings.Replace(text, "["+own+"]", "[X-"+own+"]", 1))
	b.WriteString("\n[Unit]\nSourcePath=" + c.source + "/" + file + "\n")
	labels := ""
	if all := unquoted(d.keys[own+".Label"]); len(all) > 0 {
		labels = "--label " + strings.Join(all, " --label ")
	}
	switch kind {
	case "network":
		subnet := ""
		if s := d.value("Network.Subnet"); s != "" {
			subnet = " --subnet " + s
		}
		b.WriteString(oneshot("network create --ignore" + subnet + " " + labels + " " + c.object(file)))
	case "volume":
		b.WriteString(oneshot("volume create --ignore " + labels + " " + c.object(file)))
	case "container":
		return c.container(&b, d, base, labels)
	default:
		return "", fmt.Errorf("unsupported kind %q", kind)
	}
	return b.String(), nil
}

func oneshot(command string) string {
	return "\n[Service]\nExecStart=/usr/bin/podman " + command + "\nType=oneshot\nRemainAfterExit=yes\n"
}

// object returns the name that podman's object gets from a Quadlet.
func (c conversion) object(file string) string {
	base, kind, _ := cutLast(file, ".")
	own := strings.ToUpper(kind[:1]) + kind[1:]
	return cmp.Or(c.quadlets[file].value(own+"."+own+"Name"), "systemd-"+base)
}

func (c conversion) container(b *strings.Builder, d definition, base, labels string) (string, error) {
	image := d.value("Container.Image")
	if image == "" {
		return "", fmt.Errorf("no Image or Rootfs key specified")
	}
	run := []string{
		"--name", cmp.Or(d.value("Container.ContainerName"), "systemd-"+base), "--cidfile=%t/%N.cid --replace --rm --cgroups=split",
	}
	for _, key := range []struct{ name, suffix, flag string }{{"Network", ".network", "--network"}, {"Volume", ".volume", "-v"}} {
		for _, value := range d.keys["Container."+key.name] {
			file, rest, _ := strings.Cut(value, ":")
			if strings.HasSuffix(file, key.suffix) {
				if _, ok := c.quadlets[file]; !ok {
					return "", fmt.Errorf("requested Quadlet %s was not found", file)
				}
				service := c.service(file)
				b.WriteString("Requires=" + service + "\nAfter=" + service + "\n")
				value = strings.TrimSuffix(c.object(file)+":"+rest, ":")
			}
			run = append(run, key.flag, value)
		}
	}
	run = append(run, "--sdnotify=conmon -d")
	for _, port := range d.keys["Container.PublishPort"] {
		run = append(run, "--publish", port)
	}
	for _, secret := range d.keys["Container.Secret"] {
		run = append(run, "--secret", secret)
	}
	for _, e := range unquoted(d.keys["Container.Environment"]) {
		run = append(run, "--env", e)
	}
	run = append(run, labels)
	run = append(run, d.keys["Container.PodmanArgs"]...)
	run = append(run, image, d.value("Container.Exec"))
	b.WriteString("\n[Service]\nEnvironment=PODMAN_SYSTEMD_UNIT=%n\nKillMode=mixed\n" +
		"ExecStop=/usr/bin/podman rm -v -f -i --cidfile=%t/%N.cid\nType=notify\n" +
		"ExecStart=/usr/bin/podman run " + strings.TrimSpace(strings.Join(run, " ")) + "\n")
	return b.String(), nil
}

func unquoted(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.NewReplacer("%%", "%", "$$", "$").Replace(strings.Trim(v, `"`))
	}
	return out
}
