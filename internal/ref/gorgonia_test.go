package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	G "gorgonia.org/gorgonia"
	gtensor "gorgonia.org/tensor"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/internal/ref"
	"github.com/gpc-engine/gpc/internal/testing/training"
)

// tape is one Gorgonia expression graph over batches [B, features].
type tape struct {
	g *G.ExprGraph
	t *testing.T
}

// mustNode unwraps a node; an expression that cannot be built is a bug of the test.
func mustNode(n *G.Node, err error) *G.Node {
	if err != nil {
		panic(err)
	}
	return n
}

func (p tape) matrix(name string, rows, cols int, data []float64) *G.Node {
	return G.NewMatrix(p.g, G.Float64, G.WithShape(rows, cols), G.WithName(name),
		G.WithValue(gtensor.New(gtensor.WithShape(rows, cols), gtensor.WithBacking(append([]float64(nil), data...)))))
}

func (p tape) rows(name string, rows [][]float64) *G.Node {
	var data []float64
	for _, r := range rows {
		data = append(data, r...)
	}
	return p.matrix(name, len(rows), len(rows[0]), data)
}

// network holds the parameter nodes of an MLP.
type network struct{ w, b []*G.Node }

func (p tape) network(name string, m *ref.MLP) network {
	var n network
	for l, layer := range m.Layers {
		suffix := string(rune('0' + l))
		n.w = append(n.w, p.matrix(name+"W"+suffix, layer.Out, layer.In, layer.W))
		n.b = append(n.b, p.matrix(name+"b"+suffix, 1, layer.Out, layer.B))
	}
	return n
}

func (n network) forward(x *G.Node) *G.Node {
	for l := range n.w {
		x = mustNode(G.Mul(x, mustNode(G.Transpose(n.w[l], 1, 0))))
		if x.Shape()[0] == 1 {
			x = mustNode(G.Add(x, n.b[l]))
		} else {
			x = mustNode(G.BroadcastAdd(x, n.b[l], nil, []byte{0}))
		}
		if l < len(n.w)-1 {
			x = mustNode(G.Rectify(x))
		}
	}
	return x
}

func (n network) parameters() []*G.Node { return append(append([]*G.Node(nil), n.w...), n.b...) }

func sumSquares(d *G.Node) *G.Node { return mustNode(G.Sum(mustNode(G.Square(d)))) }

func times64(a float64, n *G.Node) *G.Node { return mustNode(G.Mul(n, G.NewConstant(a))) }

// run evaluates cost and its gradients with respect to the nodes.
func (p tape) run(cost *G.Node, nodes ...*G.Node) (value float64, grads [][]float64) {
	p.t.Helper()
	if _, err := G.Grad(cost, nodes...); err != nil {
		p.t.Fatal(err)
	}
	vm := G.NewTapeMachine(p.g, G.BindDualValues(nodes...))
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		p.t.Fatal(err)
	}
	for _, n := range nodes {
		grad, err := n.Grad()
		if err != nil {
			p.t.Fatal(err)
		}
		grads = append(grads, append([]float64(nil), grad.Data().([]float64)...))
	}
	return cost.Value().Data().(float64), grads
}

func agree(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, Gorgonia %d", what, len(got), len(want))
	}
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= 1e-11*(1+math.Abs(want[i]))) {
			t.Errorf("%s: entry %d is %v, Gorgonia %v", what, i, got[i], want[i])
		}
	}
}

func TestNetworkAgreesWithGorgonia(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	net := randomNet(rng, 4, 9, 8, 3)
	x, ybar := normals(rng, 5, 4), normals(rng, 5, 3)
	p := tape{G.NewGraph(), t}
	input, params := p.rows("x", x), p.network("net", net)
	output := params.forward(input)
	cost := mustNode(G.Sum(mustNode(G.HadamardProd(output, p.rows("ybar", ybar)))))
	var read G.Value
	G.Read(output, &read)
	_, grads := p.run(cost, append([]*G.Node{input}, params.parameters()...)...)

	var y, zbar []float64
	grad := training.ZeroLike(net)
	for i := range x {
		pass := net.Run(x[i])
		y = append(y, pass.Output()...)
		zbar = append(zbar, net.Backward(pass, ybar[i], grad)...)
	}
	agree(t, "forward", y, read.Data().([]float64))
	agree(t, "VJP", zbar, grads[0])
	for l, layer := range grad.Layers {
		agree(t, "weight gradient", layer.W, grads[1+l])
		agree(t, "bias gradient", layer.B, grads[1+len(grad.Layers)+l])
	}
}

