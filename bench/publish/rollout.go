package publish

import (
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
)

// rolledOut is a table of the figures of the roll-outs that the paper draws, below the trace of the
// standing obstacles.
func (d devices) rolledOut() string {
	s := report.Section{Rows: [][]string{{"roll-out", "joint trajectory", "distance to the goal", "scene-safety margin"}}}
	picture := func(file, what string) string { return fmt.Sprintf("![%s](docs/results/figures/%s.svg)", what, file) }
	add := func(title, file string) {
		s.Rows = append(s.Rows, []string{title, picture(file+"-trajectory", "trajectories"), picture(file+"-distances", "distances"), picture(file+"-margins", "margins")})
	}
	for _, r := range d[:min(1, len(d))] { // figures of other devices are not in that folder
		for _, name := range []string{"multiagent-static", "multiagent-moving"} {
			if t := r.ShownTrace(name); t != nil && name == "multiagent-static" {
				add(fmt.Sprintf("%s, episode %d", strings.TrimPrefix(name, "multiagent-"), t.Episodes[0].Episode), name)
			}
			for _, o := range r.RolloutsOf(name) {
				add(fmt.Sprintf("%s, episode %d", strings.TrimPrefix(name, "multiagent-"), o.Number), fmt.Sprintf("%s-episode-%d", name, o.Number))
			}
		}
	}
	return report.Tables(s)
}
