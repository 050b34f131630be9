package apply

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"meshgen/units"
)

// veil hides what is not to be shown in a text. What differs behind it differs
// before it too.
type veil struct {
	secrets []hidden // the longest first
	lifted  bool     // but from secrets
	values  []string // of variables, in the order in which they came up
}

// hidden is a form in which a secret may stand in a text, and what is shown
// instead.
type hidden struct{ form, shown string }

// shortestSecret is of so many bytes: what is shorter would be found everywhere,
// and is none.
const shortestSecret = 4

// add has a content hidden, as it is, as a unit file quotes it, in base64, and each
// of its lines where it has several. The first word for a content counts.
func (v *veil) add(content []byte, shown string) {
	text := strings.TrimSpace(string(content))
	forms := []string{text, base64.StdEncoding.EncodeToString(content), base64.StdEncoding.EncodeToString([]byte(text))}
	for _, section := range []string{"Service", "Container"} {
		forms = append(forms, strings.Trim(units.Quote(text, section), `"`))
	}
	if strings.Contains(text, "\n") {
		for line := range strings.SplitSeq(text, "\n") {
			if line = strings.TrimSpace(line); len(line) >= 2*shortestSecret {
				forms = append(forms, line)
			}
		}
	}
	for _, form := range forms {
		known := slices.ContainsFunc(v.secrets, func(h hidden) bool { return h.form == form })
		if !known && len(form) >= shortestSecret {
			v.secrets = append(v.secrets, hidden{form, shown})
		}
	}
	slices.SortStableFunc(v.secrets, func(a, b hidden) int { return len(b.form) - len(a.form) })
}

// text hides the secrets in a text.
func (v *veil) text(text string) string {
	pairs := make([]string, 0, 2*len(v.secrets))
	for _, h := range v.secrets {
		pairs = append(pairs, h.form, h.shown)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// confidential is a variable in a unit that is called like something that is not
// for everybody, but for one that says in which file that is; and its value, to the
// end of the line.
var confidential = regexp.MustCompile(`(?im)^((?:Environment|PodmanArgs|GlobalArgs|Exec\w*|Label|Annotation)=.*?\b[\w.-]*(?:(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|PRIVATE_?KEY|API_?KEY)[\w.-]*|PASS|PWD|[_.-]KEY)=)(.*)$`)

// inURL is a password in a URL, with what is before it.
var inURL = regexp.MustCompile(`(://[^\s/@:"']*:)([^\s/"']+)@`)

// unit hides the secrets in the text of a unit, and, but where the veil is lifted, the
// values of variables that are called like one, and passwords in URLs.
func (v *veil) unit(text string) string {
	text = v.text(text)
	if v.lifted {
		return text
	}
	text = confidential.ReplaceAllStringFunc(text, func(line string) string {
		parts := confidential.FindStringSubmatch(line)
		if name := strings.TrimSuffix(parts[1], "="); strings.HasSuffix(strings.ToUpper(name), "FILE") || strings.HasPrefix(parts[2], "‹secret ") {
			return line
		}
		value, quoted := strings.CutSuffix(parts[2], `"`)
		shown := parts[1] + v.withhold(value)
		if quoted {
			shown += `"`
		}
		return shown
	})
	return inURL.ReplaceAllStringFunc(text, func(url string) string {
		parts := inURL.FindStringSubmatch(url)
		return parts[1] + v.withhold(parts[2]) + "@"
	})
}

// withhold returns what is shown for a value: the same each time that it comes up.
func (v *veil) withhold(value string) string {
	i := slices.Index(v.values, value)
	if i < 0 {
		i = len(v.values)
		v.values = append(v.values, value)
	}
	return fmt.Sprintf("‹withheld, value %d›", i+1)
}
