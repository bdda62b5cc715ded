package cpufallback

import (
	"math"

	"github.com/gpc-engine/gpc/internal/backend"
)

// manifoldWork is the workspace of one micro-batch of manifold training
// (training.ManifoldLoss is the specification). Latents stand in one activations: those of
// the samples, then those of their neighbours, then those of E_o.
type manifoldWork struct {
	x, o         activations // inputs of E_x (samples, then neighbours) and E_o
	z, zbar      activations
	s, u         activations // outputs of D_s (of z^x, then of z^o) and D_u; then their deltas
	oracle       int         // row of z and zbar where E_o's begin
	encode       *branch
	encodeNear   *branch
	encodeOracle *branch
	action       *branch
	state        *branch
	stateOracle  *branch
	uses         [4][]use // per network, in the order of backend.NetworkNames

	// The micro-batch in progress.
	rows, neighbours []int32
	kernel           []float32
	kappa            int
	share            float32 // 1 / rows of the whole batch
	train            bool

	partial  [microRows / trainChunk]backend.ManifoldLosses
	runChunk func(worker, chunk int)
}

func newManifoldWork(t *Trainer) *manifoldWork {
	rows := min(microRows, t.cfg.MaxBatch)
	neighbours := rows * t.cfg.MaxNeighbours
	ex, eo := t.nets[0], t.nets[1]
	du, ds := t.nets[2], t.nets[3]
	nz := ex.out()
	w := &manifoldWork{
		x: newActivations(rows+neighbours, ex.layers[0].in, true), o: newActivations(rows, eo.layers[0].in, true),
		z: newActivations(2*rows+neighbours, nz, true), zbar: newActivations(2*rows+neighbours, nz, false),
		s: newActivations(2*rows, t.cfg.Data.S.Cols, false), u: newActivations(rows, t.cfg.Data.U.Cols, false),
		oracle: rows + neighbours,
	}
	placeAt := func(b activations, first int) place { return place{b, first} }
	w.encode = newBranch(ex, rows, placeAt(w.x, 0), placeAt(w.z, 0), placeAt(w.zbar, 0), place{})
	w.encodeNear = newBranch(ex, neighbours, placeAt(w.x, rows), placeAt(w.z, rows), placeAt(w.zbar, rows), place{})
	w.encodeOracle = newBranch(eo, rows, placeAt(w.o, 0), placeAt(w.z, w.oracle), placeAt(w.zbar, w.oracle), place{})
	w.action = newBranch(du, rows, placeAt(w.z, 0), placeAt(w.u, 0), placeAt(w.u, 0), placeAt(w.zbar, 0))
	w.state = newBranch(ds, rows, placeAt(w.z, 0), placeAt(w.s, 0), placeAt(w.s, 0), placeAt(w.zbar, 0))
	w.state.accumulate = true
	w.stateOracle = newBranch(ds, rows, placeAt(w.z, w.oracle), placeAt(w.s, rows), placeAt(w.s, rows), placeAt(w.zbar, w.oracle))
	w.uses = [4][]use{
		{{branch: w.encode}, {branch: w.encodeNear}}, {{branch: w.encodeOracle}},
		{{branch: w.action}}, {{branch: w.state}, {branch: w.stateOracle}},
	}
	w.runChunk = func(_, chunk int) { w.chunk(t, chunk) }
	w.plan(t)
	return w
}

// plan makes the trainer's next updates those of all four networks.
func (w *manifoldWork) plan(t *Trainer) {
	var uses []*[]use
	for i := range w.uses {
		uses = append(uses, &w.uses[i])
	}
	t.plan(t.nets[:], uses)
}

// pass computes the losses of a batch and, to train, all gradients.
func (w *manifoldWork) pass(t *Trainer, rows, neighbours []int32, kernel []float32, train bool) backend.ManifoldLosses {
	var sum backend.ManifoldLosses
	w.share, w.train, w.kappa = 1/float32(len(rows)), train, len(neighbours)/len(rows)
	for start := 0; start < len(rows); start += microRows {
		n := min(microRows, len(rows)-start)
		w.rows = rows[start : start+n]
		w.neighbours = neighbours[start*w.kappa : (start+n)*w.kappa]
		if kernel != nil {
			w.kernel = kernel[start*w.kappa : (start+n)*w.kappa]
		}
		chunks := chunksOf(n)
		t.backend.pool.Run(chunks, w.runChunk)
		for _, p := range w.partial[:chunks] {
			sum.Add(p, 1)
		}
		if train {
			for i := range w.uses {
				for j := range w.uses[i] {
					w.uses[i][j].n = n
				}
			}
			w.uses[0][1].n = n * w.kappa
			t.first = start == 0
			t.backend.pool.Run(len(t.gradients), t.runGradient)
		}
	}
	var mean backend.ManifoldLosses
	mean.Add(sum, 1/float64(len(rows)))
	mean.Total = t.cfg.Manifold.Total(mean)
	return mean
}

