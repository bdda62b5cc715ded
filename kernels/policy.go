package kernels

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/x448/float16"

	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/model"
)

// Whole roll-outs of the base policy in one launch: include/policy.cuh.

const (
	policyLayers = 32  // gpc_policy_layers
	policyBlock  = 256 // threads
	fragment     = 16  // bytes of a lane's part of a tile
	halfMost     = 65504
	// Local memory goes through the first-level cache, which is what shared memory leaves, at least so much. Some lanes of a row work, whose
	// words lie in one sector.
	leastCache  = 28 << 10
	sectorLanes = 8
)

// policyShapes are the roll-outs that a block may have.
var policyShapes = [2]int{8, 16}

// The kinds of a layer, by what it leads to.
const (
	hiddenLayer int32 = iota
	latentLayer
	planLayer
)

// The structures of include/policy.cuh, field for field.

type policyLayer struct {
	tiles, bias                                         driver.Pointer
	depth, units, resident, at, across, _, kind, biases int32
}

type devicePolicy struct {
	layer                              [policyLayers]policyLayer
	layers, decoder, stride, fragments int32
}

type policyJob struct {
	net, s, c, latent, offsets, plan, mean, scale, lo, hi, cost, margin, kept, first, best, executed, done driver.Pointer
	rows, steps, n, project, last, _                                                                       int32
}

// policy is D_u of E_x as the roll-outs of a problem take it, for so many rows a block; without a name there is none, and
// roll-outs are launches of their own for every step.
type policy struct {
	name  string
	shape [2]policyShape
}

// policyShape is the policy for blocks of so many rows.
type policyShape struct {
	device       driver.Pointer
	rows, shared int
	kernel       string
}

// policyParts is how many halves a number of the policy is the sum of.
func (b *Backend) policyParts() int {
	if b.options.TF32 {
		return 1
	}
	return 2
}

// packPolicy lays the networks out, where the problem's functions have such roll-outs and the weights are
// within half precision's range.
func packPolicy(q *queue, m *deviceMap, encoder, decoder *model.MLP) policy {
	f := &m.flow
	layers := len(encoder.Layers) + len(decoder.Layers)
	if q.err != nil || !f.code.policy || layers > policyLayers {
		return policy{}
	}
	parts := q.policyParts()
	d := devicePolicy{layers: int32(layers), decoder: int32(len(encoder.Layers))}
	var halves []uint16
	var biases []float32
	width := 0
	for n, l := range append(append([]model.Layer(nil), encoder.Layers...), decoder.Layers...) {
		layer := policyLayer{depth: int32(ceil(l.W.Cols, 16)), units: int32(ceil(l.W.Rows, 16)), biases: int32(len(biases))}
		width = max(width, 16*int(layer.depth), 16*int(layer.units))
		for layer.across < 3 && 1<<layer.across < layer.units {
			layer.across++
		}
		switch n {
		case len(encoder.Layers) - 1:
			layer.kind = latentLayer
		case layers - 1:
			layer.kind = planLayer
		}
		layer.tiles, layer.bias = driver.Pointer(2*len(halves)), driver.Pointer(4*len(biases))
		tiles, ok := policyTiles(&l, parts)
		if !ok {
			return policy{}
		}
		halves = append(halves, tiles...)
		biases = append(biases, append(append([]float32(nil), l.B...), make([]float32, 16*int(layer.units)-len(l.B))...)...)
		d.layer[n] = layer
	}
	d.stride = int32(width + 8)
	tiles, bias := uploaded(q, m.memory, halves), uploaded(q, m.memory, biases)
	for i := range d.layer[:layers] {
		d.layer[i].tiles += tiles
		d.layer[i].bias += bias
	}
	p := policy{name: f.code.name}
	for i, rows := range policyShapes {
		activations := 2*2*parts*rows*int(d.stride) + policyRowsBytes(f, rows) + 4*len(biases)
		s := &p.shape[i]
		*s = policyShape{rows: rows, kernel: fmt.Sprintf("gpc_domain_policy_%s_%dx%d", p.name, rows, parts)}
		most := 0
		q.enqueue(func() error {
			k, err := q.kernel(q.t, s.kernel)
			if err == nil {
				most = q.device.SharedPerBlock - k.Static()
				s.shared = sharedRoom(most, rows, k.Local())
			}
			return err
		})
		if most < activations {
			return policy{}
		}
		d := d
		d.reside(max(s.shared-activations, 0)/fragment, parts)
		s.shared = fragment*int(d.fragments) + activations
		s.device = uploaded(q, m.memory, unsafe.Slice((*byte)(unsafe.Pointer(&d)), int(unsafe.Sizeof(d))))
	}
	return p
}

// sharedRoom is the shared memory that a block of some rows takes of the most there is. It leaves room in the first-level cache for the local
// memory of its threads, but no more than half.
func sharedRoom(most, rows, local int) int {
	return min(most, max(most/2, most+leastCache-sectorLanes*rows*local))
}

// reside keeps as much of the weights in shared memory as there is room for fragments, from the last layer on.
func (d *devicePolicy) reside(room, parts int) {
	for i := int(d.layers) - 1; i >= 0; i-- {
		l := &d.layer[i]
		slice := int(l.units) * parts * 32
		l.resident, l.at = int32(min(int(l.depth), (room-int(d.fragments))/slice)), d.fragments
		d.fragments += l.resident * int32(slice)
	}
}

// policyRowsBytes is the size of PolicyRows of include/policy.cuh.
func policyRowsBytes(f *flow, rows int) int {
	layers := policyLayers * int(unsafe.Sizeof(policyLayer{}))
	perRow := 8*(f.states+f.contexts+2) + 4*(2*f.plan+MaxLatent+policyBlock/32*16+1)
	return (layers + rows*perRow + 4*(2*(f.states+f.contexts)+3*(1+f.objectives)+4*f.plan) + 7) / 8 * 8
}

// policyTiles are a layer's weights in tiles of 16 units by 16 of the depth, depth first, as the lanes of a warp hold
// them: halves, and in two parts what these leave. It reports whether all are within the range.
func policyTiles(l *model.Layer, parts int) (tiles []uint16, ok bool) {
	depth, units := ceil(l.W.Cols, 16), ceil(l.W.Rows, 16)
	tiles = make([]uint16, depth*units*parts*256)
	for unit := range l.W.Rows {
		for k, w := range l.W.Row(unit) {
			if !(math.Abs(float64(w)) <= halfMost) {
				return nil, false
			}
			lane, number := unit%8*4+k%8/2, 2*(unit%16/8+2*(k%16/8))+k%2
			offset := ((k/16*units+unit/16)*parts*32+lane)*8 + number
			half := float16.Fromfloat32(w)
			tiles[offset] = half.Bits()
			if parts == 2 {
				tiles[offset+256] = float16.Fromfloat32(w - half.Float32()).Bits()
			}
		}
	}
	return tiles, true
}

// run queues whole roll-outs.
func (p *policy) run(q *queue, code *problemCode, job *policyJob, preference *preferenceJob) {
	s := &p.shape[0]
	if int(job.rows) > s.rows*max(q.device.Multiprocessors, 1) {
		s = &p.shape[1]
	}
	job.net = s.device
	q.needs(func(*trace) work { return work{cycles: float64(job.steps) * rolloutChain, resident: 1} })
	q.launch(s.kernel, driver.Dim{X: ceil(int(job.rows), s.rows)}, policyBlock, s.shared, driver.Struct(job), driver.Struct(preference), driver.Address(code.constants))
}
