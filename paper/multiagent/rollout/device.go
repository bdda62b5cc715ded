package rollout

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"unsafe"

	"github.com/gpc-engine/gpc/domain"
)

//go:embed images/manifest.json images/*.zst
var embedded embed.FS

// Images are the compiled kernels of the .cu files beside this one.
func Images() fs.FS {
	images, err := fs.Sub(embedded, "images")
	if err != nil {
		panic("rollout: " + err.Error())
	}
	return images
}

// Entry points.
const (
	costKernel     = "gpc_multiagent_cost"
	gradientKernel = "gpc_multiagent_gradient"
	limitKernel    = "gpc_multiagent_limit"
	descendKernel  = "gpc_multiagent_descend"
)

// Sizes that rollout.cuh and evaluate.cuh have too.
const (
	deviceRows    = 16 // threads that share a candidate, and the most robots
	deviceThreads = Lanes * deviceRows
	partials      = 6  // what each of them adds up
	endingWords   = 16 // of an Ending
	boundWords    = 4 * PlanFields
	descentBlocks = 3 // of derivatives and their two means
	resultFields  = 3 + MarginKinds
	// sharedBytes is the shared memory that a block has on every device from compute
	// capability 8.0 on.
	sharedBytes = 99 << 10
)

// Buffers of the program.
const (
	problemBuffer domain.Buffer = iota
	gridBuffer
	plansBuffer
	resultsBuffer
	outBuffer
	boundsBuffer
	paceBuffer // of a descent
	bufferCount
)

// Device is the Evaluator on a GPU: one launch a call for all candidates, recorded
// once for each shape. Memory grows to the largest problem so far.
type Device struct {
	program domain.Program
	words   [bufferCount]int
	packed  []float32
}

// NewDevice loads the kernels on an accelerator.
func NewDevice(a domain.Accelerator) (*Device, error) {
	p, err := a.Program(Images(), costKernel, gradientKernel, limitKernel, descendKernel)
	if err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	return &Device{program: p}, nil
}

// sequence names what one call does.
type sequence struct {
	limit, slopes, ends  bool
	robots, steps, count int
	candidates, grid     int
	iterates             int // of a descent, a block of candidates each; 0: none
}

// shared is the shared memory of the roll-out of one block, bytes.
func (s *sequence) shared() int {
	item := PlanFields + 2 // action, position
	if s.slopes {
		item += 4 + 2 // the rest of the step, derivatives in the position
	}
	return 4 * Lanes * (s.robots*s.steps*item + deviceRows*partials)
}

// prepare checks the size of a call and makes room for it.
func (v *Device) prepare(s *sequence) error {
	slopes := *s
	slopes.slopes = true // so that what is accepted does not depend on the call
	if s.robots > deviceRows || slopes.shared() > sharedBytes {
		return fmt.Errorf("rollout: a problem of %d robots and %d steps, the device takes at most %d robots and %d steps of all of them together",
			s.robots, s.steps, deviceRows, (sharedBytes/(4*Lanes)-deviceRows*partials)/(PlanFields+8))
	}
	n, plans := Blocks(s.candidates), s.robots*PlanSize(s.steps)
	grow, words := false, v.words
	for i, need := range [bufferCount]int{
		problemBuffer: problemWords(s.robots, s.steps, s.count), gridBuffer: max(1, s.grid), plansBuffer: n * plans, resultsBuffer: n * resultFields * Lanes,
		outBuffer: 1, boundsBuffer: s.robots * boundWords, paceBuffer: Lanes + n,
	} {
		if domain.Buffer(i) == outBuffer && s.slopes {
			need = max(n, descentBlocks) * plans
		}
		grow = grow || need > words[i]
		words[i] = max(words[i], need)
	}
	if !grow {
		return nil
	}
	v.words = [bufferCount]int{} // what a failure leaves
	if err := v.program.Reserve(words[:]...); err != nil {
		return fmt.Errorf("rollout: memory for %d candidates: %w", s.candidates, err)
	}
	v.words = words
	return nil
}

func problemWords(robots, steps, count int) int {
	return robots*motionFields*Lanes + penaltyFields*Lanes + endingWords + robots*robots + robots*steps + robots*steps*count*DiscFields
}

func (v *Device) host(b domain.Buffer) []float32 { return v.program.Host(int(b)) }

// bring copies a slice into pinned memory where it is not that memory itself.
func (v *Device) bring(b domain.Buffer, source []float32) {
	if dst := v.host(b); len(source) > 0 && &dst[0] != &source[0] {
		copy(dst, source)
	}
}

