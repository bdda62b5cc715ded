package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/internal/machine"
)

// computingUsage is of the flag --computing.
const computingUsage = "declared `time` of a decision, such as 120ms, or its median and 99th percentile, such as 3.8ms,780ms, drawn by the seed: a decision that takes longer than its period is late, and the plan before is executed"

// computingOf reads times of decisions, P50 or P50,P99; nil for "".
func computingOf(text string) (*closedloop.Computing, error) {
	if text == "" {
		return nil, nil
	}
	p50, p99, pair := strings.Cut(text, ",")
	if !pair {
		p99 = p50
	}
	median, err := time.ParseDuration(p50)
	tail, wrong := time.ParseDuration(p99)
	if err != nil || wrong != nil {
		return nil, BadInputf("--computing %s: want a time, such as 120ms, or two, such as 3.8ms,780ms", text)
	}
	c := &closedloop.Computing{P50: machine.Microseconds(median), P99: machine.Microseconds(tail)}
	if err := c.Validate(); err != nil {
		return nil, BadInputf("--computing %s: %w", text, err)
	}
	return c, nil
}

// computingOfMethods reads the times of --computing of a pairing, each for all methods or, NAME=TIMES, for one.
func computingOfMethods(texts []string) (all *closedloop.Computing, byMethod map[string]*closedloop.Computing, err error) {
	byMethod = map[string]*closedloop.Computing{}
	for _, text := range texts {
		name, times, one := strings.Cut(text, "=")
		if !one {
			name, times = "", text
		}
		c, err := computingOf(times)
		switch {
		case err != nil:
			return nil, nil, err
		case c == nil || one && (name == "" || byMethod[name] != nil) || !one && all != nil:
			return nil, nil, BadInputf("--computing %q: want TIMES or NAME=TIMES, each name once", text)
		case one:
			byMethod[name] = c
		default:
			all = c
		}
	}
	return all, byMethod, nil
}

// renderLate says how many decisions came behind their period by the declared times.
func renderLate(w io.Writer, method string, decisions, late int, c *closedloop.Computing) {
	if c == nil {
		return
	}
	times := fmt.Sprintf("%g ms", c.P50/1e3)
	if c.P99 > c.P50 {
		times = fmt.Sprintf("%g ms, at the 99th percentile %g ms", c.P50/1e3, c.P99/1e3)
	}
	fmt.Fprintf(w, "%s: late: %d of %d decisions, which take %s as declared; the plan before was executed there, or the conservative action\n", method, late, decisions, times)
}
