package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"meshgen/state"
	"meshgen/units"
)

// pull fetches the images that the new set needs and the machine lacks, before
// anything is stopped for them. What a running unit of the old set was made from
// is here already. pulled tells whether there was anything to fetch.
func (n *Node) pull(ctx context.Context, p *Prepared) (pulled bool, err error) {
	if n.Systemd == nil {
		return false, nil
	}
	here := map[string]bool{}
	for _, r := range p.before.generation.Resources {
		if p.before.seen.units[units.Unit(r)].Active == "active" {
			here[r.Value("Container", "Image")] = true
		}
	}
	wanted := map[string]units.Resource{}
	for _, r := range p.compiled.Generation.Resources {
		image := r.Value("Container", "Image")
		if image != "" && !here[image] && r.Value("Container", "Pull") != "never" {
			wanted[image] = r
		}
	}
	if len(wanted) == 0 {
		return false, nil
	}
	names, err := n.Podman.Images(ctx)
	if err != nil {
		return false, err
	}
	maps.DeleteFunc(wanted, func(image string, _ units.Resource) bool { return names[image] || names[tagged(image)] })
	if err := n.recordImages(wanted, p.To); err != nil {
		return false, err
	}
	var errs []error
	var gone []state.Event
	for _, image := range slices.Sorted(maps.Keys(wanted)) {
		pulled = true
		if err := n.Podman.Pull(ctx, image); err != nil {
			r := wanted[image]
			gone = append(gone, state.Event{Kind: state.EventRetire, Target: imageOf(r), Why: "it could not be pulled"})
			errs = append(errs, fmt.Errorf("%s: %s: image %s is not on this machine: %w", r.Position, r.Address, image, err))
		}
	}
	if len(gone) > 0 {
		errs = append(errs, n.Ledger.Append(gone...))
	}
	return pulled, errors.Join(errs...)
}

// recordImages names the images in the ledger before they are on the machine.
func (n *Node) recordImages(wanted map[string]units.Resource, generation int) error {
	var events []state.Event
	for _, image := range slices.Sorted(maps.Keys(wanted)) {
		r := wanted[image]
		events = append(events, state.Event{
			Kind: state.EventEmit, Generation: generation, Target: imageOf(r), Resource: r.Address, Origin: "pulled",
		})
	}
	if len(events) == 0 {
		return nil
	}
	if err := n.ensureLedger(); err != nil {
		return err
	}
	return n.Ledger.Append(events...)
}

// imageOf returns the target that the image of a resource has in the ledger, where
// a switch pulled it.
func imageOf(r units.Resource) units.Target {
	return units.Of(units.TargetImage, tagged(r.Value("Container", "Image")))
}

// tagged returns the image with the tag that podman gives one that has none.
func tagged(image string) string {
	if strings.Contains(image, "@") || strings.LastIndexByte(image, ':') > strings.LastIndexByte(image, '/') {
		return image
	}
	return image + ":latest"
}
