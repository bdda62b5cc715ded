// Package publish writes the generated parts of this project's own pages, README.md and docs, from recorded runs. The
// program gpc does not link it: its report is package report, whose records and tables the pages share.
//
// The central list is documents: which part of which page shows what.
package publish

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/gpc-engine/gpc/grid/optima"
	"github.com/gpc-engine/gpc/internal/testing/docsection"
	"github.com/gpc-engine/gpc/lab/deadline"
	"github.com/gpc-engine/gpc/lab/peerrecord"
	"github.com/gpc-engine/gpc/lab/report"
)

// document is a part of a page that the records write, between two marks.
type document struct {
	page, name string // page is below the root of the repository
	text       func(d devices) string
}

// Pages of results that several parts and tests name.
const (
	casesPage   = "docs/results/cases.md"
	galleryPage = "docs/results/maps.md"
	gpuPage     = "docs/results/gpu.md"
	searchPage  = "docs/results/search.md"
)

// documents are all of them. Nothing in them is typed.
var documents = []document{
	{"README.md", "maps beside solvers", devices.mapsInBrief},
	{"README.md", "large optimal power flows", devices.largestFlows},
	{"README.md", "switched inputs", devices.switchedBeside},
	{casesPage, "the paper's cases", devices.briefGlance},
	{casesPage, "results", devices.summary},
	{casesPage, "other loads", devices.otherLoads},
	{casesPage, "weightings of opf30", devices.tradeOff},
	{casesPage, "admittances", devices.admittances},
	{casesPage, "ellipse", devices.laterLimits},
	{casesPage, "geometry", devices.geometry},
	{"docs/results/real-plant.md", "under noise", devices.realPlant},
	{"docs/results/real-plant.md", "late actions", devices.delayed},
	{searchPage, "quality of the search", devices.quality},
	{searchPage, "search on other plants", devices.shifted},
	{searchPage, "parts of the search", devices.searchParts},
	{searchPage, "decisions under noise", devices.underNoise},
	{"docs/results/dispatch.md", "networks", devices.networks},
	{"docs/results/robots.md", "multiagent-static by candidates", func(d devices) string { return d.candidates("multiagent-static") }},
	{"docs/results/robots.md", "multiagent-moving by candidates", func(d devices) string { return d.candidates("multiagent-moving") }},
	{"docs/results/solvers.md", "beside other solvers", devices.solvers},
	{"docs/results/compile.md", "rounds of the cart-pole", func(d devices) string { return d.rounds("cartpole") }},
	{"docs/results/maps.md", "what maps reach", devices.compiled},
	{"docs/results/maps.md", "trainings", devices.trainings},
	{"docs/results/maps.md", "maps and solvers in the same episodes", devices.mapsBesideSolvers},
	{"docs/results/maps.md", "every weighting", devices.weightings},
	{"docs/results/maps.md", "methods beside maps", devices.besideCompiled},
	{"docs/results/maps.md", "the latent step", devices.latentSteps},
	{"docs/results/maps.md", "maps beside solvers", devices.mapsBeside},
	{switchedPage, "every method", devices.switchedInFull},
	{switchedPage, "times of a decision", devices.switchedTimes},
	{switchedPage, "switches under noise", devices.switchedNoisy},
	{switchedPage, "solvers of mixed-integer problems", switchedPeers.text},
	{switchedPage, "more periods and inputs", switchedScaling.text},
	{switchedPage, "learning to optimize", learnedToOptimize.text},
	{"docs/results/robots.md", "crowds", swarm.text},
	{"docs/results/robots.md", "crowds of a hundred scenes", (&benchmarkTable{"BenchmarkCrowd", true, swarm.columns}).text},
	{"docs/results/front.md", "fronts", fronts.text},
	{"docs/results/front.md", "goals", goals.text},
	{"docs/results/front.md", "learners of several objectives", morl.text},
	{waysPage, "several ways round", devices.waysRound},
	{"docs/results/conditions.md", "conditions", func(d devices) string { return d.conditions() + d.conditionsBroken() }},
	{"docs/results/torture.md", "torture", devices.torture},
	{"docs/results/serving.md", "beyond capacity", shown(last[peerrecord.Served], served)},
	{"docs/results/scaling.md", "a loop at a rate", shown(last[deadline.Deadlines], deadlines)},
	{"docs/results/monitor.md", "wrong maps", devices.monitor},
	{"docs/reference/environments.md", "steps a second", environments.text},
	{"docs/results/pandapower.md", "beside pandapower", shown(last[peerrecord.BesidePandapower], pandapower)},
	{"docs/results/pandapower.md", "every network of pandapower", listing("networks of pandapower")},
	{"docs/results/networks.md", "every file of MATPOWER", listing("files of MATPOWER")},
	{"docs/results/networks.md", "beside other solvers", shown(timedOf("opf"), foundOptima)},
	{"docs/results/networks.md", "networks of PGLib", shown(last[optima.OptimalFlows], optimalFlows)},
	{"docs/results/networks.md", "networks of PGLib beside IPOPT", shown(timedOf(peerrecord.OpFirst), besideIPOPT)},
	{"docs/results/networks.md", "published times of a GPU", shown(last[optima.OptimalFlows], besidePublished)},
	{"docs/results/networks.md", "published learned optimal power flows", shown(last[optima.OptimalFlows], learnedElsewhere)},
	{"docs/results/networks.md", "where learned ones are measured", shown(last[peerrecord.LearnedFlows], learnedFlows)},
	{"docs/results/networks.md", "times", flows.text},
	{"docs/results/networks.md", "outages beside lightsim2grid", shown(timedOf("outages of branches"), outages)},
	{"docs/results/networks.md", "beside PowSyBl", powsybl.text},
	{"docs/results/export.md", "rounded to float16", rounded.text},
	{"docs/results/export.md", "on a Cortex-M", cortexM.text},
	{"docs/results/export.md", "on a larger processor", devices.exported},
	{"docs/results/export.md", "controllers in C", exportedLoops.text},
	{"docs/results/export.md", "exact controllers in C", exactLoops.text},
	{"docs/results/export.md", "exact controllers on a Cortex-M7", cortexMExact.text},
	{"docs/results/export.md", "controllers on a Cortex-M7", cortexMLoops.text},
	{"docs/results/export.md", "estimating controllers on a Cortex-M7", cortexMEstimates.text},
	{"docs/results/export.md", "memory of estimating controllers", cortexMEstimators.text},
	{"docs/results/solvers.md", "imported models", imported.text},
	{"docs/results/solvers.md", "plants of users", plants.text},
	{"docs/results/real-plant.md", "the uncertain reactor", robust.text},
	{"docs/results/real-plant.md", "decisions by estimates", measured.text},
	{"docs/results/real-plant.md", "gains of the actuators", devices.gains},
	{"docs/results/secure.md", "secure dispatch of 39 buses", secure39.text},
	{"docs/results/secure.md", "secure dispatch of 118 buses", secure118.text},
	{"docs/results/secure.md", "secure dispatch of 300 buses", secure300.text},
	{"docs/results/secure.md", "secure dispatch of 500 buses", secure500.text},
	{"docs/results/secure.md", "secure optimal power flows from nothing and warm", chains.text},
	{"docs/results/secure.md", "large secure optimal power flows", scopf.text},
	{"docs/reference/python.md", "systems in Python", pythonSystems.text},
	{"docs/reference/python.md", "what a call costs", calls.text},
	{"docs/results/dispatch.md", "steering", func(d devices) string { return d.steered("opf30", "opf30-uncertain") }},
	{"docs/results/dispatch.md", "weights", weights.text},
	{"docs/results/dispatch.md", "tightening", tightening.text},
	{"docs/results/dispatch.md", "receding", receding.text},
	{"docs/results/scaling.md", "measured", devices.scaling},
	{"docs/results/scaling.md", "two makes", devices.ceilingFractions},
	{gpuPage, "tests on GPUs", devices.gpuTests},
	{gpuPage, "checks on a GPU", shown(last[peerrecord.WholeJobs], gpuChecks)},
	{gpuPage, "whole jobs on a GPU", shown(last[peerrecord.WholeJobs], wholeJobs)},
	{gpuPage, "operations on GPUs", devices.gpuOperations},
	{gpuPage, "launches on GPUs", devices.gpuLaunches},
	{gpuPage, "beside PyTorch and JAX on GPUs", devices.gpuPeers},
	{paperPage, "figures of the paper", devices.paperRows},
	{paperPage, "limits broken", devices.limitsBroken},
	{paperPage, "roll-outs", devices.rolledOut},
	{paperPage, "differences", devices.differences},
	{paperPage, "ablations", devices.ablations},
	{paperPage, "step sizes", devices.stepSizes},
	{paperPage, "steps", devices.steps},
	{paperPage, "projection", devices.projections},
	{paperPage, "constants", devices.constants},
	{paperPage, "paper's values", devices.replacedConstants},
}

