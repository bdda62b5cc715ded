package kernels

import (
	"slices"

	"github.com/gpc-engine/gpc/kernels/driver"
)

// planKey tells plans apart: everything that changes addresses, sizes or the
// constants of a launch.
type planKey struct {
	rollout     bool
	rows, kappa int
	train       bool
}

// trainPlan is one kind of call as launches and as two captured graphs. The first
// ends with the losses on their way to the host, the second does what is left of
// the update, while the host already prepares the next call.
type trainPlan struct {
	launches []launch
	early    int    // launches of the first graph
	losses   int    // sums to read back
	upload   int    // words of the batch
	memory   memory // entries of the launches, graphs
	ran      bool
	first    *driver.Graph
	rest     *driver.Graph // nil: nothing is left
	whole    *driver.Graph // both, without the copies
}

// launch is one kernel with its arguments.
type launch struct {
	kernel              string
	grid, block, shared int
	arguments           []driver.Argument
	entries             int  // place of its entries in the table, the first argument; −1: none
	side                bool // beside the others that stand behind it in a graph
	work                work
}

// planner collects launches and their entries.
type planner struct {
	t        *Trainer
	plan     trainPlan
	table    []byte
	partial  address // sums of losses of the micro-batch
	partials int     // so many are placed
	side     bool    // what is planned now may run beside what follows
}

func (p *planner) launch(kernel string, grid, block, shared int, arguments ...driver.Argument) {
	p.plan.launches = append(p.plan.launches, launch{
		kernel: kernel, grid: grid, block: block, shared: shared, arguments: arguments, entries: -1, side: p.side, work: work{cycles: shortChain},
	})
}

// launchWith launches with entries whose address becomes the first argument.
func (p *planner) launchWith(entries []byte, kernel string, grid, block, shared int, arguments ...driver.Argument) {
	p.launch(kernel, grid, block, shared, append([]driver.Argument{{}}, arguments...)...)
	p.plan.launches[len(p.plan.launches)-1].entries = p.keep(entries)
}

// keep puts entries in the table, on 16 bytes.
func (p *planner) keep(entries []byte) int {
	for len(p.table)%16 != 0 {
		p.table = append(p.table, 0)
	}
	offset := len(p.table)
	p.table = append(p.table, entries...)
	return offset
}

// products launches a group; an empty one is nothing.
func (p *planner) products(kernel string, group []trainProduct) {
	if len(group) == 0 {
		return
	}
	grid := 0
	var sum work
	for i := range group {
		g := &group[i]
		g.first = int32(grid)
		grid += g.blocks()
		w := g.work(p.t.tf32)
		sum.fma, sum.requests = sum.fma+w.fma, sum.requests+w.requests
		sum.bytes, sum.tensor = sum.bytes+w.bytes, w.tensor
	}
	if p.t.tf32 {
		kernel += "_tf32"
	}
	p.launchWith(bytesOf(group), kernel, grid, productThreads, 0, driver.Int32(len(group)))
	p.plan.launches[len(p.plan.launches)-1].work = sum
}

// target is what rows of a decoder's output are compared with.
type target struct {
	first, rows int
	data        dataMatrix
	index       address // [rows] rows of data
	scale       float32
	sums        span // of its squared errors, set by forward
}

// pass is one use of a network on the rows of a micro-batch.
type pass struct {
	net        int
	rows       int
	input      address
	ldInput    int
	gather     address // rows of input; 0: as they lie
	output     address
	space      activationSpace
	delta      address // of the outputs: what the loss wrote
	inputDelta address // 0: not wanted
	targets    []target
}

func (t *Trainer) weights(l trainLayer) address { return floats(t.parameters, l.offset) }
func (t *Trainer) biases(l trainLayer) address  { return floats(t.parameters, l.offset+l.out*l.ld) }

// input is what layer i of the pass reads: address, row step and gather.
func (p *pass) inputOf(i int, net trainNet) (address, int, address) {
	if i == 0 {
		return p.input, p.ldInput, p.gather
	}
	return p.space.hidden[i-1], quads(net[i].in), 0
}

// deltaOf is the delta of layer i's outputs.
func (p *pass) deltaOf(i int, net trainNet) address {
	if i == len(net)-1 {
		return p.delta
	}
	return p.space.delta[i]
}

// forward launches the layers of all passes, one launch per depth.
func (p *planner) forward(passes ...*pass) {
	for i := range p.depth(passes) {
		var group []trainProduct
		var compared []*target // with what each is
		for _, s := range passes {
			net := p.t.layout.nets[s.net]
			if i >= len(net) {
				continue
			}
			l := net[i]
			product := trainProduct{b: p.t.weights(l), bias: p.t.biases(l), m: int32(s.rows), n: int32(l.out), k: int32(l.in), ldb: int32(l.ld), ldc: int32(quads(l.out))}
			var lda int
			product.a, lda, product.gather = s.inputOf(i, net)
			product.lda = int32(lda)
			if i < len(net)-1 {
				product.c, product.relu = s.space.hidden[i], 1
			} else {
				product.c = s.output
			}
			if i < len(net)-1 || len(s.targets) == 0 {
				group, compared = append(group, product), append(compared, nil)
				continue
			}
			for w := range s.targets {
				w := &s.targets[w]
				part := product
				part.a, part.c, part.m = floats(product.a, w.first*lda), floats(product.c, w.first*quads(l.out)), int32(w.rows)
				part.target, part.ldtarget, part.targetRows = w.data.base, int32(w.data.ld), w.index
				part.scale = w.scale
				group, compared = append(group, part), append(compared, w)
			}
		}
		tiledOverSamples(group, p.t.backend.device.Multiprocessors, p.t.backend.options.TF32)
		for i, w := range compared {
			if w != nil {
				w.sums = p.sumsOf(group[i].blocks())
				group[i].partial = floats(p.partial, w.sums.offset)
			}
		}
		p.products("gpc_train_forward", group)
	}
}

