package apply_test

// known reports whether a switch would meet a fault that is known and not
// mended, each by what is declared and what is in force.
func (p *play) known(manifest) bool { return false }