// marks are the lines around a document's part.
func (d *document) marks() docsection.Section {
	return docsection.Section{
		Begin: fmt.Sprintf("<!-- %s: written by make docs from lab/results -->", d.name),
		End:   fmt.Sprintf("<!-- end of %s -->", d.name),
	}
}

// WriteDocuments brings the generated parts of the pages below root up to date with the
// records of all devices and returns the paths of the pages that differed; without write
// they stay as they are. A case that was recorded on several devices is shown as on the
// first. A part without a record is an error.
func WriteDocuments(root string, write bool, all ...*report.Records) (differed []string, err error) {
	texts, err := documentTexts(all)
	if err != nil {
		return nil, err
	}
	return placeTexts(root, write, texts)
}

// documentTexts gives the text of every document's part, in the order of documents.
func documentTexts(all devices) ([]string, error) {
	texts := make([]string, len(documents))
	for i, doc := range documents {
		text := doc.text(all)
		if text == "" {
			return nil, fmt.Errorf("publish: no records for %q in %s", doc.name, doc.page)
		}
		// Lists and tables of Markdown end at an empty line.
		texts[i] = "\n" + linkedFrom(doc.page, text) + "\n"
	}
	return texts, nil
}

// placeTexts puts the texts of the documents' parts into the pages below root.
func placeTexts(root string, write bool, texts []string) (differed []string, err error) {
	for i, doc := range documents {
		path := filepath.Join(root, doc.page)
		differs, err := doc.marks().Replace(path, texts[i], write)
		if err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		if differs && !slices.Contains(differed, path) {
			differed = append(differed, path)
		}
	}
	return differed, nil
}

