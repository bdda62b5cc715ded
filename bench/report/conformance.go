package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Conformance says which tests of the kernels passed on a device.
type Conformance struct {
	Device string  `json:"device"`
	Commit string  `json:"commit"`
	Suites []Suite `json:"suites"`
}

// Suite is one run of a test program: tests by name but for those that passed.
type Suite struct {
	Name    string   `json:"step"`
	OK      bool     `json:"ok"`
	Passed  int      `json:"passed"`
	Failed  []string `json:"failed"`
	Skipped []string `json:"skipped"`
	Seconds float64  `json:"seconds"`
}

func conformanceSection(c Conformance) Section {
	s := Section{
		title:      "Kernels held to float64 on the device",
		Provenance: Origin("", c.Commit, c.Device),
		Rows:       [][]string{{"suite", "passed", "failed", "skipped", "s"}},
	}
	for _, v := range c.Suites {
		failed := cmp.Or(strings.Join(v.Failed, ", "), "0")
		if !v.OK && len(v.Failed) == 0 {
			failed = "did not end"
		}
		s.Rows = append(s.Rows, []string{v.Name, fmt.Sprint(v.Passed), failed, cmp.Or(strings.Join(v.Skipped, ", "), "0"), fmt.Sprintf("%.0f", v.Seconds)})
	}
	return s
}
