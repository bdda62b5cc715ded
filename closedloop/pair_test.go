package closedloop_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/internal/testing/testdomain"
)

// gained is the feedback of the cart's map times a gain.
func gained(gain float64) func() (domain.Controller, error) {
	return func() (domain.Controller, error) {
		return &feedback{decide: func(_ int, s []float64) (float64, bool, error) {
			return clip(gain * (testdomain.Feedback[0]*s[0] + testdomain.Feedback[1]*s[1])), true, nil
		}}, nil
	}
}

// A pairing says of each method what its own evaluation does, and the difference is over
// the episodes that it shares with the first.
func TestPairIsTheEvaluationsSideBySide(t *testing.T) {
	c := cartCase(t)
	opt := closedloop.Options{Seed: 5, Episodes: 8, Preference: domain.Preference{W: []float64{0.5, 0.5}}}
	p := require.Get(closedloop.Pair(context.Background(), c, []closedloop.Contender{
		{Method: "one", New: gained(1)}, {Method: "weak", Episodes: 3, New: gained(0.8)}, {Method: "again", New: gained(1)},
	}, opt))(t)
	regrets := func(gain float64, episodes int) (all []float64, r *closedloop.Result) {
		own := opt
		own.Episodes = episodes
		own.Visit = func(e *closedloop.EpisodeRecord) {
			if e.End.Safe {
				all = append(all, 100*(float64(e.End.Cost)/float64(e.End.OracleCost)-1))
			}
		}
		return all, require.Get(closedloop.Evaluate(context.Background(), c, gained(gain), own))(t)
	}
	_, one := regrets(1, 8)
	weak, few := regrets(0.8, 3)
	strong, _ := regrets(1, 3)
	for i, want := range []*closedloop.Result{one, few, one} {
		got := p.Pairs[i]
		if got.Episodes != want.Episodes || float64(got.Safe) != float64(want.Safe)*float64(want.Episodes) || got.RegretN != want.RegretN || math.Abs(float64(got.RegretPct-want.RegretPct)) > 1e-12 {
			t.Errorf("%s: %+v, its evaluation says %+v", got.Method, got, want)
		}
	}
	mean := 0.0
	for i := range weak {
		mean += (weak[i] - strong[i]) / float64(len(weak))
	}
	// Student's t of two degrees of freedom at 0.975 is 4.303.
	if d := p.Pairs[1]; d.Compared != 3 || math.Abs(float64(d.DifferencePct)-mean) > 1e-9 || mean == 0 || math.Abs(float64(d.RegretCI95/few.RegretSEM)-4.3027) > 1e-3 {
		t.Errorf("the difference of the weak is %+v, want %g over 3", d, mean)
	}
	if d := p.Pairs[1]; d.Difference.N != 3 || math.Abs(float64(d.Difference.Mean)-mean) > 1e-9 || d.Difference.Median > d.Difference.Max {
		t.Errorf("the differences of the weak are distributed as %+v", d.Difference)
	}
	if d := p.Pairs[2]; d.Compared != p.Pairs[0].RegretN || d.DifferencePct != 0 || d.DifferenceCI95 != 0 {
		t.Errorf("the same method differs: %+v", d)
	}
	above := 0.0 // the best that is known of an episode: of the optimum and what any method costs
	for i := range weak {
		above += 100 * ((100+weak[i])/(100+min(0, weak[i], strong[i])) - 1) / float64(len(weak))
	}
	if a := p.Pairs[1].AboveBest; a.N != 3 || math.Abs(float64(a.Mean)-above) > 1e-9 || above < float64(p.Pairs[1].Regret.Mean) {
		t.Errorf("above the best that is known: %+v, want %g in the mean", a, above)
	}
	if _, err := closedloop.Pair(context.Background(), c, []closedloop.Contender{{Method: "one", Episodes: 9, New: gained(1)}}, opt); err == nil {
		t.Error("nine of eight episodes are accepted")
	}
	sharded := opt
	sharded.ShardCount = 2
	if _, err := closedloop.Pair(context.Background(), c, []closedloop.Contender{{Method: "one", New: gained(1)}}, sharded); err == nil {
		t.Error("a shard of episodes is compared as if it were all")
	}
}

// counting is a plant that counts how often the optimum of an episode is asked for.
type counting struct {
	domain.Plant
	times map[int]int
}

func (p counting) Episode(seed uint64, index int, opt domain.EpisodeOptions) (domain.Episode, error) {
	ep, err := p.Plant.Episode(seed, index, opt)
	return askedEpisode{ep, p.times, index}, err
}