var fileLink = regexp.MustCompile(`\]\([a-z]+/[^):]*\)`)

// linkedFrom makes links to files, which texts write from the root of the repository, relative to the page.
func linkedFrom(page, text string) string {
	return fileLink.ReplaceAllStringFunc(text, func(link string) string {
		to, err := filepath.Rel(filepath.Dir(page), link[2:len(link)-1])
		if err != nil {
			return link
		}
		return "](" + filepath.ToSlash(to) + ")"
	})
}

// devices are the records of every device.
type devices []*report.Records

// first is the first record of a type that is wanted, of the first device that has one; nil: there is none.
func first[T any](d devices, wanted func(v *T) bool) *T {
	for _, r := range d {
		for _, v := range report.Of[T](r) {
			if wanted(&v) {
				return &v
			}
		}
	}
	return nil
}

// latest is the last of that device.
func latest[T any](d devices, wanted func(v *T) bool) *T {
	for _, r := range d {
		for _, v := range slices.Backward(report.Of[T](r)) {
			if wanted(&v) {
				return &v
			}
		}
	}
	return nil
}

// last is the last record of a type on the first device that has one, nil for none.
func last[T any](d devices) *T { return latest(d, func(*T) bool { return true }) }

// shown is a part of a page that one record makes, noRecord where there is none.
func shown[T any](of func(d devices) *T, text func(r *T) string) func(d devices) string {
	return func(d devices) string {
		if r := of(d); r != nil {
			return text(r)
		}
		return noRecord
	}
}