// backward launches the deltas of all passes, the outputs' first.
func (p *planner) backward(passes ...*pass) {
	for step := range p.depth(passes) {
		var group []trainProduct
		for _, s := range passes {
			net := p.t.layout.nets[s.net]
			i := len(net) - 1 - step
			if i < 0 || i == 0 && s.inputDelta == 0 {
				continue
			}
			l := net[i]
			product := trainProduct{
				a: s.deltaOf(i, net), lda: int32(quads(l.out)), b: p.t.weights(l), ldb: int32(l.ld),
				m: int32(s.rows), n: int32(l.in), k: int32(l.out), c: s.inputDelta, ldc: int32(quads(l.in)),
			}
			if i > 0 {
				product.c, product.mask, product.ldmask = s.space.delta[i-1], s.space.hidden[i-1], int32(quads(l.in))
			}
			group = append(group, product)
		}
		tiledOverSamples(group, p.t.backend.device.Multiprocessors, p.t.backend.options.TF32)
		p.products("gpc_train_backward", group)
	}
}

func (p *planner) depth(passes []*pass) int {
	most := 0
	for _, s := range passes {
		most = max(most, len(p.t.layout.nets[s.net]))
	}
	return most
}

// layerParts is how the gradient of each layer of the passes is split, and where
// its partial sums lie.
type layerParts struct {
	layer   trainLayer
	splits  int
	partial address
}

func (p *planner) parts(passes ...*pass) []layerParts {
	var list []layerParts
	for _, s := range passes {
		for _, l := range p.t.layout.nets[s.net] {
			list = append(list, layerParts{l, l.splits(s.rows), floats(p.t.gradient, l.gradient)})
		}
	}
	return list
}

// gradients launches the weight gradients of all passes. parts is that of the
// first micro-batch, whose splits all others use; they add to it.
func (p *planner) gradients(parts []layerParts, accumulate bool, passes ...*pass) {
	var group []trainProduct
	for _, s := range passes {
		net := p.t.layout.nets[s.net]
		for i, l := range net {
			part := parts[0]
			parts = parts[1:]
			product := trainProduct{
				a: s.deltaOf(i, net), lda: int32(quads(l.out)),
				c: part.partial, ldc: int32(l.ld), column: floats(part.partial, l.out*l.ld), splitStep: int64(l.size),
				m: int32(l.out), n: int32(l.in), k: int32(s.rows),
			}
			var ldb int
			product.b, ldb, product.gather = s.inputOf(i, net)
			product.ldb = int32(ldb)
			product.accumulate = flag(accumulate)
			product.tiled(l.shapeOver(s.rows), part.splits)
			group = append(group, product)
		}
	}
	// Long blocks first: the short ones then fill the gaps at the end.
	slices.SortStableFunc(group, func(a, b trainProduct) int { return int(b.k/b.splits) - int(a.k/a.splits) })
	p.products("gpc_train_gradient", group)
}

// update launches Adam and the spectral bound on the layers of parts.
func (p *planner) update(parts []layerParts) {
	t := p.t
	var entries []layerEntry
	grid, widest, largest := 0, 0, 0
	for _, part := range parts {
		l := part.layer
		entries = append(entries, layerEntry{
			w: t.weights(l), m: floats(t.first, l.offset), v: floats(t.second, l.offset), partial: part.partial, power: floats(t.power, l.power),
			splits: int32(part.splits), size: int32(l.size), first: int32(grid), in: int32(l.in), out: int32(l.out), ld: int32(l.ld),
		})
		grid += ceil(l.size, adamBlock)
		widest, largest = max(widest, l.ld), max(largest, l.size)
	}
	a := t.cfg.Adam
	p.launchWith(bytesOf(entries), "gpc_train_adam", grid, adamBlock/4, 0, driver.Int32(len(entries)),
		driver.Address(t.batch), driver.Float32(a.Beta1), driver.Float32(a.Beta2), driver.Float32(a.Epsilon))
	traffic := 0.0 // weights and two moments in and out, and the parts of the gradient
	for _, part := range parts {
		traffic += 4 * float64(part.layer.size) * float64(6+part.splits)
	}
	p.plan.launches[len(p.plan.launches)-1].work = work{bytes: traffic}
	if t.cfg.SpectralBound > 0 {
		block := 256
		if largest > 1<<13 {
			block = 1024
		}
		p.launchWith(bytesOf(entries), "gpc_train_spectral", len(entries), block, 4*widest, driver.Float32(t.cfg.SpectralBound))
	}
}

// span is where the partial sums of one loss lie.
type span struct{ offset, count int }

// sumsOf places count partial sums.
func (p *planner) sumsOf(count int) span {
	s := span{p.partials, count}
	p.partials += count
	return s
}

// sums launches the losses' sums.
func (p *planner) sums(accumulate bool, spans ...span) {
	var list []int32
	for _, s := range spans {
		list = append(list, int32(s.offset), int32(s.count))
	}
	p.launchWith(bytesOf(list), "gpc_train_losses", len(spans), 128, 0, driver.Address(p.partial), driver.Address(p.t.losses), driver.Int32(flag(accumulate)))
	p.plan.losses = len(spans)
}