func TestManifoldLossAgreesWithGorgonia(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	const rows, kappa = 4, 3
	nets, batch := testNetworks(rng), testManifoldBatch(rng, rows, kappa)
	for _, isometry := range []bool{false, true} {
		w := backend.ManifoldLoss{ReconX: 1, Action: 0.5, ReconO: 0.25, Consistency: 0.75, ConsistencyBeta: 0.5, Locality: 0.375, Isometry: isometry, IsometryAlpha: 0.625}
		p := tape{G.NewGraph(), t}
		ex, eo := p.network("ex", nets.EncoderX), p.network("eo", nets.EncoderO)
		du, ds := p.network("du", nets.DecoderU), p.network("ds", nets.DecoderS)
		zx, zo := ex.forward(p.rows("x", batch.X)), eo.forward(p.rows("o", batch.O))
		s, u := p.rows("s", batch.S), p.rows("u", batch.U)

		// The neighbours' encoder pass, and each sample's own code repeated κ times.
		var repeated [][]float64
		for b := range rows {
			for range kappa {
				repeated = append(repeated, batch.X[b])
			}
		}
		d := mustNode(G.Sub(ex.forward(p.rows("xr", repeated)), ex.forward(p.rows("xn", batch.NeighbourX))))
		d2 := mustNode(G.Sum(mustNode(G.Square(d)), 1))
		constants := make([]float64, rows*kappa)
		var local *G.Node
		if isometry {
			for i := range constants {
				constants[i] = float64(w.IsometryAlpha) * distance(batch.U[i/kappa], batch.NeighbourU[i])
			}
		} else {
			copy(constants, batch.Kernel)
		}
		weights := G.NewVector(p.g, G.Float64, G.WithShape(rows*kappa), G.WithName("w"), G.WithValue(gtensor.New(gtensor.WithBacking(constants))))
		if isometry {
			local = mustNode(G.Sum(mustNode(G.Abs(mustNode(G.Sub(mustNode(G.Sqrt(d2)), weights))))))
		} else {
			local = mustNode(G.Sum(mustNode(G.HadamardProd(d2, weights))))
		}
		inner := mustNode(G.Sum(mustNode(G.HadamardProd(zx, zo)), 1))
		norms := mustNode(G.Sqrt(mustNode(G.HadamardProd(mustNode(G.Sum(mustNode(G.Square(zx)), 1)), mustNode(G.Sum(mustNode(G.Square(zo)), 1))))))
		cosine := mustNode(G.Sum(mustNode(G.HadamardDiv(inner, norms))))

		cost := times64(float64(w.ReconX)/rows, sumSquares(mustNode(G.Sub(ds.forward(zx), s))))
		for _, term := range []*G.Node{
			times64(float64(w.Action)/rows, sumSquares(mustNode(G.Sub(du.forward(zx), u)))),
			times64(float64(w.ReconO)/rows, sumSquares(mustNode(G.Sub(ds.forward(zo), s)))),
			times64(-float64(w.Consistency)/rows, cosine),
			times64(float64(w.Consistency)*float64(w.ConsistencyBeta)/rows, sumSquares(mustNode(G.Sub(zx, zo)))),
			times64(float64(w.Locality)/rows, local),
		} {
			cost = mustNode(G.Add(cost, term))
		}
		var nodes []*G.Node
		for _, n := range []network{ex, eo, du, ds} {
			nodes = append(nodes, n.parameters()...)
		}
		value, grads := p.run(cost, nodes...)

		loss, grad := training.ManifoldLoss(nets, batch, w)
		// The graph's cosine term has no constant: 1 − cos is ω_1 more.
		agree(t, "loss", []float64{loss.Total}, []float64{value + float64(w.Consistency)})
		i := 0
		for n, net := range grad.All() {
			layers := len(net.Layers)
			for l, layer := range net.Layers {
				agree(t, backend.NetworkNames[n]+" weights", layer.W, grads[i+l])
				agree(t, backend.NetworkNames[n]+" biases", layer.B, grads[i+layers+l])
			}
			i += 2 * layers
		}
	}
}

// quadratic is a problem whose objectives are the squared distances of s and u
// to the context's entries, so that a graph of it is short.
type quadratic struct {
	domain.Problem
	spec domain.Spec
}

