package rollout

// Reference evaluates plans in float64 by the twins of the kernels, derivatives
// included: what every Evaluator is held to. Plans and derivatives are
// [block][robot][step][a, ω][lane]; the problem's own numbers are float32 as for the
// others. A problem or plans of the wrong sizes are a bug of the caller and panic.
func Reference(j *Joint, plans []float64, candidates int) (results []Scores[float64], out []float64) {
	if err := checkBatch(j, nil, len(plans), candidates, make([]Result, Blocks(candidates)), nil); err != nil {
		panic(err)
	}
	if j.Lateral != nil {
		panic("rollout: the reference is of unicycles")
	}
	n, steps := len(j.Robots), j.Steps
	plan, path, grad := PlanSize(steps), PathSize(steps), 2*steps*Lanes
	robots := make([]Motion[float64], n)
	goals, discs := make([][]float64, n), make([][]float64, n)
	for i := range robots {
		copy(robots[i].words(), widen(j.Robots[i].words()))
		goals[i], discs[i] = widen(j.Goal[i]), widen(j.Discs[i])
	}
	var penalty Penalty[float64]
	copy(penalty.words(), widen(j.Penalty.words()))
	results, out = make([]Scores[float64], Blocks(candidates)), make([]float64, Blocks(candidates)*n*plan)
	paths, grads := make([]float64, n*path), make([]float64, n*grad)
	for b := range results {
		r := &results[b]
		r.reset(steps)
		clear(grads)
		block := plans[b*n*plan : (b+1)*n*plan]
		for i := range n {
			rolled, g := paths[i*path:(i+1)*path], grads[i*grad:(i+1)*grad]
			trackTwin(block[i*plan:(i+1)*plan], rolled, goals[i], steps, &robots[i], &r.Cost)
			discsTwin(rolled, discs[i], j.Count, steps, &penalty, &r.Cost, &r.Kinds[min(i, OtherDiscs)], &r.Safe, g)
			for k := range i {
				pairTwin(rolled, paths[k*path:(k+1)*path], float64(j.Pair[i][k]), steps, &penalty, &r.Cost, &r.Kinds[Pairs], &r.Safe, g, grads[k*grad:(k+1)*grad])
			}
		}
		if j.Ending != nil {
			last, lastGrad := paths[(steps-1)*PathFields*Lanes:], grads[2*(steps-1)*Lanes:]
			for l := range Lanes {
				cost, gx, gy := j.Ending.At(last[X*Lanes+l], last[Y*Lanes+l])
				r.Cost[l] += cost
				lastGrad[l] += gx
				lastGrad[Lanes+l] += gy
			}
		}
		r.settle()
		for i := range n {
			backTwin(block[i*plan:(i+1)*plan], paths[i*path:(i+1)*path], grads[i*grad:(i+1)*grad], goals[i], steps, &robots[i], out[(b*n+i)*plan:(b*n+i+1)*plan])
		}
	}
	return results, out
}

func widen(v []float32) []float64 {
	w := make([]float64, len(v))
	for i, x := range v {
		w[i] = float64(x)
	}
	return w
}
