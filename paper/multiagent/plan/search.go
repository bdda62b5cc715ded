package plan

import (
	"math"
	"math/rand/v2"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/paper/multiagent/rollout"
	"github.com/gpc-engine/gpc/paper/multiagent/view"
)

// Search looks for the cheapest plan of one robot among bodies on known paths. It collects candidates, has an Evaluator
// limit and score them, and keeps the best: with safety before cost, and, as starts of a descent, by cost alone.
//
// Begin sets the robot; what the evaluator then refuses is kept for Err, and nothing is scored any more. A Search is used by
// one goroutine. On the CPU it allocates nothing once it has met the largest problem.
type Search struct {
	// Rand draws the random candidates.
	Rand *rand.Rand
	// Problem is what candidates are scored by; Begin writes it.
	Problem rollout.Joint
	// Plans are the candidates, [block][step][a, ω][lane], Results their scores and
	// Slopes the derivatives of those of the first block where they were wanted.
	Plans   []float32
	Results []rollout.Result
	Slopes  []float32

	evaluator rollout.Evaluator
	steps     int
	err       error
	// The robot that is searched for.
	look      *view.Outlook
	robot     int
	start     rollout.Unicycle[float64]
	committed *Plan
	backs     bool // it backs up to a goal at its back, however far
	pivots    bool // with every second primitive it turns before it moves
	bounds    [1]rollout.Bounds[float32]

	origins       []origin  // of the candidates
	filled        int       // candidates that wait for their scores
	first, second []float32 // of a descent, and its steps
	factors       []float32
	rates         [rollout.Lanes]float32
	best          []candidate // best first
	elites        int
	bold          []candidate // best by score alone, safe or not, one of each way
	daring        int
	last          bool                                    // no descent starts from what is found now
	statistics    [domain.Sources]domain.SourceStatistics // MeanCost is the sum
}

// candidate is one scored plan; a smaller key is better.
type candidate struct {
	key    float64
	safe   int // leading steps that keep every margin
	origin origin
	plan   Plan
	way    way // of a bold candidate
}

// origin says where a candidate comes from.
type origin struct {
	source domain.Source
	latent int // that it is decoded or derived from: its place in the answer, or one of those below
}

const (
	noLatent   = -1
	heldLatent = -2 // that of the committed plan
)

// NewSearch returns a search for plans of so many steps that scores up to so many
// candidates a call and keeps plans of so many different ways, at least descentBold, for
// a descent to start from.
func NewSearch(evaluator rollout.Evaluator, steps, candidates, ways int) *Search {
	blocks, size := rollout.Blocks(candidates), rollout.PlanSize(steps)
	return &Search{
		Problem: rollout.Joint{
			Steps: steps, Robots: make([]rollout.Motion[float32], 1), Goal: [][]float32{make([]float32, steps)}, Discs: make([][]float32, 1),
			Pair: make([][]float32, 1), Ending: new(rollout.Ending),
		},
		Results: make([]rollout.Result, blocks), Slopes: make([]float32, size),
		evaluator: evaluator, steps: steps, origins: make([]origin, blocks*rollout.Lanes),
		first: make([]float32, size), second: make([]float32, size),
		best: make([]candidate, rollout.Lanes), bold: make([]candidate, ways),
	}
}

// Begin starts the search for robot i of an outlook, which holds until the next: its
// candidates are scored by score, and the plan that it is committed to is one of them.
func (s *Search) Begin(l *view.Outlook, i int, score Score, committed *Plan) {
	s.look, s.robot, s.committed = l, i, committed
	state := &l.Scene.State[i]
	s.start = rollout.Unicycle[float64]{X: state[0], Y: state[1], V: state[3]}
	s.start.Sin, s.start.Cos = math.Sincos(state[2])
	s.bounds[0] = l.Scene.Bounds(i)
	score.write(l, i, &s.Problem)
	s.filled = 0
	s.Clear()
	if s.Plans, s.err = s.evaluator.Plans(&s.Problem, len(s.origins)); s.err != nil {
		s.Plans = make([]float32, len(s.Results)*rollout.PlanSize(s.steps)) // what is not scored needs a place too
	}
}

// Clear forgets the candidates so far.
func (s *Search) Clear() { s.elites, s.daring = 0, 0 }

// Err is why the evaluator refused, nil where it did not.
func (s *Search) Err() error { return s.err }

// Best is the best plan so far, its score, to which every step that is not safe adds
// unsafeStep, and its leading safe steps; nil where no candidate has a score.
func (s *Search) Best() (plan *Plan, score float64, safe int) {
	if s.elites == 0 {
		return nil, math.Inf(1), 0
	}
	return &s.best[0].plan, s.best[0].key, s.best[0].safe
}