func newQuadratic(ns, nu, plan int) *quadratic {
	return &quadratic{spec: domain.Spec{
		Measured: make([]domain.Variable, ns), Action: make([]domain.Variable, nu), Context: make([]domain.Variable, 2),
		Objectives: make([]domain.Variable, 2), Plan: plan,
	}}
}

func (q *quadratic) Spec() *domain.Spec { return &q.spec }

func (q *quadratic) Base(s, c, plan []float64) {
	for i := range plan {
		plan[i] = 0.25 * c[1]
	}
}

func (q *quadratic) Objectives(s, u, c, J []float64) {
	clear(J)
	for _, v := range s {
		J[0] += (v - c[0]) * (v - c[0])
	}
	for _, v := range u {
		J[1] += (v - c[1]) * (v - c[1])
	}
}

func (q *quadratic) Gradient(s, u, c, sigma, gs, gu []float64) {
	for i, v := range s {
		gs[i] = 2 * sigma[0] * (v - c[0])
	}
	for i, v := range u {
		gu[i] = 2 * sigma[1] * (v - c[1])
	}
}

func testEnergy(rng *rand.Rand, plan int) ref.Energy {
	scale := func(n int) ref.Normalizer {
		s := ref.Normalizer{Mean: normal(rng, n), Scale: make([]float64, n)}
		for i := range s.Scale {
			s.Scale[i] = 0.5 + rng.Float64()
		}
		return s
	}
	return ref.Energy{
		DecoderS: randomNet(rng, 3, 8, 7, 4), DecoderU: randomNet(rng, 3, 9, 2*plan),
		NormS: scale(4), NormU: scale(2 * plan), Problem: newQuadratic(4, 2, plan), Epsilon: 0.25,
	}
}

func TestFieldAgreesWithGorgonia(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 1))
	e := testEnergy(rng, 1)
	z, x, c, w := normal(rng, 3), normal(rng, 4), normal(rng, 2), []float64{0.75, 0.25}
	p := tape{G.NewGraph(), t}
	node := p.rows("z", [][]float64{z})
	decodedS := p.network("ds", e.DecoderS).forward(node)
	decodedU := p.network("du", e.DecoderU).forward(node)
	fill := func(name string, n int, v float64) *G.Node {
		row := make([]float64, n)
		for i := range row {
			row[i] = v
		}
		return p.matrix(name, 1, n, row)
	}
	physical := func(name string, n *G.Node, norm ref.Normalizer) *G.Node {
		scaled := mustNode(G.HadamardProd(n, p.matrix(name+"scale", 1, len(norm.Scale), norm.Scale)))
		return mustNode(G.Add(scaled, p.matrix(name+"mean", 1, len(norm.Mean), norm.Mean)))
	}
	s := physical("s", decodedS, e.NormS)
	u := mustNode(G.Add(physical("u", decodedU, e.NormU), fill("base", 2, 0.25*c[1])))
	cost := times64(1/e.Epsilon, sumSquares(mustNode(G.Sub(p.rows("xhat", [][]float64{e.NormS.Apply(x)}), decodedS))))
	cost = mustNode(G.Add(cost, times64(w[0], sumSquares(mustNode(G.Sub(s, fill("c0", 4, c[0])))))))
	cost = mustNode(G.Add(cost, times64(w[1], sumSquares(mustNode(G.Sub(u, fill("c1", 2, c[1])))))))
	value, grads := p.run(cost, node)

	f, v := e.Field(z, x, c, w)
	for i := range f {
		f[i] = -f[i]
	}
	agree(t, "energy", []float64{v}, []float64{value})
	agree(t, "gradient", f, grads[0])
}

func TestFieldMatchesDifferencesOfTheEnergy(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 1))
	for _, plan := range []int{1, 3} {
		e := testEnergy(rng, plan)
		for _, problem := range []domain.Problem{e.Problem, nil} {
			e.Problem = problem
			z, x, c, w := normal(rng, 3), normal(rng, 4), normal(rng, 2), []float64{0.5, 1.5}
			f, _ := e.Field(z, x, c, w)
			for i := range f {
				f[i] = -f[i]
			}
			checkGradient(t, "−F", z, f, func() float64 {
				_, v := e.Field(z, x, c, w)
				return v
			})
		}
	}
}
