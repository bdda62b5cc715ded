package train

import (
	"math"
	"slices"
	"testing"

	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/internal/testing/require"
	"github.com/gpc-engine/gpc/tensor"
)

// Risk weights have mean 1, grow as the smallest margin shrinks, whatever its unit, within
// bounds, and leave out what is not finite.
func TestRiskWeightsGrowAsMarginsShrink(t *testing.T) {
	// Two margins a latent, the second in a smaller unit.
	margins := []float64{1, 200, 0.5, 100, 0, 100, -9, 100, 2, 20, 0, 0, 0.5, 80}
	finite := []bool{true, true, true, true, true, false, true}
	weight := make([]float32, len(finite))
	riskWeights(weight, margins, finite)
	sum := float32(0)
	for _, w := range weight {
		sum += w
	}
	if math.Abs(float64(sum)-6) > 1e-5 {
		t.Errorf("weights %v of six latents sum to %v", weight, sum)
	}
	if weight[5] != 0 {
		t.Errorf("a latent that is not finite weighs %v", weight[5])
	}
	if !(weight[0] < weight[1] && weight[1] < weight[2] && weight[2] < weight[3] && weight[4] > weight[1]) {
		t.Errorf("weights %v, want them to grow from wide to broken margins", weight)
	}
	if r := float64(weight[3] / weight[0]); r > math.Exp(2*riskReach)*1.001 {
		t.Errorf("weights %v differ by %v", weight, r)
	}
	again := make([]float32, len(finite))
	for i := range margins {
		if i%2 == 1 {
			margins[i] *= 1000
		}
	}
	riskWeights(again, margins, finite)
	for i := range again {
		if math.Abs(float64(again[i]-weight[i])) > 1e-6 {
			t.Errorf("in another unit the weights are %v, want %v", again, weight)
		}
	}
}

// A map refined along chains decodes better where the navigator goes than before.
func TestChainRefinesTheDecoder(t *testing.T) {
	opt := toyOptions(cpu(t), 60)
	opt.Chain = true
	res := trained(t, opt)
	var phases []*EpochRecord
	for i := range res.History {
		if res.History[i].Phase == Rollout {
			phases = append(phases, &res.History[i])
		}
	}
	first, last := phases[0], phases[len(phases)-1]
	if l := last.RolloutValidation; l == nil || !(l.Act > 0 && l.Roll > 0) || l.ActNext != 0 || l.LieAct != 0 {
		t.Fatalf("losses of the last epoch: %+v", l)
	}
	if !(last.Rollout.Roll < first.Rollout.Roll) {
		t.Errorf("the loss along chains went from %v to %v", first.Rollout.Roll, last.Rollout.Roll)
	}
}

// longToy is the toy with plans of two actions and a margin of the state.
type longToy struct{ toy }

func (t longToy) Base(s, c, plan []float64) {
	clear(plan)
	t.toy.Base(s, c, plan)
}
func (t longToy) Margins(s, c, u, m []float64) { m[0] = 1 - math.Abs(s[0]) }