// settledDistance is how close to its goal a robot whose plan is safe and outside
// every buffer is left alone, m, root mean square over the plan.
const settledDistance = 0.05

// worthSearching is the share of a plan's score that a search must gain, or a
// robot that stands at its goal stops searching until its score rises by as much.
const worthSearching = 0.01

// Settled reports whether the best plan so far leaves nothing to search for: whether
// it is safe, and its score that of a robot at its goal, with goal the weight of the
// squared goal distance of a step, or not above exhausted.
func (s *Search) Settled(goal, exhausted float64) bool {
	_, score, safe := s.Best()
	return safe == s.steps && (score < goal*float64(s.steps)*settledDistance*settledDistance || score < exhausted*(1+worthSearching))
}

// entry is the place of a candidate's entry e in Plans.
func (s *Search) entry(e, candidate int) int {
	return (candidate/rollout.Lanes*s.steps*rollout.PlanFields+e)*rollout.Lanes + candidate%rollout.Lanes
}

// next is the place of the next candidate, of the origin given; where there is none
// left, those collected are scored first.
func (s *Search) next(origin origin) int {
	if s.filled == len(s.origins) {
		s.flush()
	}
	s.origins[s.filled] = origin
	s.filled++
	return s.filled - 1
}

// Put makes a plan candidate n, not to be counted as anybody's but the committed one.
func (s *Search) Put(plan *Plan, n int) {
	s.origins[n] = origin{domain.SourceCommitted, heldLatent}
	for k, u := range plan[:s.steps] {
		s.Plans[s.entry(2*k, n)], s.Plans[s.entry(2*k+1, n)] = u[0], u[1]
	}
}

// Get reads candidate n.
func (s *Search) Get(n int, plan *Plan) {
	for k := range s.steps {
		plan[k] = [2]float32{s.Plans[s.entry(2*k, n)], s.Plans[s.entry(2*k+1, n)]}
	}
}

// flush limits and scores the candidates collected.
func (s *Search) flush() {
	if s.filled > 0 {
		s.ScoreWithin(s.filled)
		s.filled = 0
	}
}

// Score scores the first candidates and keeps the best.
func (s *Search) Score(candidates int) { s.score(candidates, nil, nil) }

// ScoreWithin is Score after it has brought them into box and slew bound.
func (s *Search) ScoreWithin(candidates int) { s.score(candidates, s.bounds[:], nil) }

// ScoreSlopes is Score of one block, and sets Slopes.
func (s *Search) ScoreSlopes() { s.score(rollout.Lanes, nil, s.Slopes) }

func (s *Search) score(candidates int, bounds []rollout.Bounds[float32], slopes []float32) {
	if s.err == nil { // whole blocks, so that batches come in few sizes
		s.err = s.evaluator.Evaluate(&s.Problem, bounds, s.Plans, rollout.Blocks(candidates)*rollout.Lanes, s.Results, slopes)
	}
	if s.err != nil {
		return
	}
	for n := range candidates {
		r, l := &s.Results[n/rollout.Lanes], n%rollout.Lanes
		s.keep(float64(r.Cost[l]), int(r.Safe[l]), n)
	}
}

// unsafeStep is what each step without safety adds to a key: more than any score.
const unsafeStep = 1e9

// keep counts candidate n and inserts it into both lists where it belongs.
func (s *Search) keep(score float64, safe, n int) {
	t := &s.statistics[s.origins[n].source]
	t.Candidates++
	if safe == s.steps {
		if t.Feasible == 0 || score < t.BestCost {
			t.BestCost = score
		}
		t.Feasible++
		t.MeanCost += score
	}
	s.elites, _ = s.insert(s.best, s.elites, score+unsafeStep*float64(s.steps-safe), safe, n)
	if !s.last {
		s.insertBold(score, safe, n)
	}
}

// insert puts candidate n into a list of so many, smallest key first, where it is among
// the best, and returns the new length and the entry, nil where it is not.
func (s *Search) insert(list []candidate, length int, key float64, safe, n int) (int, *candidate) {
	if math.IsNaN(key) || (length == len(list) && key >= list[length-1].key) {
		return length, nil
	}
	index := length
	if length < len(list) {
		length++
	} else {
		index--
	}
	for index > 0 && list[index-1].key > key {
		list[index] = list[index-1]
		index--
	}
	c := &list[index]
	c.key, c.safe, c.origin = key, safe, s.origins[n]
	s.Get(n, &c.plan)
	return length, c
}
