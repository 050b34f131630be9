package audit

import (
	"strings"
)

// Ignore takes out what a pattern fits, by its target or one of its other names: it is
// among Ignored from then on. In a pattern "*" stands for any characters, and "?" for
// one.
func (r *Report) Ignore(patterns []string) {
	var left []Finding
	for _, f := range r.Findings {
		if f.fits(patterns) {
			r.Ignored = append(r.Ignored, f)
		} else {
			left = append(left, f)
		}
	}
	r.Findings = left
	r.sort()
}

func (f Finding) fits(patterns []string) bool {
	for _, p := range patterns {
		if fits(p, string(f.Target)) {
			return true
		}
		for _, t := range f.Also {
			if fits(p, string(t)) {
				return true
			}
		}
	}
	return false
}

// fits reports whether a pattern has the whole of a text. It takes no longer than the
// product of their lengths.
func fits(pattern, text string) bool {
	star, from := -1, 0 // of the last "*", and where in text it ends so far
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
