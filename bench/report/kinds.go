package report

import (
	"encoding/json"
	"slices"

	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/internal/opfrecord"
)

// kind is one sort of record: how a file of it is known, where it goes, and what the
// report makes of all of its sort.
type kind struct {
	name     string   // the command that writes it
	chapter  string   // that its sections stand in
	keys     []string // that only its files hold, all of them
	add      func(r *Records, text []byte) error
	sections func(r *Records) []section
}

// is reports whether a file's keys are those of the kind.
func (k *kind) is(raw map[string]json.RawMessage) bool {
	return !slices.ContainsFunc(k.keys, func(key string) bool { return raw[key] == nil })
}

// kinds are the sorts of records in the order of the report.
var kinds = []kind{
	{"eval", "Closed loops", []string{"method", "episodes"}, (*Records).addEvaluation, (*Records).evaluationSections},
	{"compare", "Methods on the same episodes", []string{"comparisons"}, func(r *Records, text []byte) error { return decode(text, &r.Comparisons, nil) },
		func(r *Records) []section { return each(r.Comparisons, comparisonSection) }},
	{"eval pair", "Candidates, time, data and disturbances", []string{"pairs"}, func(r *Records, text []byte) error { return decode(text, &r.Pairings, nil) }, (*Records).curveSections},
	{"steer", "Steering", []string{"front"}, func(r *Records, text []byte) error { return decode(text, &r.Steerings, checkSteering) }, (*Records).steeringSections},
	{"certify", "Certificates", []string{"certificate"}, func(r *Records, text []byte) error { return decode(text, &r.Certificates, checkCertified) },
		func(r *Records) []section { return each(r.Certificates, certificateSection) }},
	{"compile", "Maps compiled from equations", []string{"rounds", "choice", "test"}, func(r *Records, text []byte) error { return decode(text, &r.Compilations, checkCompilation) }, (*Records).compilationSections},
	{"bench", "Speed", []string{"results"}, func(r *Records, text []byte) error { return decode(text, &r.Benchmarks, nil) },
		func(r *Records) []section { return each(r.Benchmarks, benchmarkSection) }},
	{"conformance", "Speed", []string{"suites"}, func(r *Records, text []byte) error { return decode(text, &r.Conformances, nil) },
		func(r *Records) []section { return each(r.Conformances, conformanceSection) }},
	{"bench scaling", "Speed", []string{"curves"}, func(r *Records, text []byte) error { return decode(text, &r.Scalings, (*bench.Scaling).Validate) },
		func(r *Records) []section { return each(r.Scalings, scalingSection) }},
	{"peers", "Speed", []string{"ratios"}, func(r *Records, text []byte) error { return decode(text, &r.Peers, nil) },
		func(r *Records) []section { return each(r.Peers, peersSection) }},
	{"record --rollout", "", []string{"rollout", "shapes"}, func(r *Records, text []byte) error { return decode(text, &r.Rollouts, (*Rollout).check) }, elsewhere}, // at its case
	{"opf of several networks", "Speed", []string{"networks", "threads"}, func(r *Records, text []byte) error {
		return decode(text, &r.OptimalFlows, (*opfrecord.Record).Check)
	}, func(r *Records) []section { return each(r.OptimalFlows, optimalFlowsSection) }},
	{"torture", "", []string{"attacks"}, func(r *Records, text []byte) error { return decode(text, &r.Tortures, (*Torture).check) },
		elsewhere}, // docs/results/torture.md
	{"bench serve", "", []string{"canary_differing"}, func(r *Records, text []byte) error { return decode(text, &r.Serves, nil) }, elsewhere},                      // docs/results/serving.md
	{"bench deadline", "", []string{"late_causes"}, func(r *Records, text []byte) error { return decode(text, &r.Deadlines, nil) }, elsewhere},                     // docs/results/scaling.md
	{"bench record", "", []string{"benchmarks"}, func(r *Records, text []byte) error { return decode(text, &r.Benchmarked, (*Benchmarked).check) }, elsewhere},     // docs/results/monitor.md, dispatch.md, …
	{"learned optimal power flows", "", []string{"recipes", "rows"}, func(r *Records, text []byte) error { return decode(text, &r.LearnedFlows, nil) }, elsewhere}, // docs/results/networks.md
	{"peers of pandapower", "", []string{"peer", "rows"}, func(r *Records, text []byte) error { return decode(text, &r.Pandapower, nil) }, elsewhere},              // docs/results/pandapower.md
}

// elsewhere is of records that a page of docs shows in place of the report.
func elsewhere(*Records) []section { return nil }

// each makes a section of every record; one without rows is left out.
func each[T any](records []T, of func(T) section) (out []section) {
	for _, v := range records {
		if s := of(v); len(s.rows) > 0 {
			out = append(out, s)
		}
	}
	return out
}