type askedEpisode struct {
	domain.Episode
	times map[int]int
	index int
}

func (e askedEpisode) Oracle() (float64, [][]float64, error) {
	e.times[e.index]++
	return e.Episode.Oracle()
}

// The optimum of an episode is found once for all methods of a pairing, whichever of them comes
// to the episode first.
func TestAPairingFindsAnOptimumOnce(t *testing.T) {
	c, times := *cartCase(t), map[int]int{}
	c.Plant = counting{c.Plant, times}
	opt := closedloop.Options{Seed: 5, Episodes: 4, Preference: domain.Preference{W: []float64{0.5, 0.5}}}
	p := require.Get(closedloop.Pair(context.Background(), &c, []closedloop.Contender{{Method: "few", Episodes: 2, New: gained(1)}, {Method: "all", New: gained(1)}, {Method: "weak", New: gained(0.8)}}, opt))(t)
	for i := range opt.Episodes {
		if times[i] != 1 {
			t.Errorf("the optimum of episode %d was asked for %d times", i, times[i])
		}
	}
	if own := require.Get(closedloop.Evaluate(context.Background(), &c, gained(0.8), opt))(t); own.RegretPct != p.Pairs[2].RegretPct || times[0] != 2 {
		t.Errorf("the pairing has %v, the evaluation %v after %d", p.Pairs[2].RegretPct, own.RegretPct, times[0])
	}
}

// Progress of a pairing counts the episodes of all its methods, from none on.
func TestProgressOfAPairingIsOfAllMethods(t *testing.T) {
	var said [][2]int
	opt := closedloop.Options{Seed: 5, Episodes: 2, Preference: domain.Preference{W: []float64{0.5, 0.5}}, Progress: func(done, total int) { said = append(said, [2]int{done, total}) }}
	require.Get(closedloop.Pair(context.Background(), cartCase(t), []closedloop.Contender{{Method: "few", Episodes: 1, New: gained(1)}, {Method: "all", New: gained(1)}}, opt))(t)
	if want := [][2]int{{0, 3}, {1, 3}, {1, 3}, {2, 3}, {3, 3}}; !slices.Equal(said, want) {
		t.Errorf("progress %v, want %v", said, want)
	}
}

// A bias is of one size, has a sign for each value and episode, is not the plant's, and
// leaves a trace that verifies.
func TestBiasIsOfTheMeasurementAlone(t *testing.T) {
	c, path := cartCase(t), filepath.Join(t.TempDir(), "trace.jsonl")
	opt := closedloop.Options{Seed: 5, Episodes: 6, Bias: 0.01, TracePath: path, Preference: domain.Preference{W: []float64{0.5, 0.5}}}
	r := require.Get(closedloop.Evaluate(context.Background(), c, gained(1), opt))(t)
	if r.Bias != 0.01 {
		t.Errorf("the result's bias is %v", r.Bias)
	}
	signs := map[[2]bool]bool{}
	require.Get(closedloop.ReadEpisodes(t.Context(), path, func(e *closedloop.EpisodeRecord) error {
		var first [2]bool
		for i, l := range e.Lines[1:] {
			for j := range 2 {
				d := l.X[j] - e.Lines[i].S[j]
				if math.Abs(math.Abs(d)-0.01) > 1e-12 {
					t.Fatalf("episode %d, decision %d: value %d is off by %g", e.Episode, i+1, j, d)
				}
				if i == 0 {
					first[j] = d > 0
				} else if first[j] != (d > 0) {
					t.Fatalf("episode %d: the sign of value %d changes", e.Episode, j)
				}
			}
		}
		signs[first] = true
		return nil
	}))(t)
	if len(signs) < 2 {
		t.Error("all episodes have the same signs")
	}
	if v := require.Get(closedloop.Verify(t.Context(), path, lookup(c)))(t); !v.OK {
		t.Errorf("the trace does not verify: %v", v.Mismatches[0])
	}
}