// stage checks a call and brings its problem, bounds and plans into pinned memory.
func (v *Device) stage(p *Joint, s *sequence, bounds []Bounds[float32], plans []float32) error {
	if p.Lateral != nil {
		return fmt.Errorf("rollout: double integrators on the device: %w", errors.ErrUnsupported)
	}
	s.robots, s.steps, s.count = p.shape()
	e := p.Ending
	s.ends = e != nil
	if s.ends && e.Grid != nil {
		s.grid = 2 * e.Grid.NX * e.Grid.NY
	}
	// Where plans is the device's own memory, that must outlive a growth of the rest.
	if size := v.words[plansBuffer]; size > 0 && len(plans) > 0 && &v.host(plansBuffer)[0] == &plans[0] {
		previous := v.words
		if err := v.prepare(s); err != nil {
			return err
		}
		if v.words != previous {
			return fmt.Errorf("rollout: the plans of a smaller problem's memory: ask Plans again for this one")
		}
	} else if err := v.prepare(s); err != nil {
		return err
	}
	v.bring(plansBuffer, plans[:Blocks(s.candidates)*s.robots*PlanSize(s.steps)])
	if s.limit {
		v.packed = packBounds(v.packed[:0], bounds)
		copy(v.host(boundsBuffer), v.packed)
	}
	v.packed = p.pack(v.packed[:0])
	copy(v.host(problemBuffer), v.packed)
	if s.grid > 0 {
		g := e.Grid
		points, dst := g.NX*g.NY, v.host(gridBuffer)
		copy(dst, g.Rate[:points])
		copy(dst[points:], g.Value[:points])
	}
	return nil
}

// descend records a descent: up go the plans that it begins with, down comes every iterate.
func (s *sequence) descend(q domain.Queue) error {
	n, plans := s.iterates, s.robots*PlanSize(s.steps)
	for _, up := range []struct {
		buffer domain.Buffer
		words  int
	}{{plansBuffer, plans}, {boundsBuffer, s.robots * boundWords}, {paceBuffer, Lanes + n - 1}, {problemBuffer, problemWords(s.robots, s.steps, s.count)}, {gridBuffer, s.grid}} {
		if up.words == 0 {
			continue
		}
		if err := q.Upload(int(up.buffer), up.words); err != nil {
			return err
		}
	}
	if err := q.Launch(descendKernel, 1, deviceThreads, s.shared(), problemBuffer, gridBuffer, boundsBuffer, paceBuffer, plansBuffer, resultsBuffer, outBuffer,
		int32(s.robots), int32(s.steps), int32(s.count), s.pays(), int32(n)); err != nil {
		return err
	}
	if err := q.Download(int(plansBuffer), n*plans); err != nil {
		return err
	}
	return q.Download(int(resultsBuffer), n*resultFields*Lanes)
}

// pays is 1 where something is paid after the last step.
func (s *sequence) pays() int32 {
	if s.ends {
		return 1
	}
	return 0
}

// queue records a call.
func (s *sequence) queue(q domain.Queue) error {
	if s.iterates > 0 {
		return s.descend(q)
	}
	n, plans := Blocks(s.candidates), s.robots*PlanSize(s.steps)
	robots, steps := int32(s.robots), int32(s.steps)
	if err := q.Upload(int(plansBuffer), n*plans); err != nil {
		return err
	}
	if s.limit {
		if err := q.Upload(int(boundsBuffer), s.robots*boundWords); err != nil {
			return err
		}
		threads := n * s.robots * PlanFields * Lanes
		if err := q.Launch(limitKernel, (threads+127)/128, 128, 0, boundsBuffer, plansBuffer, robots, steps, int32(n)); err != nil {
			return err
		}
		if err := q.Download(int(plansBuffer), n*plans); err != nil {
			return err
		}
	}
	if err := q.Upload(int(problemBuffer), problemWords(s.robots, s.steps, s.count)); err != nil {
		return err
	}
	if s.grid > 0 {
		if err := q.Upload(int(gridBuffer), s.grid); err != nil {
			return err
		}
	}
	kernel, arguments := costKernel, []any{problemBuffer, gridBuffer, plansBuffer, resultsBuffer}
	if s.slopes {
		kernel, arguments = gradientKernel, append(arguments, outBuffer)
	}
	if err := q.Launch(kernel, n, deviceThreads, s.shared(), append(arguments, robots, steps, int32(s.count), s.pays())...); err != nil {
		return err
	}
	if s.slopes {
		if err := q.Download(int(outBuffer), n*plans); err != nil {
			return err
		}
	}
	return q.Download(int(resultsBuffer), n*resultFields*Lanes)
}

// Plans implements Evaluator.
func (v *Device) Plans(p *Joint, candidates int) ([]float32, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	s := sequence{candidates: max(candidates, 1), slopes: true}
	s.robots, s.steps, s.count = p.shape()
	if e := p.Ending; e != nil && e.Grid != nil {
		s.grid = 2 * e.Grid.NX * e.Grid.NY
	}
	if err := v.prepare(&s); err != nil {
		return nil, err
	}
	return v.host(plansBuffer), nil
}

