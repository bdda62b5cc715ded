package kernels

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/crossentropy"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/kernels/shim"
	"github.com/gpc-engine/gpc/paper/opf"
)

// searchOptions are the rounds of so many candidates of a map's search.
func searchOptions(cfg *backend.RolloutsConfig, round int) crossentropy.Options {
	unit := make([]float64, cfg.Width())
	for j := range unit {
		unit[j] = 0.1 + 0.01*float64(j)
	}
	return crossentropy.Options{Unit: unit, Round: round, Payload: cfg.Step.DecoderU.Out(), Tolerance: 1e-6, Seed: 0x123456789abcdef}
}

// TestSearchIsItsRounds holds a search that is whole on the device to the same rounds asked for one by one, drawn and ranked by the
// host: the same elites, offsets and spread to the bit, over three decisions of one memory, of full rounds and of one that is not, and
// to lanes in another order.
func TestSearchIsItsRounds(t *testing.T) {
	library, b := metered(t, Options{})
	dispatch := dispatchStates(t, opf.Thirty(), 1)
	for _, c := range []struct {
		name              string
		cfg               backend.RolloutsConfig
		candidates, steps int
		s, c              []float64
	}{
		{"roll-outs in one launch", roundConfig(t, 16), 40, 6, nil, nil},
		{"roll-outs step by step", backend.RolloutsConfig{MapConfig: mapOf(t, bundledModel(t, "opf30", 20), opf.Thirty().Problem, 16), Steps: 2}, 24, 2, dispatch.s[0], dispatch.c[0]},
	} {
		c.cfg.Search = searchOptions(&c.cfg, c.cfg.Step.MaxBatch)
		whole, parts := require.Get(b.NewRollouts(c.cfg))(t), require.Get(b.NewRollouts(c.cfg))(t)
		ours, theirs := crossentropy.New(c.cfg.Search), crossentropy.New(c.cfg.Search)
		memory, twin := ours.NewMemory(), theirs.NewMemory()
		for decision := range 4 {
			shim.SetOrder(library, uint64(decision))
			in, out := drawnRound(&c.cfg, c.cfg.Search.Round, c.steps)
			if c.s != nil {
				in.S, in.C = c.s, c.c
			}
			ours.Begin(memory, c.steps)
			theirs.Begin(twin, c.steps)
			// What a decision begins with is what the last one has left.
			if a, b := ours.Decision(), theirs.Decision(); a.Given.Rows != b.Given.Rows || !slices.Equal(a.Given.Data[:a.Given.Rows*a.Given.Cols], b.Given.Data[:b.Given.Rows*b.Given.Cols]) || !slices.Equal(a.Mean, b.Mean) || !slices.Equal(a.Spread, b.Spread) {
				t.Fatalf("%s: the elites or the spread that decision %d begins with are others", c.name, decision)
			}
			for _, s := range []*crossentropy.Sampler{ours, theirs} {
				for j, o := 0, s.Offer(); j < len(o); j++ {
					o[j] = 0.05
				}
			}
			var got backend.SearchOutput
			require.OK(t, whole.Search(backend.SearchInput{S: in.S, C: in.C, Preference: in.Preference, Z: in.Z, Begin: ours.Decision(), Candidates: c.candidates, Elites: true}, &got))
			ours.Settle(got.Outcome)
			for done, rounds, gained := 0, 0, true; gained && done < c.candidates; rounds++ {
				n := min(c.cfg.Search.Round, c.candidates-done)
				in.Offsets = theirs.Ask(n)
				part := backend.RolloutsOutput{Cost: out.Cost[:n], Margin: out.Margin[:n], First: out.First.Slice(0, n)}
				require.OK(t, parts.Score(in, part))
				gained = theirs.Tell(part.Cost, part.Margin, part.First)
				done += n
				if best := twin.Best(); rounds >= len(got.Rounds) || got.Rounds[rounds].Candidates != n || best != nil && (got.Rounds[rounds].Cost != best.Cost || got.Rounds[rounds].Margin != best.Margin) {
					t.Fatalf("%s, decision %d: rounds %+v, round %d is of %d with the best at %+v", c.name, decision, got.Rounds, rounds, n, best)
				}
			}
			if best := memory.Best(); best == nil || best.Number != twin.Best().Number || !slices.Equal(best.Payload, twin.Best().Payload) || whole.Executes() != (len(got.Executed) == c.steps*c.cfg.Step.DecoderU.Out()) {
				t.Errorf("%s, decision %d: best %v, it executes %d numbers", c.name, decision, best, len(got.Executed))
			}
		}
	}
}

// TestSearchIsBounded ends a search by its number of rounds and by what no longer gains, and leaves to the host what is too large.
func TestSearchIsBounded(t *testing.T) {
	_, b := metered(t, Options{})
	cfg := roundConfig(t, 16)
	cfg.Search = searchOptions(&cfg, 16)
	r := require.Get(b.NewRollouts(cfg))(t)
	s := crossentropy.New(cfg.Search)
	m := s.NewMemory()
	in, _ := drawnRound(&cfg, 16, 3)
	ask := func(change func(*backend.SearchInput)) (out backend.SearchOutput, err error) {
		s.Begin(m, 3)
		search := backend.SearchInput{S: in.S, C: in.C, Preference: in.Preference, Z: in.Z, Begin: s.Decision(), Candidates: 64}
		change(&search)
		err = r.Search(search, &out)
		return out, err
	}
	if out, err := ask(func(in *backend.SearchInput) { in.Rounds = 2 }); err != nil || len(out.Rounds) != 2 || len(out.Outcome.Number) != 1 {
		t.Errorf("two rounds asked for: %+v, %v", out, err)
	}
	if out, err := ask(func(in *backend.SearchInput) { in.S = []float64{math.NaN(), 0, 0, 0} }); err != nil || len(out.Rounds) != 1 || len(out.Outcome.Number) != 0 || out.Executed != nil {
		t.Errorf("a state that is no number: %+v, %v", out, err)
	}
	if _, err := ask(func(in *backend.SearchInput) { in.Candidates = 1 << 24 }); !errors.Is(err, backend.ErrNoSearch) {
		t.Errorf("more than there is memory for: %v", err)
	}
}

// TestPolicyParts holds one part's rounding, of 11 bits, and two parts' to the reference's networks: what is scored is what was
// executed in both, so that the costs differ as the actions do.
func TestPolicyParts(t *testing.T) {
	var apart [2]float64
	exact := require.Get(onAny(t).NewRollouts(roundConfig(t, 24)))(t)
	for i, o := range []Options{{TF32: true}, {}} {
		_, b := metered(t, o)
		cfg := roundConfig(t, 24)
		r := require.Get(b.NewRollouts(cfg))(t)
		in, out := drawnRound(&cfg, 24, 5)
		require.OK(t, r.Score(in, out))
		_, want := drawnRound(&cfg, 24, 5)
		require.OK(t, exact.Score(in, want))
		for k, v := range out.First.Data {
			apart[i] = max(apart[i], math.Abs(float64(v-want.First.Data[k])))
		}
		if !slices.ContainsFunc(out.Margin, func(m float64) bool { return !math.IsInf(m, -1) }) {
			t.Error("every roll-out is lost")
		}
	}
	if !(apart[0] > 1e-6 && apart[0] < 1e-2) || apart[1] != 0 {
		t.Errorf("the first actions are %g apart in one part and %g in two", apart[0], apart[1])
	}
}
