package kernels

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/export"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
	"github.com/gpc-engine/gpc/kernels/images"
)

const (
	// planWarps are the warps of a multiprocessor with a plan each, by the 168 registers of a lane.
	planWarps = 12
	planBlock = 128
	// planBytes bound the jobs of one launch.
	planBytes = 64 << 20
)

// Where a job has what its head says, as export/templates/plans.tmpl has it.
const (
	planSteps = iota
	planHeld
	planBarrier
	planAdaptive
	planFrom
	planRests
	planMu
	planRho
	planScale
	planConverged
	planIterations
	planCost
	planKKT
	planHead = 16
)

// plansJob is the argument of gpc_plans.
type plansJob struct {
	jobs, space, next driver.Pointer
	count, stride     int32
}

var _ backend.Planner = (*Backend)(nil)

// planSolver is the memory of a domain.Plans.
type planSolver struct {
	backend *Backend
	text    *export.DevicePlans
	name    string // of the case
	kernel  string
	memory  *memory
	jobs    driver.Pointer
	space   driver.Pointer
	next    driver.Pointer
	host    *driver.HostMemory
	room    int // jobs that fit
}

// NewPlans implements backend.Planner by what export.PlansOf writes, compiled by NVRTC.
func (b *Backend) NewPlans(p domain.Problem, steps int, tolerance float64, iterations int) (*domain.Plans, error) {
	text, err := export.PlansOf(p, steps, tolerance, iterations)
	if err != nil {
		return nil, err
	}
	s := &planSolver{backend: b, text: text, name: p.Spec().Name, kernel: "gpc_plans_" + text.Name, memory: &memory{}}
	err = b.execute(func(t *driver.Thread) error {
		var sets []*images.Set
		folder, err := b.imagesOf(&text.Device, 0)
		if err != nil {
			return err
		}
		if folder != nil {
			set, err := images.New(folder)
			if err != nil {
				return err
			}
			sets = append(sets, set)
		}
		_, err = b.kernelOf(t, images.NewModules(sets...), s.kernel)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("plans of %s: %w", s.name, err)
	}
	runtime.AddCleanup(s, func(m *memory) { b.discard(m.free) }, s.memory)
	return &domain.Plans{Places: s.places(), Solve: s.solve}, nil
}

func (s *planSolver) places() int { return planWarps * max(s.backend.device.Multiprocessors, 1) }

func (s *planSolver) solve(ctx context.Context, jobs []*domain.PlanJob) error {
	for len(jobs) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(len(jobs), max(planBytes/(8*s.text.Stride), 1))
		err := s.backend.execute(func(t *driver.Thread) error { return s.launch(t, jobs[:n]) })
		if short := (*driver.MemoryError)(nil); errors.As(err, &short) {
			text := fmt.Sprintf("plans of %s are solved on the CPU: %v", s.name, err)
			s.backend.Tell(text, text)
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		if err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

func (s *planSolver) launch(t *driver.Thread, jobs []*domain.PlanJob) error {
	q := s.backend.queue(t)
	if len(jobs) > s.room {
		if err := s.memory.free(t); err != nil {
			return err
		}
		s.room = 0
		s.jobs, s.host = q.alloc(s.memory, 8*s.text.Stride*len(jobs)), q.allocHost(s.memory, 8*s.text.Stride*len(jobs))
		s.space, s.next = q.alloc(s.memory, 8*s.text.Space*s.warps(len(jobs))), q.alloc(s.memory, 4)
		if q.err != nil {
			return q.err
		}
		s.room = len(jobs)
	}
	all := driver.HostSlice[float64](s.host, 0, s.text.Stride*len(jobs))
	for i, j := range jobs {
		s.pack(j, all[i*s.text.Stride:(i+1)*s.text.Stride])
	}
	q.upload(s.jobs, s.host, 0, 8*len(all))
	q.enqueue(func() error { return t.ZeroAsync(s.next, 4, q.stream) })
	job := plansJob{jobs: s.jobs, space: s.space, next: s.next, count: int32(len(jobs)), stride: int32(s.text.Stride)}
	q.launch(s.kernel, driver.Dim{X: s.warps(len(jobs)) * 32 / planBlock}, planBlock, 0, driver.Struct(&job))
	q.download(s.host, 0, s.jobs, 8*len(all))
	if err := q.wait(); err != nil {
		return err
	}
	for i, j := range jobs {
		s.unpack(j, all[i*s.text.Stride:(i+1)*s.text.Stride])
	}
	return nil
}

// warps of a launch fill its blocks.
func (s *planSolver) warps(jobs int) int {
	const group = planBlock / 32
	return ceil(min(jobs, s.places()), group) * group
}

// pack writes a job.
func (s *planSolver) pack(j *domain.PlanJob, job []float64) {
	d := s.text
	clear(job[:d.Stride])
	job[planSteps], job[planHeld], job[planBarrier] = float64(j.Steps), number(j.Hold), j.Barrier
	job[planAdaptive], job[planFrom] = number(j.Preference.Adaptive), number(j.Warm != nil)
	rest := job[planHead:]
	copy(rest, j.S)
	copy(rest[len(j.S):], j.C)
	rest = rest[d.Inputs:]
	copy(rest, j.Preference.W)
	rest = rest[d.Objectives:]
	for i := range j.Room {
		rest[i] = j.Room[i]
		if d.MarginSizes != nil {
			rest[i] /= d.MarginSizes[i]
		}
	}
	rest = rest[d.Margins:]
	if j.Terminal != nil {
		job[planRests] = 1
		n := len(j.Terminal.At)
		for i, a := range d.MovingEntries {
			rest[i], rest[d.Moving+i] = j.Terminal.At[a], j.Terminal.Slope[a]
			for k, b := range d.MovingEntries {
				rest[2*d.Moving+i*d.Moving+k] = j.Terminal.Curvature[a*n+b]
			}
		}
	}
	arrays := s.arrays(job, j)
	if j.Warm == nil {
		copy(arrays[0].numbers, j.Start)
		return
	}
	warm := j.Warm
	job[planMu], job[planRho], job[planScale] = warm.Barrier, warm.Penalty, warm.Scale
	job[planConverged] = number(warm.Solved)
	for i, values := range [...][]float64{warm.Actions, warm.States, warm.Dynamics, warm.Limits, warm.Lower, warm.Upper, warm.Factor, warm.Gains} {
		a := &arrays[i]
		last := warm.Steps + a.rows - j.Steps - 1
		for t := range a.rows {
			copy(a.row(t), values[min(t+j.Shift, last)*a.width:][:a.width])
		}
	}
}

// planArray is an array of a solution in a job: rows of a width, a stride apart.
type planArray struct {
	numbers             []float64
	rows, width, stride int
}

func (a *planArray) row(t int) []float64 { return a.numbers[t*a.stride:][:a.width] }

func (a *planArray) values() []float64 {
	all := make([]float64, 0, a.rows*a.width)
	for t := range a.rows {
		all = append(all, a.row(t)...)
	}
	return all
}

// arrays are those of a domain.PlanSolution in its order.
func (s *planSolver) arrays(job []float64, j *domain.PlanJob) (all [8]planArray) {
	d := s.text
	rest := job[d.Solution:]
	for i, a := range [8]struct{ more, width, stride int }{
		{0, d.Actions, d.Actions}, {1, len(j.S) + len(j.C), d.Inputs}, {1, d.Moving, d.Moving}, {0, d.Margins, d.Margins},
		{0, d.Actions, d.Actions}, {0, d.Actions, d.Actions}, {0, d.Actions * d.Actions, d.Actions * d.Actions}, {0, d.Moving * d.Actions, d.Moving * d.Actions},
	} {
		n := (d.Steps + a.more) * a.stride
		all[i], rest = planArray{rest[:n], j.Steps + a.more, a.width, a.stride}, rest[n:]
	}
	return all
}

// unpack reads where a job has ended.
func (s *planSolver) unpack(j *domain.PlanJob, job []float64) {
	a := s.arrays(job, j)
	j.Solution = domain.PlanSolution{
		Solved: job[planConverged] == 1, Steps: j.Steps, Iterations: int(job[planIterations]), Cost: job[planCost], KKT: job[planKKT],
		Actions: a[0].values(), States: a[1].values(), Dynamics: a[2].values(), Limits: a[3].values(), Lower: a[4].values(), Upper: a[5].values(),
		Factor: a[6].values(), Gains: a[7].values(), Barrier: job[planMu], Penalty: job[planRho], Scale: job[planScale],
	}
}

func number(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