// Evaluate implements Evaluator.
func (v *Device) Evaluate(p *Joint, bounds []Bounds[float32], plans []float32, candidates int, results []Result, out []float32) error {
	if err := checkBatch(p, bounds, len(plans), candidates, results, out); err != nil {
		return err
	}
	s := sequence{limit: bounds != nil, slopes: out != nil, candidates: candidates}
	if err := v.stage(p, &s, bounds, plans); err != nil {
		return err
	}
	if err := v.program.Run(s, s.queue); err != nil {
		return fmt.Errorf("rollout: %w", err)
	}
	v.unpack(results[:Blocks(candidates)])
	size := Blocks(candidates) * s.robots * PlanSize(s.steps)
	if out != nil {
		copy(out, v.host(outBuffer)[:size])
	}
	if pinned := v.host(plansBuffer); bounds != nil && &pinned[0] != &plans[0] {
		copy(plans, pinned[:size])
	}
	return nil
}

// unpack reads what came back of each block.
func (v *Device) unpack(results []Result) {
	words := v.host(resultsBuffer)
	for b := range results {
		r := &results[b]
		for i, dst := range [resultFields]*Vector[float32]{&r.Cost, &r.Low, &r.Safe, &r.Kinds[EgoDiscs], &r.Kinds[OtherDiscs], &r.Kinds[Pairs]} {
			copy(dst[:], words[(b*resultFields+i)*Lanes:])
		}
	}
}

// Descend implements Descender, in one launch.
func (v *Device) Descend(p *Joint, bounds []Bounds[float32], rates *[Lanes]float32, factors, plans []float32, results []Result) (bool, error) {
	n := len(factors) + 1
	if bounds == nil {
		return false, errors.New("rollout: a descent without bounds")
	}
	if err := checkBatch(p, bounds, len(plans), n*Lanes, results, nil); err != nil {
		return false, err
	}
	s := sequence{limit: true, slopes: true, candidates: n * Lanes, iterates: n}
	if err := v.stage(p, &s, bounds, plans); err != nil {
		return false, err
	}
	pace := v.host(paceBuffer)
	copy(pace, rates[:])
	copy(pace[Lanes:], factors)
	if err := v.program.Run(s, s.queue); err != nil {
		return false, fmt.Errorf("rollout: %w", err)
	}
	v.unpack(results[:n])
	if pinned := v.host(plansBuffer); &pinned[0] != &plans[0] {
		copy(plans, pinned[:n*s.robots*PlanSize(s.steps)])
	}
	return true, nil
}

// Fields of a Motion and of a Penalty, which pack views as rows of lanes.
const (
	motionFields  = int(unsafe.Sizeof(Motion[float32]{}) / unsafe.Sizeof(Vector[float32]{}))
	penaltyFields = int(unsafe.Sizeof(Penalty[float32]{}) / unsafe.Sizeof(Vector[float32]{}))
)

func (m *Motion[T]) words() []T { return unsafe.Slice((*T)(unsafe.Pointer(m)), motionFields*Lanes) }

func (p *Penalty[T]) words() []T { return unsafe.Slice((*T)(unsafe.Pointer(p)), penaltyFields*Lanes) }

func (j *Joint) pack(dst []float32) []float32 {
	for i := range j.Robots {
		dst = append(dst, j.Robots[i].words()...)
	}
	dst = append(dst, j.Penalty.words()...)
	dst = append(dst, j.Ending.words()...)
	for i := range j.Robots {
		for k := range j.Robots {
			switch {
			case k < i:
				dst = append(dst, j.Pair[i][k])
			case k > i:
				dst = append(dst, j.Pair[k][i])
			default:
				dst = append(dst, 0)
			}
		}
	}
	for _, g := range j.Goal {
		dst = append(dst, g[:j.Steps]...)
	}
	for _, d := range j.Discs {
		dst = append(dst, d[:j.Steps*j.Count*DiscFields]...)
	}
	return dst
}

// words are an ending's numbers as rollout.cuh reads them; nil: zeros.
func (e *Ending) words() []float32 {
	w := make([]float32, endingWords)
	if e == nil {
		return w
	}
	for i, v := range []float64{e.Goal[0], e.Goal[1], e.Stage, e.Stride, e.Detour, e.Scale} {
		w[i] = float32(v)
	}
	if g := e.Grid; g != nil {
		for i, v := range []float64{g.X0, g.Y0, g.Cell, float64(g.NX), float64(g.NY)} {
			w[6+i] = float32(v)
		}
	}
	return w
}

func packBounds(dst []float32, bounds []Bounds[float32]) []float32 {
	for i := range bounds {
		b := &bounds[i]
		for _, v := range [][PlanFields]float32{b.Previous, b.Lo, b.Hi, b.Slew} {
			dst = append(dst, v[:]...)
		}
	}
	return dst
}