// Along the chain of a plan its h-th action is that decoded at the h-th latent, in the
// state that those before it led to: the margins there decide the weights.
func TestChainOfAPlanFollowsTheDynamics(t *testing.T) {
	problem := longToy{newToy()}
	problem.spec.Plan = 2
	samples := problem.samples(12, 1)
	for i := range samples {
		x := &samples[i]
		x.U, x.Target = append(x.U, 0.5, -x.S[1]), append(x.Target, 0.5, -x.S[1])
	}
	opt := toyOptions(cpu(t), 0)
	opt.Problem, opt.Chain = problem, true
	opt.Data = Data{Columns: require.Get(dataset.ColumnsOf(dataset.LayoutOf(problem.spec), samples))(t)}
	opt = require.Get(opt.resolve())(t)
	r := &run{opt: opt, set: require.Get(newTrainingSet(problem.spec, &opt.Data, opt))(t)}
	require.OK(t, r.prepare())
	nets := require.Get(r.trainer.Networks())(t)
	r.manifoldDecoder = nets.DecoderU
	chain := require.Get(r.makeChain())(t)
	rows := opt.Data.S.Rows
	if chain.Z.Rows != 2*rows {
		t.Fatalf("%d latents of %d rows", chain.Z.Rows, rows)
	}
	decoded := require.Get(forward(opt.Backend, nets.DecoderU, chain.Z, ascending(2*rows)))(t)
	p := newPlanner(problem)
	margins, finite := make([]float64, 2*rows), slices.Repeat([]bool{true}, 2*rows)
	for i := range rows {
		plan := p.decode(r.set.NormU, decoded.Row(2*i), opt.Data.S.Row(i), opt.Data.C.Row(i))
		s, c, next, ctx := make([]float64, 2), make([]float64, 2), make([]float64, 2), make([]float64, 2)
		tensor.Widen(s, opt.Data.S.Row(i))
		problem.Step(s, c, plan[:2], next, ctx)
		margins[2*i], margins[2*i+1] = 1-math.Abs(s[0]), 1-math.Abs(next[0])
	}
	want := make([]float32, 2*rows)
	riskWeights(want, margins, finite)
	for i, w := range want {
		if math.Abs(float64(chain.Weight[i]-w)) > 1e-4 {
			t.Fatalf("latent %d weighs %v, want %v", i, chain.Weight[i], w)
		}
	}
	require.OK(t, r.trainer.PrepareRollout())
	require.OK(t, r.setChain())
	require.Get(r.trainer.RolloutStep(r.set.Train[:8], 1e-3))(t)
}

// The numerator of eq. traj_weight is ‖Δu*‖ + ‖Δp‖, of the action and of the context alike.
func TestRiskIsOfActionAndContext(t *testing.T) {
	opt := toyOptions(cpu(t), 20)
	d := &opt.Data
	for i := range d.Rows() {
		d.C.Row(i)[0] += 0.3 * float32(d.Step[i]*d.Step[i])
	}
	opt = require.Get(opt.resolve())(t)
	s := require.Get(newTrainingSet(opt.Problem.Spec(), d, opt))(t)
	compared, actions := 0, statistics(d.U)
	for i, j := range s.Training.Next {
		if j < 0 {
			continue
		}
		du, dp := 0.0, 0.0
		for k := range d.U.Cols {
			du = math.Hypot(du, float64(d.U.Row(int(j))[k]-d.U.Row(i)[k])/float64(actions.Scale[k]))
		}
		for k := range d.C.Cols {
			dp = math.Hypot(dp, float64(d.C.Row(int(j))[k]-d.C.Row(i)[k])/float64(s.NormX.Scale[d.S.Cols+k]))
		}
		if risk := float64(s.Training.RiskWeight[i]); math.Abs(risk-du-dp) > 1e-4*(1+du+dp) {
			t.Fatalf("row %d: the risk is %v, want %v of the action and %v of the context", i, risk, du, dp)
		}
		if dp > 0.01 && du > 0.01 {
			compared++
		}
	}
	if compared == 0 {
		t.Error("nothing moves")
	}
}

// The rollout phase weighs every term of eq. du_obj unless it is told otherwise, with the
// navigator's own Lie step.
func TestDefaultRolloutLossHasEveryTerm(t *testing.T) {
	opt, err := toyOptions(cpu(t), 20).resolve()
	if err != nil {
		t.Fatal(err)
	}
	w, nav := opt.rollout, opt.Problem.Spec().Navigation
	for name, v := range map[string]float32{"λ_δ": w.Delta, "λ_roll": w.Roll, "λ_flow": w.Flow, "λ_Lie": w.Lie, "α": w.RollFraction, "α_f": w.FlowFraction} {
		if !(v > 0) {
			t.Errorf("%s is %v", name, v)
		}
	}
	if w.LieGain != float32(nav.LieGain) || w.LieScale != float32(nav.LieScale) || w.LieDt != float32(nav.LatentStep) || w.TopK != nav.TopK || w.MetricLambda != float32(nav.MetricLambda) {
		t.Errorf("the Lie step is %+v, the navigator's %+v", w, nav)
	}
}
