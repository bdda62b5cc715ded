package report

import (
	"encoding/json"
	"slices"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/bench"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/compile"
	"github.com/gpc-engine/gpc/internal/opfrecord"
	"github.com/gpc-engine/gpc/internal/peerrecord"
)

// kind is one sort of record: how a file of it is known, where it goes, and what the
// report makes of all of its sort.
type kind struct {
	name     string   // the command that writes it
	chapter  string   // that its sections stand in
	keys     []string // that only its files hold, all of them
	add      func(r *Records, text []byte) error
	sections func(r *Records) []Section // nil: none, or at their case
}

// is reports whether a file's keys are those of the kind.
func (k *kind) is(raw map[string]json.RawMessage) bool {
	return !slices.ContainsFunc(k.keys, func(key string) bool { return raw[key] == nil })
}

// kinds are the sorts of records in the order of the report.
var kinds = []kind{
	{"eval", "Closed loops", []string{"method", "episodes"}, (*Records).addEvaluation, (*Records).evaluationSections},
	listed("compare", "Methods on the same episodes", []string{"comparisons"},
		func(r *Records) *[]Compared { return &r.Comparisons }, nil, comparisonSection),
	{"eval pair", "Candidates, time, data and disturbances", []string{"pairs"},
		into(func(r *Records) *[]closedloop.Pairing { return &r.Pairings }, nil), (*Records).curveSections},
	{"steer", "Steering", []string{"front"},
		into(func(r *Records) *[]closedloop.Steering { return &r.Steerings }, checkSteering), (*Records).steeringSections},
	listed("certify", "Certificates", []string{"certificate"},
		func(r *Records) *[]batchnav.Certified { return &r.Certificates }, checkCertified, certificateSection),
	{"compile", "Maps compiled from equations", []string{"rounds", "choice", "test"},
		into(func(r *Records) *[]compile.Report { return &r.Compilations }, checkCompilation), (*Records).compilationSections},
	listed("bench", "Speed", []string{"results"}, func(r *Records) *[]bench.Record { return &r.Benchmarks }, nil, benchmarkSection),
	listed("conformance", "Speed", []string{"suites"}, func(r *Records) *[]Conformance { return &r.Conformances }, nil, conformanceSection),
	listed("bench scaling", "Speed", []string{"curves"},
		func(r *Records) *[]bench.Scaling { return &r.Scalings }, (*bench.Scaling).Validate, scalingSection),
	listed("peers", "Speed", []string{"ratios"}, func(r *Records) *[]peerrecord.Record { return &r.Peers }, nil, peersSection),
	{"record --rollout", "", []string{"rollout", "shapes"},
		into(func(r *Records) *[]Rollout { return &r.Rollouts }, (*Rollout).check), nil},
	listed("opf of several networks", "Speed", []string{"networks", "threads"},
		func(r *Records) *[]opfrecord.Record { return &r.OptimalFlows }, (*opfrecord.Record).Check, optimalFlowsSection),
	kept("torture", "attacks"),
	kept("bench serve", "canary_differing"),
	kept("bench deadline", "late_causes"),
	kept("bench record", "benchmarks"),
	kept("learned optimal power flows", "recipes", "rows"),
	kept("peers of pandapower", "peer", "rows"),
}

// into adds a record to a list once it has passed its check, if there is one.
func into[T any](list func(r *Records) *[]T, check func(*T) error) func(r *Records, text []byte) error {
	return func(r *Records, text []byte) error {
		v, err := decode(text, check)
		if err == nil {
			*list(r) = append(*list(r), *v)
		}
		return err
	}
}

// listed is a kind with a section for every record; one without rows is left out.
func listed[T any](name, chapter string, keys []string, list func(r *Records) *[]T, check func(*T) error, of func(T) Section) kind {
	return kind{name, chapter, keys, into(list, check), func(r *Records) []Section { return each(*list(r), of) }}
}

// kept is a kind without a section: what reads the records asks for them by its name.
func kept(name string, keys ...string) kind {
	return kind{name: name, keys: keys, add: func(r *Records, text []byte) error {
		r.kept[name] = append(r.kept[name], text)
		return nil
	}}
}

// each makes a section of every record; one without rows is left out.
func each[T any](records []T, of func(T) Section) (out []Section) {
	for _, v := range records {
		if s := of(v); len(s.Rows) > 0 {
			out = append(out, s)
		}
	}
	return out
}
