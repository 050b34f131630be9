package apply_test

import "meshgen/units"

// known reports whether a switch would meet a fault that is known and not
// mended, each by what is declared and what is in force.
func (p *play) known(m manifest) bool {
	was := p.inForce()
	return networkUnitKept(was, m) || volumeChangesHands(was, m) || p.maskedActs(was, m)
}

// networkUnitKept: a network gets another name for podman, and its unit keeps
// its own. The unit is up and is not started again, so that the network is not
// made.
func networkUnitKept(was, m manifest) bool {
	for _, before := range was {
		for _, now := range m {
			if before.address.Kind == units.KindNetwork && now.address.Kind == units.KindNetwork &&
				before.base() == now.base() && before.object() != now.object() {
				return true
			}
		}
	}
	return false
}

// volumeChangesHands: a volume goes from one container to another, and both are
// restarted in any order.
func volumeChangesHands(was, m manifest) bool {
	for _, before := range was {
		for _, now := range m {
			if before.address.Kind == units.KindContainer && now.address.Kind == units.KindContainer && before.base() != now.base() &&
				was.volume(before) != "" && was.volume(before) == m.volume(now) {
				return true
			}
		}
	}
	return false
}

// maskedActs: a unit that its owner masked is to run another container or for
// another resource, and is started all the same.
func (p *play) maskedActs(was, m manifest) bool {
	for _, now := range m {
		if load, _ := p.host.UnitState(now.base() + ".service"); now.address.Kind != units.KindContainer || load != "masked" {
			continue
		}
		before, ok := was[now.address]
		if !ok || before.base() != now.base() || before.object() != now.object() || was.reach(before) != m.reach(now) {
			return true
		}
	}
	return false
}
