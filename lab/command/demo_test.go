package command

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/cli"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
)

// A line of the summary has room in a terminal, on a slow machine too.
func TestLinesOfTheSummaryHaveRoom(t *testing.T) {
	var screen strings.Builder
	d := &demo{App: &cli.App{}, screen: &screen}
	search := &batchnav.Refinement{Candidates: 4096, Sources: []batchnav.SourceStatistics{{Source: domain.SourceLocalized, BestCost: 1}, {Source: domain.SourceLocalized + 1, BestCost: 0.9999904}}}
	search.Latency.Total = 34_900_000
	r := &closedloop.Result{Episodes: 20, Regret: closedloop.RegretStatistics{Mean: -10.1}}
	r.Latency.Running = &closedloop.Quantiles{P50: 16_680}
	d.summarise("integrator-nonconvex", r, search)
	if line := strings.TrimSuffix(screen.String(), "\n"); utf8.RuneCountInString(line) > 80 || !strings.Contains(line, "34900 ms, saves 0.00096 %") {
		t.Errorf("%d columns: %q", utf8.RuneCountInString(line), line)
	}
}
