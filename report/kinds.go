package report

import (
	"encoding/json"
	"slices"
)

// kind is one sort of record: how a file of it is known, where it goes, and what the
// report makes of all of its sort.
type kind struct {
	name     string   // the command that writes it
	keys     []string // that only its files hold, all of them
	add      func(r *Records, text []byte) error
	sections func(r *Records) []section
	figures  func(r *Records) []*Figure
}

// is reports whether a file's keys are those of the kind.
func (k *kind) is(raw map[string]json.RawMessage) bool {
	return !slices.ContainsFunc(k.keys, func(key string) bool { return raw[key] == nil || string(raw[key]) == "null" })
}

// kinds are the sorts of records in the order of the report.
var kinds = []kind{
	{"eval", []string{"method", "episodes"}, func(r *Records, text []byte) error { return decode(text, &r.Evaluations, nil) },
		(*Records).evaluationSections, (*Records).evaluationFigures},
	{"compare", []string{"comparisons"}, func(r *Records, text []byte) error { return decode(text, &r.Comparisons, nil) },
		func(r *Records) []section { return each(r.Comparisons, r.comparisonSection) },
		func(r *Records) []*Figure { return drawn(r.Comparisons, r.comparisonFigures) }},
	{"eval pair", []string{"pairs"}, func(r *Records, text []byte) error { return decode(text, &r.Pairings, nil) },
		(*Records).curveSections, (*Records).curveFigures},
	{"steer", []string{"front"}, func(r *Records, text []byte) error { return decode(text, &r.Steerings, checkSteering) },
		(*Records).steeringSections,
		func(r *Records) []*Figure { return drawn(r.Steerings, steeringFigures) }},
	{"certify", []string{"certificate"}, func(r *Records, text []byte) error { return decode(text, &r.Certificates, checkCertified) },
		func(r *Records) []section { return each(r.Certificates, certificateSection) },
		func(r *Records) []*Figure { return drawn(r.Certificates, recoveryFigures) }},
	{"bench", []string{"results"}, func(r *Records, text []byte) error { return decode(text, &r.Benchmarks, nil) },
		func(r *Records) []section { return each(r.Benchmarks, benchmarkSection) }, nil},
	{"peers", []string{"ratios"}, func(r *Records, text []byte) error { return decode(text, &r.Peers, nil) },
		func(r *Records) []section { return each(r.Peers, peersSection) }, nil},
}

// each makes a section of every record; one without rows is left out.
func each[T any](records []T, of func(T) section) (out []section) {
	for _, v := range records {
		if s := of(v); len(s.rows) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// drawn are the figures of every record.
func drawn[T any](records []T, of func(T) []*Figure) (out []*Figure) {
	for _, v := range records {
		out = append(out, of(v)...)
	}
	return out
}
