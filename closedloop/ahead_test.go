package closedloop_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// planner decides by what it has prepared, and cannot once in the episodes that begin far away.
type planner struct {
	decided int
	far     bool
	next    float64
}

func (p *planner) Reset(domain.Episode) error {
	*p = planner{}
	return nil
}

func (p *planner) Decide(s, _ []float64, _ domain.Preference, u []float64) (domain.Decision, error) {
	p.far = p.far || p.decided == 0 && s[0] > 0
	p.decided++
	u[0] = clip(testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1] + p.next)
	p.next = 0
	return domain.Decided(true), nil
}

func (p *planner) Abilities() *domain.ControllerAbilities {
	return &domain.ControllerAbilities{Prepare: p.prepare}
}

func (p *planner) prepare() error {
	if p.far && p.decided == 3 {
		return errors.New("out of plans")
	}
	p.next = 0.01 * float64(p.decided)
	return nil
}

// What is timed is timed by the clock that is given.
func TestTimesAreOfTheGivenClock(t *testing.T) {
	o := options("")
	o.Threads = 1
	ticks := 0
	o.Clock = func() time.Time { ticks++; return time.Unix(int64(ticks), 0) }
	r := evaluate(t, cartCase(t), func() (domain.Controller, error) { return &planner{}, nil }, o)
	if r.Prepare == nil || r.Prepare.P50 != 1e6 || r.Prepare.P99 != 1e6 || r.Latency.P50 != 1e6 || r.Latency.P99 != 1e6 {
		t.Errorf("a second between two readings, and decisions of %+v and %+v between them", r.Latency, r.Prepare)
	}
}

// A method that works between its decisions does so behind each but the last; what that takes is
// in the trace and the result. One that cannot go on has failed the episode, and says so again.
func TestWhatIsDoneBetweenDecisions(t *testing.T) {
	c := cartCase(t)
	o := options(t.TempDir())
	method := func() (domain.Controller, error) { return &planner{}, nil }
	r := evaluate(t, c, method, o)
	if r.Prepare == nil || !(r.Prepare.P50 > 0) || r.Failures == 0 || r.Failures == r.Episodes {
		t.Fatalf("%d of %d failures, prepared in %+v", r.Failures, r.Episodes, r.Prepare)
	}
	if plain := evaluate(t, c, controller(func(int, []float64) (float64, bool, error) { return 0, true, nil }), options("")); plain.Prepare != nil {
		t.Errorf("a method that does nothing there has prepared in %+v", plain.Prepare)
	}
	last := map[int]map[string]any{}
	for _, text := range strings.Split(strings.TrimSpace(string(require.Get(os.ReadFile(o.TracePath))(t))), "\n") {
		var l map[string]any
		require.OK(t, json.Unmarshal([]byte(text), &l))
		if _, decision := l["u"]; !decision {
			continue
		}
		episode := int(l["episode"].(float64))
		if before := last[episode]; before != nil && before["prepare_us"] == nil {
			t.Errorf("episode %d, decision %v: nothing was done behind it", episode, before["t"])
		}
		last[episode] = l
	}
	for episode, l := range last {
		if l["prepare_us"] != nil {
			t.Errorf("episode %d: the last decision is followed by %v µs", episode, l["prepare_us"])
		}
	}
	v := require.Get(closedloop.Verify(t.Context(), o.TracePath, decided(c, method)))(t)
	if !v.OK || !v.Deep {
		t.Errorf("%+v", v.Mismatches)
	}
}
