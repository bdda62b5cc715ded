package report

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gpc-engine/gpc/compile"
)

// Trained is a compilation of one seed with a plain network beside its map. It is none of the Compilations, of which a case has
// the one that is used.
type Trained compile.Report

// check refuses a record that the tables cannot index.
func (t *Trained) check() error {
	if t.Plain == nil {
		return errors.New("a compilation with a plain network that is null")
	}
	return checkCompilation((*compile.Report)(t))
}

// trainedSections is a table of every seed.
func (r *Records) trainedSections() []Section {
	s := Trainings(Of[Trained](r), nil)
	if s.title = "Maps of several seeds, and plain networks"; len(s.Rows) < 2 {
		return nil
	}
	return []Section{s}
}

// Trainings are maps of several seeds, each beside a plain network, and how far apart the seeds of a case are; names are those of
// which there has to be a row, in the order of the table.
func Trainings(all []Trained, names []string) Section {
	s := Section{Rows: [][]string{{
		"case", "seed", "test by", "unsafe", "mean (worst) %", "plain: unsafe", "plain: mean (worst) %",
		"`direct`: unsafe", "`direct`: mean (worst) %", "`direct`, plain: unsafe", "`direct`, plain: mean (worst) %",
	}}, keys: 2}
	for _, name := range casesOf(all, func(t *Trained) string { return t.Case }) {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name)
		}
	}
	var commits, devices []string
	for _, name := range names {
		of := slices.DeleteFunc(slices.Clone(all), func(t Trained) bool { return t.Case != name })
		if len(of) == 0 {
			s.Absent = append(s.Absent, "`"+name+"`")
			continue
		}
		slices.SortStableFunc(of, func(a, b Trained) int { return cmp.Compare(a.Seed, b.Seed) })
		spread := []string{"`" + name + "`", "largest / least", ""}
		for i := range of {
			s.Rows = append(s.Rows, trainedRow(&of[i]))
			commits, devices = append(commits, of[i].Commit), append(devices, of[i].Device)
		}
		for k := range scores(&of[0]) {
			spread = append(spread, "", apart(of, k))
		}
		if len(of) > 1 {
			s.Rows = append(s.Rows, spread)
		}
	}
	if len(commits) > 0 {
		s.Provenance = Origin("", Distinct(commits), Distinct(devices))
	}
	return s
}

// scores are those of a record in the order of the table's columns: the map's and the plain network's by the chosen method, then
// by `direct`.
func scores(t *Trained) [4]*compile.Score {
	return [4]*compile.Score{&t.Test, &t.Plain.Score, &t.Plain.Map, &t.Plain.Direct}
}

func trainedRow(t *Trained) []string {
	row := []string{"`" + t.Case + "`", fmt.Sprint(t.Seed), "`" + t.Test.Method + "`"}
	for _, x := range scores(t) {
		row = append(row, fmt.Sprintf("%d of %d", x.Unsafe, x.Episodes), x.Mean.Text("%.3g")+" ("+x.Max.Text("%.3g")+")")
	}
	return row
}

// apart is the largest mean of a score over the least; a dash where one is not above zero.
func apart(of []Trained, score int) string {
	least, largest := scores(&of[0])[score].Mean, scores(&of[0])[score].Mean
	for i := range of {
		mean := scores(&of[i])[score].Mean
		least, largest = min(least, mean), max(largest, mean)
	}
	if !(least > 0) {
		return "–"
	}
	return (largest / least).Text("%.2g")
}
