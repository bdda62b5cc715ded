package kernels

import (
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/backend"
	"github.com/gpc-engine/gpc/kernels/driver"
)

// The structures of include/domain.cuh.

type rolloutJob struct {
	s, c, cost, margin, plan, best, input, stateOut, contextOut, base, workspace, margins, kept driver.Pointer
	rows, h, project, encode, last, _                                                           int32
}

type preferenceJob struct {
	weights, slot, semantic, mean, scale, behind driver.Pointer
	adaptive, _                                  int32
}

type steeringJob struct {
	state, plan, c, how, sigma, weights, flags driver.Pointer
	gain                                       float64
	rows, ldplan                               int32
}

// semanticOf packs eq. iclr-semantic: k/ε of each objective, then ρ.
func semanticOf(spec *domain.Spec) []float64 {
	m := spec.Semantic
	v := make([]float64, 0, len(m.K)+1)
	for i, k := range m.K {
		v = append(v, k/m.Epsilon[i])
	}
	return append(v, m.Rho)
}

// problemCode is a problem's device functions as the launches need them. The zero
// value is a problem without.
type problemCode struct {
	name, reason                  string // reason: why it has none
	constants                     driver.Pointer
	warp                          bool
	lanes, gradientLanes          int // that share a row of the roll-out, of the gradient
	gradientShared, rolloutShared int
	workspace                     int // bytes for each block of the roll-out
	scored, fails, policy         bool
	last                          int32 // of gpc_domain_rollout at a last step
}

// newProblemCode loads the device functions that a problem has and their constants.
func newProblemCode(q *queue, m *memory, p domain.Problem) problemCode {
	if q.err != nil || p == nil {
		return problemCode{}
	}
	code := q.deviceCode(q.t, p)
	if code.Name == "" {
		return problemCode{reason: code.Reason}
	}
	q.enqueue(func() error { return q.loadDomain(q.t, code) })
	c := problemCode{name: code.Name, warp: code.Warp, lanes: max(code.Lanes, 1), gradientLanes: max(code.GradientLanes, 1), gradientShared: code.GradientShared, rolloutShared: code.RolloutShared, workspace: code.Workspace, scored: code.Scored, fails: code.Fails, policy: code.Policy}
	// A score knows where an action leads, and only what is behind a plan needs to be there.
	if c.last = 1; domain.AbilitiesOfProblem(p).Score != nil && !backend.Ends(p) {
		c.last = 2
	}
	c.constants = q.alloc(m, max(8*len(code.Constants)+4*len(code.Indices), 8))
	fill(q, c.constants, code.Constants)
	fill(q, c.constants.Offset(8*len(code.Constants)), code.Indices)
	return c
}

// shape is the launch of a kernel over rows: a warp a block where blocks of 128 rows
// would leave multiprocessors without work.
func (c *problemCode) shape(b *Backend, rows int) (grid driver.Dim, block int) {
	switch {
	case c.warp:
		return driver.Dim{X: rows}, 32
	case rows <= 128*b.device.Multiprocessors:
		return driver.Dim{X: ceil(rows, 32)}, 32
	}
	return driver.Dim{X: ceil(rows, 128)}, 128
}

// Bounds of the rows that a roll-out works on at once where each needs a workspace:
// as many blocks as a multiprocessor holds, and so much memory.
const (
	lanesBlock       = 256 // threads where lanes share a row, GPC_DOMAIN's
	rolloutBlocks    = 32
	rolloutWorkspace = 1 << 30
)

// inFlight is how many rows of so many a roll-out works on at once.
func (c *problemCode) inFlight(b *Backend, rows int) int {
	if c.workspace == 0 {
		return rows
	}
	return max(1, min(rows, rolloutBlocks*max(b.device.Multiprocessors, 1), rolloutWorkspace/c.workspace))
}

// base queues Base(x, c).
func (c *problemCode) base(q *queue, rows int, input inputs, plan driver.Pointer, ldplan int) {
	grid, block := c.shape(q.Backend, rows)
	q.needs(func(*trace) work { return work{cycles: problemChain, resident: rolloutBlocks} })
	q.launch("gpc_domain_base_"+c.name, grid, block, 0, driver.Int32(rows), driver.Address(input.x), driver.Int32(input.ldx),
		driver.Address(input.ctx), driver.Int32(input.ldctx), driver.Address(plan), driver.Int32(ldplan), driver.Address(c.constants))
}

// gradient queues objectives and gradients.
func (c *problemCode) gradient(q *queue, batch *domainBatch) {
	grid, block := c.shape(q.Backend, int(batch.rows)*c.gradientLanes)
	q.needs(func(*trace) work {
		return work{cycles: problemChain, resident: rolloutBlocks, bytes: 4 * float64(batch.rows) * float64(batch.lds+batch.ldu+batch.ldgs+batch.ldgu+batch.ldJ)}
	})
	q.launch("gpc_domain_gradient_"+c.name, grid, block, c.gradientShared, driver.Struct(batch), driver.Address(c.constants))
}

// priority queues σ and the effective weights of rows of latents.
func (c *problemCode) priority(q *queue, job *steeringJob, preference *preferenceJob, inverseRange driver.Pointer) {
	grid, block := c.shape(q.Backend, int(job.rows))
	q.needs(func(*trace) work { return work{cycles: problemChain, resident: rolloutBlocks} })
	q.launch("gpc_domain_priority_"+c.name, grid, block, 0, driver.Struct(job), driver.Struct(preference), driver.Address(c.constants), driver.Address(inverseRange))
}

// rollout queues one step of all roll-outs.
func (c *problemCode) rollout(q *queue, job *rolloutJob, preference *preferenceJob) {
	grid, block := c.shape(q.Backend, int(job.rows))
	switch {
	case c.warp:
		grid.X = c.inFlight(q.Backend, int(job.rows))
	case c.lanes > 1:
		// A block for each multiprocessor if there are rows: fewer of them share its units.
		rows := int(job.rows)
		grid, block = driver.Dim{X: max(ceil(rows*c.lanes, lanesBlock), min(rows, max(q.device.Multiprocessors, 1)))}, lanesBlock
	}
	q.needs(func(*trace) work { return work{cycles: rolloutChain, resident: rolloutBlocks} })
	q.launch("gpc_domain_rollout_"+c.name, grid, block, c.rolloutShared, driver.Struct(job), driver.Struct(preference), driver.Address(c.constants))
}
