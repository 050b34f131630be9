package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// pod returns the pod that a container is adopted with, whole: nil where it is in
// none, or in one that cannot be.
func (a *adoption) pod(ctx context.Context, t state.Transition, o host.Object) (*state.AdoptedPod, error) {
	if o.Pod == "" {
		return nil, nil //nolint:nilnil // most are in none
	}
	containers, err := a.node.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return nil, err
	}
	pods, err := a.node.objects.get(ctx, units.TargetPod)
	if err != nil {
		return nil, err
	}
	if pods[o.PodName].Labels[units.MarkLabel] != "" {
		a.fault(t, "it is in the pod "+o.PodName+", which is of meshgen", "take it out of that by hand, "+holdIt)
		return nil, nil //nolint:nilnil // as above
	}
	// What is against the pod itself is said of that, and not of its infra container too.
	if others := a.stayIn(containers, o.Pod, o.PodName); len(others) > 0 && (!o.Infra || !a.takes[units.Of(units.TargetPod, o.PodName)]) {
		is := "it is in the pod " + o.PodName + " with "
		if t.To.Kind() == units.TargetPod {
			is = "in it is "
		}
		a.fault(t, is+strings.Join(others, ", ")+", and a pod is adopted whole",
			"adopt all of them in one switch, "+holdIt)
	}
	infra := infraOf(containers, o.Pod)
	unit, err := a.podRunner(ctx, pods[o.PodName], infra)
	if err != nil {
		return nil, err
	}
	pod := &state.AdoptedPod{ID: o.Pod, Name: o.PodName, Infra: infra.ID, Running: infra.Running}
	switch {
	case unit != "" && makesPod(a.node.Layout, unit, o.PodName):
		return a.madeByUnit(ctx, t, pod, unit)
	case unit != "":
		a.fault(t, fmt.Sprintf("it is in the pod %s, which %s runs, and would remove or start with all that is in it", o.PodName, unit),
			"stop that and take its definition away by hand, "+holdIt)
	}
	if infra.ID == "" {
		return pod, nil
	}
	known, err := a.node.Podman.InspectContainer(ctx, infra.ID)
	if err != nil {
		return nil, err
	}
	if known.Restart != "no" {
		pod.Restart = known.Restart
	}
	return pod, a.canUpdate(ctx, t, pod.Restart)
}

// stayIn returns what is in a pod and does not go with it: the pod itself, too, where a
// resource that wants its name is held for that.
func (a *adoption) stayIn(containers map[string]host.Object, id, name string) []string {
	others := besides(containers, id, a.node.adopted(), func(c host.Object) bool {
		return a.takes[units.Of(units.TargetContainer, c.Name)]
	})
	if t := units.Of(units.TargetPod, name); a.letBe(t) {
		others = append(others, string(t))
	}
	return others
}

// besides returns the names of the containers in a pod, its infra container apart,
// that were not adopted and are not about to be.
func besides(containers map[string]host.Object, pod string, adopted []state.Record, takes func(host.Object) bool) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(containers)) {
		c := containers[name]
		known := func(r state.Record) bool { return r.Adoption.ID == c.ID }
		if c.Pod == pod && !c.Infra && !takes(c) && !slices.ContainsFunc(adopted, known) {
			names = append(names, name)
		}
	}
	return names
}

// infraOf returns the container that is a pod's own, and that not all pods have.
func infraOf(containers map[string]host.Object, pod string) host.Object {
	for _, c := range containers {
		if c.Pod == pod && c.Infra {
			return c
		}
	}
	return host.Object{}
}

// podRunner returns the unit that runs a pod, or is to start it. The label outlives the unit.
func (a *adoption) podRunner(ctx context.Context, pod, infra host.Object) (string, error) {
	for _, unit := range []string{pod.Unit, infra.Unit} {
		if unit == "" {
			continue
		}
		now, err := a.node.Systemd.Units(ctx, []string{unit})
		if err != nil || now[unit].Up() || len(generator.Definers(a.node.Layout.Root, unit)) > 0 {
			return unit, err
		}
	}
	starters, err := a.starters(ctx, pod)
	if len(starters) == 0 && err == nil && infra.ID != "" {
		starters, err = a.starters(ctx, infra)
	}
	return strings.Join(starters, ", "), err
}

