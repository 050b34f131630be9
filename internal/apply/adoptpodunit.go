package apply

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"meshgen/generator"
	"meshgen/internal/durable"
	"meshgen/internal/hint"
	"meshgen/internal/host"
	"meshgen/state"
	"meshgen/units"
)

// makesPod reports whether a unit makes a pod anew at each start and removes it at each
// stop, by the unit's own definition: a label says no such thing.
func makesPod(l state.Layout, unit, pod string) bool {
	if unit == "" || templateOf(unit) != "" {
		return false
	}
	paths := generator.Definers(l.Root, unit)
	if len(paths) > 0 && filepath.Ext(paths[0]) == ".pod" { // the strongest alone is in force
		if name := quadletValue(l, paths[0], "PodName"); name != "" {
			return specifiers(unit).Replace(name) == pod
		}
		return "systemd-"+strings.TrimSuffix(filepath.Base(paths[0]), ".pod") == pod
	}
	does := func(verb string) func(words []string) bool {
		return func(words []string) bool { return podmanDoes(words, "pod") && podmanDoes(words, verb) }
	}
	makes := func(words []string) bool {
		return does("create")(words) && namesContainer(words, host.Object{Name: pod})
	}
	return slices.ContainsFunc(commandsOf(l, unit, "ExecStartPre", "ExecStart"), makes) &&
		slices.ContainsFunc(commandsOf(l, unit, "ExecStop", "ExecStopPost"), does("rm"))
}

// madeByUnit says of a pod that the unit makes it which runs it. It goes as that stops.
func (a *adoption) madeByUnit(ctx context.Context, t state.Transition, pod *state.AdoptedPod, unit string) (*state.AdoptedPod, error) {
	now, err := a.node.Systemd.Units(ctx, []string{unit})
	if err != nil {
		return nil, err
	}
	if !now[unit].Up() {
		a.fault(t, fmt.Sprintf("%s made the pod %s and is %s, and so would not remove it", unit, pod.Name, now[unit].Active),
			"start that, or remove the pod by hand, "+holdIt)
	}
	pod.Unit, pod.Running = unit, true
	return pod, nil
}

// podItself adopts the pod that has the name of a declared one.
func (a *adoption) podItself(ctx context.Context, t state.Transition, o host.Object) error {
	in := o
	in.Pod, in.PodName = o.ID, o.Name
	pod, files, err := a.podOf(ctx, t, in)
	if err != nil || pod == nil {
		return err
	}
	if pod.Unit == "" { // since it was looked at
		a.fault(t, "no unit makes it anew", lookAtIt)
		return nil
	}
	a.add(t, state.Adoption{What: wasPod, ID: o.ID, Unit: pod.Unit, Running: pod.Running, Pod: pod, Files: files}, false)
	return nil
}

// podOf returns the pod of what is adopted, and what defines the unit that makes it,
// for the first that is adopted with it; nothing where that unit is adopted itself.
func (a *adoption) podOf(ctx context.Context, t state.Transition, o host.Object) (*state.AdoptedPod, []state.AdoptedFile, error) {
	pod, err := a.pod(ctx, t, o)
	if err != nil || pod == nil || pod.Unit == "" {
		return pod, nil, err
	}
	if a.pods[pod.ID] != nil {
		return pod, nil, nil
	}
	a.pods[pod.ID] = pod
	switch {
	case len(a.byUnit[pod.Unit]) > 0: // whose adoption has the files
		return pod, nil, nil
	case a.letBe(units.Of(units.TargetUnit, pod.Unit)):
		a.fault(t, fmt.Sprintf("%s makes the pod %s, and is not adopted with it", pod.Unit, pod.Name), "adopt all of them in one switch, "+holdIt)
		return pod, nil, nil
	}
	d, err := a.definition(t, pod.Unit)
	return pod, d.files, err
}

// letBe reports whether what has a name is let be by a resource that wants it.
func (a *adoption) letBe(t units.Target) bool {
	return slices.ContainsFunc(a.compiled.Generation.Held, func(h state.Holding) bool {
		return slices.ContainsFunc(h.Taken, func(taken state.Transition) bool { return taken.To == t })
	})
}

