package apply

import (
	"cmp"
	"context"
	"fmt"

	"meshgen/policy"
	"meshgen/state"
	"meshgen/units"
)

// asker asks policies.
type asker struct {
	runtime *policy.Runtime
	// program returns a module's own policy.
	program func(w units.Wasm) ([]byte, error)
}

// asker returns what asks the policies of the generations with these numbers,
// which have the programs that were not read from the manifest.
func (n *Node) asker(generations ...int) asker {
	if n.policies == nil {
		n.policies = policy.NewRuntime(n.Layout.Policies(), policy.DefaultLimits())
	}
	return asker{n.policies, func(w units.Wasm) (program []byte, err error) {
		for _, g := range generations {
			if program, err = n.content(g, w.Digest, w.Path); err == nil {
				return program, nil
			}
		}
		return nil, fmt.Errorf("policy %s: its program is lost: %w; put it there again, its sha256 is the file's name, or declare what it decides on without wasm", w.Path, err)
	}}
}

// decide has the policy of a transition's resource decide: the module's own, or
// the built-in one. One that cannot be read refuses.
func (a asker) decide(ctx context.Context, own *units.Wasm, facts policy.Facts, t state.Transition) state.Transition {
	m, sum := policy.Builtin(), ""
	var answer policy.Answer
	if own == nil {
		sum = m.SHA256()
		answer = a.runtime.Decide(ctx, m, facts)
	} else {
		m.Name, sum = own.Path, own.Digest
		answer = a.own(ctx, *own, facts)
	}
	t.Decision, t.Policy, t.PolicySum, t.Facts = state.Decision(answer.Decision.String()), m.Name, sum, answer.Read
	t.Said = cmp.Or(answer.Fault, answer.Reason)
	return t
}

func (a asker) own(ctx context.Context, w units.Wasm, facts policy.Facts) policy.Answer {
	m := policy.Module{Name: w.Path, Code: w.Content}
	if m.Code == nil {
		var err error
		if m.Code, err = a.program(w); err != nil {
			return policy.Answer{Fault: err.Error()}
		}
	}
	return a.runtime.Decide(ctx, m, facts)
}
