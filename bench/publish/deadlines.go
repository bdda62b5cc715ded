package publish

import (
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/bench/report"
)

// deadlines is the last loop at a rate on the first device that has one.
func (d devices) deadlines() string {
	loop := last(d, deadlineLoops.of)
	if loop == nil {
		return noRecord
	}
	lines := loop.Lines()
	text := report.Tables(report.Section{
		Provenance: report.Origin(loop.Command, loop.Commit, fmt.Sprintf("%s, %s %s, threads %d", loop.Device, loop.Backend, loop.ISA, loop.Threads), loop.Load),
		Rows:       loop.Rows(),
	})
	return text + "\n* " + strings.Join(lines[:len(lines)-1], "\n* ") + "\n" // the last is the load
}