// podsOf returns the pods of what is adopted, each once.
func podsOf(adoptions []Adoption) []state.AdoptedPod {
	var pods []state.AdoptedPod
	for _, a := range adoptions {
		if pod := a.Was.Pod; pod != nil && !slices.Contains(pods, *pod) {
			pods = append(pods, *pod)
		}
	}
	return pods
}

// podsUnderWay sees that no container came into a pod since it was judged, and takes
// the start at boot of its infra container away.
func (m *move) podsUnderWay(ctx context.Context) error {
	pods := podsOf(m.plan.Adopt)
	if len(pods) == 0 {
		return nil
	}
	m.node.forget()
	containers, err := m.node.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if others := besides(containers, pod.ID, m.node.adopted(), func(host.Object) bool { return false }); len(others) > 0 {
			return changedSince("pod:" + pod.Name)
		}
		if pod.Restart == "" || infraOf(containers, pod.ID).ID == "" {
			continue
		}
		if err := m.node.Podman.SetRestart(ctx, pod.Infra, "no"); err != nil {
			return fmt.Errorf("pod:%s: restart policy: %w", pod.Name, err)
		}
	}
	return nil
}

// stopPods stops the infra containers of what is adopted: they hold the pods' ports
// for as long as they run.
func (m *move) stopPods(ctx context.Context) error {
	for _, pod := range podsOf(m.plan.Adopt) {
		m.node.forget()
		if pod.Unit != "" {
			if err := m.podWent(ctx, pod); err != nil {
				return err
			}
			continue
		}
		o, there, err := m.node.byID(ctx, pod.Infra)
		if err != nil {
			return err
		}
		if !there || !o.Running {
			continue
		}
		if err := m.node.Podman.StopContainer(ctx, o.ID); err != nil {
			return fmt.Errorf("pod:%s: stop: %w", pod.Name, err)
		}
	}
	return nil
}

// podBack gives the infra container of a pod its restart policy back, and starts it
// where it ran.
func (m *move) podBack(ctx context.Context, pod state.AdoptedPod) error {
	o, there, err := m.node.byID(ctx, pod.Infra)
	if err != nil || !there {
		return err // it has none, or went with its containers
	}
	if pod.Restart != "" {
		if err := m.node.Podman.SetRestart(ctx, o.ID, pod.Restart); err != nil {
			return fmt.Errorf("pod:%s: restart policy: %w", pod.Name, err)
		}
	}
	if !pod.Running || o.Running {
		return nil
	}
	if err := m.node.Podman.StartContainer(ctx, o.ID); err != nil {
		return fmt.Errorf("pod:%s: its containers have their names back, and it does not start: %w", pod.Name, err)
	}
	m.node.forget()
	return nil
}

// podsParted refuses to give back some of what is in a pod: podman starts a pod, and
// stops it, with all that is in it.
func (n *Node) podsParted(back map[units.Target]state.Record) []error {
	pods := map[string][]state.Record{}
	for _, r := range n.adopted() {
		if r.Adoption.Pod != nil {
			pods[r.Adoption.Pod.ID] = append(pods[r.Adoption.Pod.ID], r)
		}
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(pods)) {
		var stay []state.Record
		for _, r := range pods[id] {
			if _, goes := back[r.Target]; !goes {
				stay = append(stay, r)
			}
		}
		if len(stay) > 0 && len(stay) < len(pods[id]) {
			part := "pod:" + pods[id][0].Adoption.Pod.Name
			if slices.ContainsFunc(stay, func(r state.Record) bool { return string(r.Target) == part }) {
				part = "a part of " + part
			}
			errs = append(errs, hint.Add(
				fmt.Errorf("%s: cannot be given back without %s", part, strings.Join(ofResources(stay), ", ")),
				"give back all that is in it: "+hint.Command(append([]string{"meshgen", "release"}, ofResources(pods[id])...)...)))
		}
	}
	return errs
}

// ofResources returns the names of records, without those that go with the name of a
// pod: its unit's, and that of its infra container.
func ofResources(records []state.Record) []string {
	var names []string
	for _, r := range records {
		if r.Target.Kind() == units.TargetPod || !slices.ContainsFunc(records, func(of state.Record) bool {
			return of.Target.Kind() == units.TargetPod && of.Resource == r.Resource
		}) {
			names = append(names, string(r.Target))
		}
	}
	return names
}
