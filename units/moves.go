package units

// Moves are the addresses that resources had before, as the manifest tells them:
// each entry leads from a former address, or the id of a former module, to the
// next. The zero value has none. It is plain data, for a generation to keep.
type Moves struct {
	Resources map[Address]Address `json:"resources,omitempty"`
	// Modules lead every address of the module to the same kind and id in
	// another, but for those that Resources lead elsewhere.
	Modules map[string]string `json:"modules,omitempty"`
}

// Next returns the address that one step leads to; false where none does.
func (m Moves) Next(a Address) (Address, bool) {
	if to, ok := m.Resources[a]; ok {
		return to, true
	}
	if module, ok := m.Modules[a.Module]; ok {
		a.Module = module
		return a, true
	}
	return a, false
}

// Inverse returns the moves that lead back.
func (m Moves) Inverse() Moves {
	back := Moves{Resources: map[Address]Address{}, Modules: map[string]string{}}
	for from, to := range m.Resources {
		back.Resources[to] = from
	}
	for from, to := range m.Modules {
		back.Modules[to] = from
	}
	return back
}

// Until returns the first address on the way from a that is wanted; false where
// there is none.
func (m Moves) Until(a Address, wanted func(Address) bool) (Address, bool) {
	for range (len(m.Resources) + 1) * (len(m.Modules) + 1) {
		next, moved := m.Next(a)
		if !moved || wanted(next) {
			return next, moved
		}
		a = next
	}
	return a, false
}

// Now returns the address at the end of all steps from a, which is a itself where
// nothing moved it. Steps that come to no end lead nowhere: the loader refuses
// them, and what is read from a disk must not hang.
func (m Moves) Now(a Address) Address {
	now := a
	// Without a circle an entry of a resource is passed once, and between two of
	// them each module once.
	for range (len(m.Resources) + 1) * (len(m.Modules) + 1) {
		next, moved := m.Next(now)
		if !moved {
			return now
		}
		now = next
	}
	return a
}
