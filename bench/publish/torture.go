package publish

import (
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
	"github.com/gpc-engine/gpc/closedloop"
)

// Torture is a run of bench/torture.
type Torture struct {
	Device  string   `json:"device"`
	Commit  string   `json:"commit"`
	Seed    uint64   `json:"seed"` // of moments, bits and maps
	Short   bool     `json:"short"`
	Seconds float64  `json:"seconds"`
	Attacks []Attack `json:"attacks"`
	// Load is the machine's, which moments of kills depend on.
	Load *closedloop.Load `json:"load,omitempty"`
}

// Attack is one sort of attack on one thing.
type Attack struct {
	By       string   `json:"by"`
	On       string   `json:"on"`
	Want     string   `json:"want"` // what survival is
	Tried    int      `json:"tried"`
	Survived int      `json:"survived"`
	Lost     []string `json:"lost,omitempty"` // what was not survived, in words
}

// check says what of a run cannot be.
func (t *Torture) check() error {
	for _, a := range t.Attacks {
		if a.Survived < 0 || a.Survived > a.Tried {
			return fmt.Errorf("attack %q on %q: %d survived of %d", a.By, a.On, a.Survived, a.Tried)
		}
	}
	return nil
}

// Rows are the table of a run, the header first.
func (t *Torture) Rows() [][]string {
	rows := [][]string{{"attack", "on", "tried", "survived", "survived is"}}
	for _, a := range t.Attacks {
		rows = append(rows, []string{a.By, a.On, fmt.Sprint(a.Tried), fmt.Sprint(a.Survived), a.Want})
	}
	return rows
}

// torture is the last run on the first device that has one, whatever was not survived in words.
func (d devices) torture() string {
	t := last(d, tortures.of)
	if t == nil {
		return ""
	}
	form := ""
	if t.Short {
		form = " --short"
	}
	s := report.Section{Provenance: report.Origin("bench/torture"+form, t.Commit, fmt.Sprintf("%s, seed %d, %.0f minutes", t.Device, t.Seed, max(1, t.Seconds/60)), t.Load), Rows: t.Rows()}
	var lost strings.Builder
	for _, a := range t.Attacks {
		for _, why := range a.Lost {
			fmt.Fprintf(&lost, "\nNot survived: %s, %s: %s\n", a.By, a.On, strings.TrimSpace(why))
		}
	}
	return report.Tables(s) + lost.String()
}
