package view

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/dataset"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/serve"
)

const (
	// mostRays of a fan, with that of the preference in force.
	mostRays = 22
	// frontPoints of the map's front beside the rays: as dense as a panel shows.
	frontPoints = 200
	// exactPoints are the weightings of an exact front.
	exactPoints = 30
	// stride from one ray to the next; it has no divisor with a number of rays.
	stride = 13
	// rayCandidates of a ray whose method searches: such a slice of the server's time is as long as a
	// decision of planner-384.
	rayCandidates = 384
	// hurried bounds the rays of a fan beside a plant that runs: a fan that takes longer is of a decision that is gone.
	hurried = 200 * time.Millisecond
	// mostAhead bounds how many decisions a fan looks ahead.
	mostAhead = 40
	// unhurried is a deadline of its requests that is never reached: the server's own is that of plants.
	unhurried = time.Hour
)

// Fan is what the method would do from frame K on under other preferences. That is decision T of its episode.
type Fan struct {
	K       int `json:"k"`
	Episode int `json:"episode"`
	T       int `json:"t"`
	// Ahead is how many decisions each looks ahead; Present is the place of the preference in
	// force.
	Ahead   int   `json:"ahead"`
	Present int   `json:"present"`
	Rays    []Ray `json:"rays"`
	// Points are the front of the map: its trade-offs under frontPoints weightings; none where the plant was changed, or where a
	// server has no fronts.
	Points []Point `json:"points,omitempty"`
	TookMs float64 `json:"took_ms"`
}

// Ray is one of a Fan.
type Ray struct {
	Preference domain.Preference `json:"preference"`
	J          []float64         `json:"j"` // mean over the decisions ahead
	Margin     float64           `json:"margin"`
	Feasible   bool              `json:"feasible"`
	// Paths are those of the bodies, [body][decision], from where they are.
	Paths [][][2]float64 `json:"paths,omitempty"`
}

// Point is one of a front.
type Point struct {
	W         []float64 `json:"w"`
	J         []float64 `json:"j"` // mean over the decisions ahead, as a Ray's
	Feasible  bool      `json:"feasible"`
	Dominated bool      `json:"dominated"`
}

// Exact is the front of the exact solver from frame K on, to the end of the episode or plan, and the map's under the same weightings.
type Exact struct {
	K       int `json:"k"`
	Episode int `json:"episode"`
	T       int `json:"t"`
	Ahead   int `json:"ahead"` // decisions
	// Points are the exact ones, Same the map's; none where the method has no map.
	Points     []Point            `json:"points"`
	Same       []Point            `json:"same"`
	Ratio      *closedloop.Number `json:"hypervolume_ratio"` // of Same to Points; null without a map
	Incomplete bool               `json:"incomplete"`        // the time limit came before the last solve
	TookMs     float64            `json:"took_ms"`
}

// Fan implements Source: the method's own decisions under each preference, rolled out by the
// known dynamics. A method that searches is asked for its plans, under fewer preferences.
func (l *Live) Fan(hurry bool) func(ctx context.Context) (*Fan, error) {
	return l.fan(l.origin(), hurry)
}

// Exact is a function that solves the front of the last frame, as Fan.
func (l *Live) Exact() func(ctx context.Context) (*Exact, error) { return l.exact(l.origin()) }

// origin is the request about the state of the last frame; without a state where there is none to look ahead from.
func (l *Live) origin() (r serve.Request) {
	if l.ep.Done() || l.measured() {
		return r
	}
	return l.request(l.preference)
}

// exact solves the front from a request.
func (l *loop) exact(root serve.Request) func(ctx context.Context) (*Exact, error) {
	last, server := l.frames[len(l.frames)-1], l.server
	if _, private := l.decides.(serve.Aside); root.S == nil || !private {
		return nil
	}
	return func(ctx context.Context) (*Exact, error) {
		start := time.Now()
		a, err := server.ExactFront(ctx, serve.Request{S: root.S, C: root.C}, exactPoints, batchnav.FrontOptions{})
		if err != nil {
			return nil, err
		}
		exact := &Exact{K: last.K, Episode: last.Episode, T: last.T, Ahead: a.Exact.LookAhead, Points: means(a.Exact), Ratio: a.HypervolumeRatio, Incomplete: a.Exact.Incomplete}
		if a.Same != nil {
			exact.Same = means(a.Same)
		}
		exact.TookMs = float64(time.Since(start).Nanoseconds()) / 1e6
		return exact, nil
	}
}

// means are the points of a front with their objectives as means over the decisions ahead.
func means(f *batchnav.Front) []Point {
	points := []Point{}
	for _, p := range f.Points {
		for k := range p.J {
			p.J[k] /= float64(f.LookAhead)
		}
		points = append(points, Point{W: p.W, J: p.J, Feasible: p.Feasible, Dominated: p.Dominated})
	}
	return points
}