// podsWhole refuses to take away a unit that makes a pod whose containers stay, or that
// a unit needs which stays, and says of a unit that is adopted itself which pod it made.
func (a *adoption) podsWhole(ctx context.Context) error {
	if a.node.objects == nil || len(a.pods)+len(a.byUnit) == 0 {
		return nil
	}
	made := map[string]*state.AdoptedPod{}
	for _, pod := range a.pods {
		made[pod.Unit] = pod
	}
	for i, x := range a.adopted {
		if pod := made[x.Was.Unit]; pod != nil && x.Target.Kind() == units.TargetUnit {
			a.adopted[i].Was.Pod = pod
		}
	}
	containers, err := a.node.objects.get(ctx, units.TargetContainer)
	if err != nil {
		return err
	}
	if err := a.podsNeeded(ctx, made, containers); err != nil {
		return err
	}
	pods, err := a.node.objects.get(ctx, units.TargetPod)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		o := pods[name]
		if group := a.byUnit[o.Unit]; len(group) > 0 && a.pods[o.ID] == nil && o.Labels[units.MarkLabel] == "" && a.seen.units[o.Unit].Up() {
			a.fault(group[0], fmt.Sprintf("it runs the pod %s, and would remove it with all that is in it", name),
				"adopt what is in that in the same switch, "+holdIt)
		}
	}
	return nil
}

// podsNeeded refuses to take away a unit that makes a pod and that a unit needs which
// runs nothing in that: what is in it is judged for itself.
func (a *adoption) podsNeeded(ctx context.Context, made map[string]*state.AdoptedPod, containers map[string]host.Object) error {
	runs := map[string]string{} // a pod's id, by the unit that runs a container in it
	for _, o := range containers {
		if o.Unit != "" {
			runs[o.Unit] = o.Pod
		}
	}
	for _, unit := range slices.Sorted(maps.Keys(made)) {
		names, err := a.node.Systemd.Dependents(ctx, []string{unit})
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return len(a.byUnit[name]) > 0 || runs[name] == made[unit].ID })
		found, err := a.node.Systemd.Units(ctx, names)
		if err != nil {
			return err
		}
		for _, name := range names {
			if found[name].Up() {
				a.podFault(made[unit], fmt.Sprintf("%s makes it, and %s needs that", unit, name), "stop "+name+" by hand, "+holdIt)
			}
		}
	}
	return nil
}

func (a *adoption) podFault(pod *state.AdoptedPod, message, hint string) {
	i := slices.IndexFunc(a.adopted, func(x Adoption) bool { return x.Was.Pod != nil && x.Was.Pod.ID == pod.ID })
	if i < 0 {
		return // what is in it is refused as well
	}
	r := a.adopted[i].Resource
	a.fault(state.Transition{Resource: r, To: units.Of(units.TargetPod, pod.Name), Position: a.resource[r].Position}, message, hint)
}

// inspectedPods stages what podman says of the pods that go with their units.
func (m *move) inspectedPods(ctx context.Context, dir string) (staged []durable.Staged, err error) {
	for _, pod := range podsOf(m.plan.Adopt) {
		if pod.Unit == "" {
			continue
		}
		text, err := m.node.Podman.InspectPod(ctx, pod.ID)
		if err != nil {
			return staged, err
		}
		in, err := filepath.Rel(m.node.Layout.State, dir)
		if err != nil {
			return staged, err
		}
		s, err := durable.Stage(m.node.Layout.State, filepath.Join(in, podInspection(pod)), text, 0o600, -1, -1)
		if err != nil {
			return staged, err
		}
		staged = append(staged, s)
	}
	return staged, nil
}

// podInspection returns the name of what podman said of a pod, which no container's has.
func podInspection(pod state.AdoptedPod) string { return "pod:" + pod.Name + ".inspect.json" }

// podWent sees that a pod went as the unit stopped that made it.
func (m *move) podWent(ctx context.Context, pod state.AdoptedPod) error {
	pods, err := m.node.objects.get(ctx, units.TargetPod)
	if err != nil {
		return err
	}
	if pods[pod.Name].ID == pod.ID {
		return hint.Add(fmt.Errorf("pod:%s: %s was to remove it as it stopped, and did not", pod.Name, pod.Unit), lookAtIt)
	}
	return nil
}

// podNamed clears the name of a pod that is given back: its unit makes it anew.
func (m *move) podNamed(ctx context.Context, r state.Record) error {
	has, there, err := m.node.object(ctx, r.Target)
	switch was := r.Adoption; {
	case err != nil || !there || has.ID == was.ID:
		return err
	case marked(has, r):
		return m.removeMarked(ctx, r.Target, has)
	case has.Unit != was.Unit:
		return hint.Add(fmt.Errorf("%s: not given back: pod %.12s has the name by now", r.Target, has.ID),
			"remove that, then switch again; "+was.Unit+" makes what had it")
	}
	return nil
}

// unitMakesAgain reports whether a container is one that was adopted by the file of its
// unit, before that was stopped or after it was given back: it is not lost with its pod.
func (n *Node) unitMakesAgain(c host.Object) bool {
	return slices.ContainsFunc(n.adopted(), func(r state.Record) bool {
		was := r.Adoption
		return was.What == wasContainer && was.Aside == "" && was.Unit == c.Unit && r.Target.Name() == c.Name && c.Labels[units.MarkLabel] == ""
	})
}