// A pairing has of each method what it costs beside the first's, in %, and leaves out its times. What cannot be run is said.
func TestAPairingIsInPercentOfTheFirst(t *testing.T) {
	c := cartCase(t)
	costs := [2]map[int]float64{{}, {}}
	opt := closedloop.Options{Seed: 5, Episodes: 5, Preference: domain.Preference{W: []float64{0.5, 0.5}}}
	for i, gain := range []float64{1, 0.7} {
		own := opt
		own.Visit = func(e *closedloop.EpisodeRecord) { costs[i][e.Episode] = float64(e.End.Cost) }
		require.Get(closedloop.Evaluate(t.Context(), c, gained(gain), own))(t)
	}
	opt.Clock = func() func() time.Time {
		n := 0
		return func() time.Time { n++; return time.Unix(int64(n), 0) }
	}()
	p := require.Get(closedloop.Pair(t.Context(), c, []closedloop.Contender{{Method: "one", New: gained(1)}, {Method: "weak", New: gained(0.7)}}, opt))(t)
	want := 0.0
	for e, cost := range costs[1] {
		want += 100 * (cost/costs[0][e] - 1) / 5
	}
	if d := p.Pairs[1].Cost; d.N != 5 || math.Abs(float64(d.Mean)-want) > 1e-9 || math.Abs(want) < 1e-3 || p.Pairs[0].Cost.Mean != 0 || p.Pairs[1].LatencyMean != 1e6 {
		t.Errorf("%+v, want %g in the mean, %v µs", d, want, p.Pairs[1].LatencyMean)
	}
	if p.Untimed(); p.Load != nil || !math.IsNaN(float64(p.Pairs[1].Latency.P50)) || !math.IsNaN(float64(p.Pairs[0].LatencyMean)) || p.Pairs[0].Prepare != nil {
		t.Errorf("without times: %+v", p.Pairs[0])
	}
	broken := errors.New("no map")
	for want, f := range map[string]func(o *closedloop.Options) []closedloop.Contender{
		"no map": func(*closedloop.Options) []closedloop.Contender {
			return []closedloop.Contender{{New: func() (domain.Controller, error) { return nil, broken }}}
		},
		"comparison of 0 methods": func(*closedloop.Options) []closedloop.Contender { return nil },
		`with trace "t"`: func(o *closedloop.Options) []closedloop.Contender {
			o.TracePath = "t"
			return []closedloop.Contender{{New: gained(1)}}
		},
		"-1 episodes for method": func(*closedloop.Options) []closedloop.Contender {
			return []closedloop.Contender{{Episodes: -1, New: gained(1)}}
		},
		"6 episodes for method": func(*closedloop.Options) []closedloop.Contender {
			return []closedloop.Contender{{Episodes: 6, New: gained(1)}}
		},
		"median computing time of": func(*closedloop.Options) []closedloop.Contender {
			return []closedloop.Contender{{New: gained(1), Computing: &closedloop.Computing{}}}
		},
	} {
		o := opt
		if got, err := closedloop.Pair(t.Context(), c, f(&o), o); err == nil || got != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// Of given scenes each method has the first ones, and the record says what lies beyond for the most of them.
	given := opt
	given.Episodes, given.Scenes = 2, &closedloop.Scenes{SHA256: "sum", Files: []closedloop.NamedScene{
		{Name: "a", SceneFile: closedloop.SceneFile{Scene: []byte(`{"s":[0.5,0],"c":[0]}`)}}, {Name: "b", SceneFile: closedloop.SceneFile{Scene: []byte(`{"s":[-0.5,0],"c":[0]}`)}},
	}}
	p = require.Get(closedloop.Pair(t.Context(), c, []closedloop.Contender{{Method: "few", Episodes: 1, New: gained(1)}, {Method: "all", New: gained(1)}, {Method: "few again", Episodes: 1, New: gained(1)}}, given))(t)
	if p.ScenesSHA256 != "sum" || len(p.Excursions) != 2 || p.Pairs[0].Episodes != 1 || p.Pairs[1].Episodes != 2 {
		t.Errorf("%q, %v", p.ScenesSHA256, p.Excursions)
	}
	// Without an optimum there is no regret, and the cost beside the first is there all the same.
	free := *c
	plant := *c.Plant.(*closedloop.Simulation)
	plant.Oracle, free.Plant = nil, &plant
	p = require.Get(closedloop.Pair(t.Context(), &free, []closedloop.Contender{{Method: "one", New: gained(1)}, {Method: "weak", New: gained(0.7)}}, opt))(t)
	if d := p.Pairs[1]; d.RegretN != 0 || d.Compared != 0 || d.Cost.N != 5 || d.AboveBest.N != 5 || !math.IsNaN(float64(d.RegretWorst)) || !math.IsNaN(float64(d.RegretCI95)) {
		t.Errorf("without an optimum: %+v", d)
	}
}
