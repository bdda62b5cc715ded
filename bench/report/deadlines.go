package report

import (
	"fmt"
	"strings"
)

// deadlines is the last loop at a rate on the first device that has one.
func (d devices) deadlines() string {
	loop := last(d, deadlineLoops.of)
	if loop == nil {
		return noRecord
	}
	lines := loop.Lines()
	text := tables(section{
		provenance: origin(loop.Command, loop.Commit, fmt.Sprintf("%s, %s %s, threads %d", loop.Device, loop.Backend, loop.ISA, loop.Threads), loop.Load),
		rows:       loop.Rows(),
	})
	return text + "\n* " + strings.Join(lines[:len(lines)-1], "\n* ") + "\n" // the last is the load
}