// chunk runs one chunk of the micro-batch from inputs to the deltas of every
// layer.
func (w *manifoldWork) chunk(t *Trainer, chunk int) {
	d, m, k := &t.cfg.Data, &t.cfg.Manifold, t.kernel
	r, n := chunkSpan(len(w.rows), chunk)
	for i := r; i < r+n; i++ {
		copy(w.x.tail(i, 0), d.X.Row(int(w.rows[i])))
		copy(w.o.tail(i, 0), d.O.Row(int(w.rows[i])))
	}
	w.encode.forward(k, r, n)
	w.encodeOracle.forward(k, r, n)
	w.action.forward(k, r, n)
	w.state.forward(k, r, n)
	w.stateOracle.forward(k, r, n)
	firstNear, nearRows := r*w.kappa, n*w.kappa
	if nearRows > 0 {
		for j := firstNear; j < firstNear+nearRows; j++ {
			copy(w.x.tail(w.encodeNear.in.first+j, 0), d.X.Row(int(w.neighbours[j])))
		}
		w.encodeNear.forward(k, firstNear, nearRows)
	}

	var sum backend.ManifoldLosses
	for i := r; i < r+n; i++ {
		row := int(w.rows[i])
		sum.ReconX += residual(w.s.row(i, d.S.Cols), d.S.Row(row), 2*m.ReconX*w.share)
		sum.ReconO += residual(w.s.row(w.stateOracle.out.first+i, d.S.Cols), d.S.Row(row), 2*m.ReconO*w.share)
		sum.Action += residual(w.u.row(i, d.U.Cols), d.U.Row(row), 2*m.Action*w.share)
	}
	if w.train {
		// D_u writes the gradient of z^x, D_s adds to it, the terms below too.
		w.action.backward(k, r, n)
		w.state.backward(k, r, n)
		w.stateOracle.backward(k, r, n)
	}
	nz := t.nets[0].out()
	for i := r; i < r+n; i++ {
		zx, bx := w.z.row(i, nz), w.zbar.row(i, nz)
		zo, bo := w.z.row(w.oracle+i, nz), w.zbar.row(w.oracle+i, nz)
		sum.Consistency += consistency(zx, zo, bx, bo, m.ConsistencyBeta, m.Consistency*w.share)
		for j := i * w.kappa; j < (i+1)*w.kappa; j++ {
			row := w.encodeNear.out.first + j
			zj, bj := w.z.row(row, nz), w.zbar.row(row, nz)
			if m.Isometry {
				target := m.IsometryAlpha * distance(d.U.Row(int(w.rows[i])), d.U.Row(int(w.neighbours[j])))
				sum.Locality += isometry(zx, zj, bx, bj, target, m.Locality*w.share)
			} else {
				sum.Locality += locality(zx, zj, bx, bj, w.kernel[j], m.Locality*w.share)
			}
		}
	}
	w.partial[chunk] = sum
	if w.train {
		w.encode.backward(k, r, n)
		w.encodeOracle.backward(k, r, n)
		if nearRows > 0 {
			w.encodeNear.backward(k, firstNear, nearRows)
		}
	}
}

// residual replaces y by scale·(y − target), the delta of the outputs, and
// returns ‖y − target‖².
func residual(y, target []float32, scale float32) float64 {
	sum := float32(0)
	for i, v := range target {
		e := y[i] - v
		sum += e * e
		y[i] = scale * e
	}
	return float64(sum)
}

// cosineFloor is ref.CosineFloor: below it a code has no direction.
const cosineFloor = 1e-6

// consistency returns 1 − cos(zx, zo) + β‖zx − zo‖² and adds weight times its
// gradient to bx and bo. 1 − cos is taken as ½‖ẑx − ẑo‖², which does not cancel
// when the codes nearly agree, as they do in the end.
func consistency(zx, zo, bx, bo []float32, beta, weight float32) float64 {
	var xx, oo, dd float32
	for i, v := range zx {
		e := v - zo[i]
		xx += v * v
		oo += zo[i] * zo[i]
		dd += e * e
	}
	value := 1.0
	nx, no := float32(math.Sqrt(float64(xx))), float32(math.Sqrt(float64(oo)))
	if nx >= cosineFloor && no >= cosineFloor {
		gap := float32(0)
		for i, v := range zx {
			e := v/nx - zo[i]/no
			gap += e * e
		}
		gap /= 2
		value = float64(gap)
		// −(ẑo − cos ẑx) = (ẑx − ẑo) − gap·ẑx with cos = 1 − gap.
		for i, v := range zx {
			ux, uo := v/nx, zo[i]/no
			bx[i] += weight * ((ux - uo) - gap*ux) / nx
			bo[i] += weight * ((uo - ux) - gap*uo) / no
		}
	}
	f := 2 * beta * weight
	for i, v := range zx {
		e := f * (v - zo[i])
		bx[i] += e
		bo[i] -= e
	}
	return value + float64(beta)*float64(dd)
}

// locality returns kernel‖zi − zj‖², adds weight times its gradient to bi and
// writes that of the neighbour to bj.
func locality(zi, zj, bi, bj []float32, kernel, weight float32) float64 {
	sum := float32(0)
	f := 2 * kernel * weight
	for k, v := range zi {
		e := v - zj[k]
		sum += e * e
		bi[k] += f * e
		bj[k] = -f * e
	}
	return float64(kernel) * float64(sum)
}

// isometry is the compact form | ‖zi − zj‖ − target |, as locality.
func isometry(zi, zj, bi, bj []float32, target, weight float32) float64 {
	d := distance(zi, zj)
	gap := d - target
	f := float32(0)
	switch {
	case d > 0 && gap > 0:
		f = weight / d
	case d > 0 && gap < 0:
		f = -weight / d
	}
	for k, v := range zi {
		e := f * (v - zj[k])
		bi[k] += e
		bj[k] = -e
	}
	return math.Abs(float64(gap))
}

func distance(a, b []float32) float32 {
	sum := float32(0)
	for i, v := range a {
		e := v - b[i]
		sum += e * e
	}
	return float32(math.Sqrt(float64(sum)))
}