// fan looks ahead from a request about the state of the last frame.
func (l *loop) fan(root serve.Request, hurry bool) func(ctx context.Context) (*Fan, error) {
	if root.S == nil || l.searches && l.server.Health().ModelSHA256 == "" {
		return nil
	}
	last := l.frames[len(l.frames)-1]
	now := *l // it may decide otherwise before the fan is made
	return func(ctx context.Context) (*Fan, error) {
		l, start := &now, time.Now()
		fan := &Fan{K: last.K, Episode: last.Episode, T: last.T, Ahead: l.ahead(root.C)}
		weights := l.description.Vertices
		if m := l.spec.ObjectiveSize(); !l.searches {
			weights = dataset.Lattice(m, mostRays-1)
			weights = weights[:min(len(weights), mostRays-1)]
		}
		// One objective alone, and then far from those before: where time is short the rest is left out.
		corners, rest := l.description.Vertices, weights[:0:0]
		for i := range weights {
			if w := weights[i*stride%len(weights)]; slices.Max(w) < 1 {
				rest = append(rest, w)
			}
		}
		present := Ray{Preference: *root.Preference}
		if err := l.cast(ctx, fan, &present, root); err != nil {
			return nil, err
		}
		for i, w := range slices.Concat(corners, rest) {
			if hurry && i >= len(corners) && time.Since(start) > hurried {
				break
			}
			ray := Ray{Preference: domain.Preference{W: w}}
			if err := l.cast(ctx, fan, &ray, root); err != nil {
				return nil, err
			}
			fan.Rays = append(fan.Rays, ray)
		}
		fan.Present = len(fan.Rays)
		fan.Rays = append(fan.Rays, present)
		if err := l.front(ctx, fan, root); err != nil {
			return nil, err
		}
		fan.TookMs = float64(time.Since(start).Nanoseconds()) / 1e6
		return fan, nil
	}
}

// front adds the front of the map to a fan.
func (l *loop) front(ctx context.Context, fan *Fan, root serve.Request) error {
	server, ok := l.decides.(serve.Aside)
	if !ok {
		return nil
	}
	front, err := retryBusy(ctx, func() (*batchnav.Front, error) {
		return server.Front(ctx, serve.Request{S: root.S, C: root.C}, batchnav.FrontOptions{Points: frontPoints, LookAhead: fan.Ahead})
	})
	if none := (*serve.FieldError)(nil); errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	fan.Points = means(front)
	return nil
}

// ahead is how many decisions a fan looks ahead from a context.
func (l *loop) ahead(c []float64) int {
	decisions := mostAhead
	if remaining := domain.AbilitiesOfProblem(l.problem).Remaining; remaining != nil {
		decisions = min(decisions, remaining(c))
	}
	return max(1, decisions)
}

// cast rolls out a ray of a fan. Each of its decisions is a slice of the server's time, which the
// decisions of others come before.
func (l *loop) cast(ctx context.Context, fan *Fan, ray *Ray, root serve.Request) error {
	p := ray.Preference
	var plan []float64
	if l.searches {
		r, err := retryBusy(ctx, func() (*serve.Refined, error) {
			request := serve.Request{S: root.S, C: root.C, Preference: &p, Deadline: time.Now().Add(unhurried)}
			return l.decides.Refine(ctx, loopSession, request, batchnav.RefineOptions{Candidates: rayCandidates})
		})
		if err != nil {
			return err
		}
		plan = r.U
	}
	reset := func() (struct{}, error) { return struct{}{}, l.decides.Reset(ctx, raySession) }
	if _, err := retryBusy(ctx, reset); err != nil {
		return err
	}
	n := l.spec.ActionSize()
	steps := fan.Ahead
	if plan != nil {
		steps = min(steps, len(plan)/n)
	}
	s, c := slices.Clone(root.S), slices.Clone(root.C)
	next, nextC := make([]float64, len(s)), make([]float64, len(c))
	J, j, margins := make([]float64, l.spec.ObjectiveSize()), make([]float64, l.spec.ObjectiveSize()), make([]float64, len(l.spec.Margins))
	ray.Margin = math.Inf(1)
	add := func(s, c []float64) {
		bodies := centres(picture(l.problem, s, c))
		if ray.Paths == nil {
			ray.Paths = make([][][2]float64, len(bodies))
		}
		for b := range min(len(bodies), len(ray.Paths)) {
			ray.Paths[b] = append(ray.Paths[b], bodies[b])
		}
	}
	add(s, c)
	for t := range steps {
		var u []float64
		if plan != nil {
			u = plan[t*n : (t+1)*n]
		} else {
			d, err := retryBusy(ctx, func() (*serve.Decision, error) {
				r := l.requestAbout(s, c, p)
				r.Deadline = time.Now().Add(unhurried)
				return l.decides.Decide(ctx, raySession, r)
			})
			if err != nil {
				return err
			}
			u = d.U
		}
		l.score(s, c, u, j, margins)
		for k := range J {
			J[k] += j[k] / float64(steps)
		}
		for _, m := range margins {
			ray.Margin = math.Min(ray.Margin, m)
		}
		l.problem.Step(s, c, u, next, nextC)
		s, next = next, s
		c, nextC = nextC, c
		add(s, c)
	}
	ray.J, ray.Feasible = J, l.spec.Keeps(ray.Margin)
	_, err := retryBusy(ctx, reset)
	return err
}

// retryBusy asks until the server has time: a fan is hundreds of slices, and is not lost with one of them.
func retryBusy[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if !errors.Is(err, serve.ErrBusy) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, ctx.Err()
		case <-time.After(fansEvery):
		}
	}
}
