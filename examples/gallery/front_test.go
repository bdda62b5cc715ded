package gallery

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/engine"
	"github.com/gpc-engine/gpc/examples/gallery/models"
	"github.com/gpc-engine/gpc/internal/testing/require"
)

// Where no weights are given, the points of a front lie closer together than those of an even lattice of as many.
func TestAFrontIsDenserWhereItBends(t *testing.T) {
	const points = 120
	catalogue := gpc.Catalogue{Cases: require.Get(Cases())(t), Models: models.Bundled}
	c := require.Get(catalogue.Find("cartpole"))(t)
	e := require.Get(gpc.OpenEngine(engine.Options{Backend: "cpu", Threads: 1}))(t)
	defer e.Close()
	f := require.Get(c.Fronts(e, require.Get(c.Setup("direct", ""))(t), points))(t)
	for episode := range 4 {
		obs := require.Get(c.Observe(9001, episode, domain.EpisodeOptions{Preference: domain.Preference{Adaptive: true}}))(t)
		widest := func(opt batchnav.FrontOptions) (widest float64) {
			front := require.Get(f.Front(t.Context(), obs, opt))(t)
			if len(front.Points) != points {
				t.Errorf("%d points, want %d", len(front.Points), points)
			}
			kept := slices.DeleteFunc(front.Points, func(p batchnav.FrontPoint) bool { return p.Dominated || !p.Feasible })
			slices.SortFunc(kept, func(a, b batchnav.FrontPoint) int { return cmp.Compare(a.W[0], b.W[0]) })
			for i, p := range kept[1:] {
				for j, v := range p.J {
					widest = max(widest, math.Abs(v-kept[i].J[j])/(front.Nadir[j]-front.Ideal[j]))
				}
			}
			return widest
		}
		even, own := widest(batchnav.FrontOptions{Weights: dataset.Lattice(2, points)}), widest(batchnav.FrontOptions{Points: points})
		if !(own < 0.6*even) {
			t.Errorf("episode %d: the widest gap is %.3f of the front, of an even lattice %.3f", episode, own, even)
		}
	}
}
