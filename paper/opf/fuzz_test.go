package opf

import (
	"encoding/json"
	"testing"

	"github.com/gpc-engine/gpc/domain"
)

// FuzzReplay: whatever header and scene a trace holds, a replay refuses it or runs
// without a panic, and every outcome it gives is finite.
func FuzzReplay(f *testing.F) {
	plant := Thirty().Plant.(*Plant)
	params, err := json.Marshal(plant.Params())
	if err != nil {
		f.Fatal(err)
	}
	ep, err := plant.Episode(1, 1, domain.EpisodeOptions{Preference: domain.Preference{W: []float64{0.2, 0.3, 0.5}}})
	if err != nil {
		f.Fatal(err)
	}
	scene, err := json.Marshal(ep.Scene())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(params, scene)
	f.Add([]byte(`{"dt_s":5}`), []byte(`{"pd_mw":[[1]],"qd_mvar":[]}`))
	f.Add(params, []byte(`{"pd_mw":null,"pg0_pu":[1e300],"branch_factor":[-1]}`))
	f.Fuzz(func(t *testing.T, params, scene []byte) {
		ep, err := plant.Replay(params, scene)
		if err != nil {
			return
		}
		y := plant.system
		s, c, u := make([]float64, 2*y.layout.buses), make([]float64, y.layout.context), make([]float64, 2*y.layout.gens)
		for range 5 {
			ep.Observe(s, c)
			y.Base(s, c, u)
			y.Project(s, c, u)
			out, err := ep.Apply(u)
			if err != nil {
				return
			}
			for _, v := range out.Named {
				if v-v != 0 {
					t.Fatalf("margin %v", v)
				}
			}
			if out.Cost-out.Cost != 0 {
				t.Fatalf("cost %v", out.Cost)
			}
		}
	})
}

// FuzzEmbedded: whatever params a trace embeds, they are refused or make a case, and nothing
// that they or the name say is opened.
func FuzzEmbedded(f *testing.F) {
	params, err := json.Marshal(Thirty().Plant.Params())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("opf:case30.m", params)
	f.Add("opf:/dev/zero", params)
	f.Add("opf:net.m", []byte(`{"case_m":"function mpc = net","ramp_pu":[-1]}`))
	f.Add("opf:net.m", []byte(`null`))
	f.Fuzz(func(t *testing.T, name string, params []byte) {
		c, ok, err := Embedded(name, params)
		if ok && err == nil && c.Problem.Spec().Name != name {
			t.Fatalf("%q made a case called %q", name, c.Problem.Spec().Name)
		}
	})
}
