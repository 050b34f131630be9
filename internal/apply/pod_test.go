package apply

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"meshgen/state"
	"meshgen/units"
)

func pod(id, name string, entries ...string) units.Resource {
	return resource(units.KindPod, "Pod", id, name, entries...)
}

// A pod takes its containers along when it has to be made anew, and only then; a
// container of it comes and goes by itself.
func TestPlanOfPods(t *testing.T) {
	inPod := func(id, name, in string, entries ...string) units.Resource {
		return container(id, name, append([]string{"Pod=" + in + ".pod", "uses=pod/p"}, entries...)...)
	}
	aside := container("aside", "aside")
	before := generation(1, pod("p", "ant"), inPod("x", "x", "ant"), inPod("y", "y", "ant"), aside)
	tests := []struct {
		name                 string
		after                state.Generation
		stop, restart, start []string
		handover             []Handover
	}{
		{
			"nothing changes", generation(2, before.Resources...),
			nil, nil, nil, nil,
		},
		{
			"the pod is renamed",
			generation(2, pod("p", "bat"), inPod("x", "x", "bat"), inPod("y", "y", "bat"), aside),
			[]string{"x.service", "y.service", "ant-pod.service"},
			nil,
			[]string{"bat-pod.service", "x.service", "y.service"},
			nil,
		},
		{
			"the pod changes",
			generation(2, pod("p", "ant", "PublishPort=80:80"), inPod("x", "x", "ant"), inPod("y", "y", "ant"), aside),
			[]string{"x.service", "y.service", "ant-pod.service"},
			nil,
			[]string{"ant-pod.service", "x.service", "y.service"},
			nil,
		},
		{
			"all are renamed together",
			generation(2, pod("p", "bat"), inPod("x", "v", "bat"), inPod("y", "w", "bat"), aside),
			[]string{"x.service", "y.service", "ant-pod.service"},
			nil,
			[]string{"bat-pod.service", "v.service", "w.service"},
			nil,
		},
		{
			"a container changes",
			generation(2, pod("p", "ant"), inPod("x", "x", "ant", "Image=b"), inPod("y", "y", "ant"), aside),
			nil,
			[]string{"x.service"},
			nil, nil,
		},
		{
			"a container is renamed",
			generation(2, pod("p", "ant"), inPod("x", "v", "ant"), inPod("y", "y", "ant"), aside),
			nil, nil, nil,
			[]Handover{{Old: "x.service", New: "v.service"}},
		},
		{
			"the pod goes, and one of its containers stays without",
			generation(2, container("x", "x"), aside),
			[]string{"x.service", "y.service", "ant-pod.service"},
			nil,
			[]string{"x.service"},
			nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := makePlan(running(before), test.after)
			got := []any{plan.Stop, plan.Restart, plan.Start, plan.Handover}
			want := []any{test.stop, test.restart, test.start, test.handover}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A pod's definition names its containers, and is made anew with them.
func TestPodIsConvertedWithItsContainers(t *testing.T) {
	of := func(resources ...units.Resource) Compiled {
		return Compiled{Generation: state.Generation{Number: 1, Resources: resources}}
	}
	x := container("x", "x", "Pod=ant.pod", "uses=pod/p")
	y := container("y", "y", "Pod=ant.pod", "uses=pod/p")
	before := of(pod("p", "ant"), x).Generation
	same, more := of(pod("p", "ant"), x), of(pod("p", "ant"), x, y)
	if kept := same.keep(before); !kept[address(units.KindPod, "p")] {
		t.Error("a pod that did not change is not kept")
	}
	kept := more.keep(before)
	if kept[address(units.KindPod, "p")] {
		t.Error("a pod with another container is kept")
	}
	quadlets, _ := more.toConvert(kept)
	for _, name := range []string{"ant.pod", "x.container", "y.container"} {
		if quadlets[name] == "" {
			t.Errorf("the converter does not see %s", name)
		}
	}
}
