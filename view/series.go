package view

import "math"

// Series are the time lines of the frames at hand, from frame First on; columns have an entry a
// frame, null where it has none.
type Series struct {
	First    int         `json:"first"`
	T        []int       `json:"t"`
	Episode  []int       `json:"episode"`
	J        [][]float64 `json:"j"`
	Priority [][]float64 `json:"priority"` // that steered, or else scored
	Margin   []float64   `json:"margin"`
	Latency  []float64   `json:"latency_us"`
	Residual []float64   `json:"residual"`
	Replaced []bool      `json:"replaced"`
	Late     []bool      `json:"late"`
	Fallback []string    `json:"fallback"` // domain.Fallback
	OffMap   []bool      `json:"off"`
	Event    []string    `json:"event"` // change of the plant, or why it has stopped
	// S and U are the first entries of state and action, of a case that has neither picture nor map; U is also there
	// where actions are switched, and reaches to the last of these.
	S [][]float64 `json:"s,omitempty"`
	U [][]float64 `json:"u,omitempty"`
	// Bodies are their centres, [body][frame].
	Bodies [][][2]float64 `json:"bodies,omitempty"`
	// Lo and Hi bound every shape.
	Lo [2]float64 `json:"lo"`
	Hi [2]float64 `json:"hi"`
}

// mostLines of a state, and of an action, are drawn where there is no picture.
const mostLines = 6

// series is of all frames at hand from number k on.
func (p *player) series(k int) *Series {
	first, last := p.source.Range()
	first = min(max(first, k), last+1)
	m := len(p.source.Describe().Objectives)
	s := &Series{First: first, J: make([][]float64, m), Priority: make([][]float64, m), Lo: [2]float64{math.Inf(1), math.Inf(1)}, Hi: [2]float64{math.Inf(-1), math.Inf(-1)}}
	d, actions := p.source.Describe(), 0
	if d.Grid == nil && len(p.source.Frame(last).Shapes) == 0 {
		s.S, actions = make([][]float64, min(mostLines, len(d.State))), min(mostLines, len(d.Action))
	}
	for _, w := range d.Switches {
		actions = max(actions, w.Action+1)
	}
	s.U = make([][]float64, actions)
	for k := first; k <= last; k++ {
		f := p.source.Frame(k)
		for i := range s.S {
			s.S[i] = append(s.S[i], entry(f.S, i))
		}
		for i := range s.U {
			s.U[i] = append(s.U[i], entry(f.U, i))
		}
		steered := f.Priority
		if len(steered) == 0 {
			steered = f.Sigma
		}
		for i := range m {
			s.J[i], s.Priority[i] = append(s.J[i], entry(f.J, i)), append(s.Priority[i], entry(steered, i))
		}
		s.T, s.Episode, s.Margin = append(s.T, f.T), append(s.Episode, f.Episode), append(s.Margin, f.Margin)
		s.Latency, s.Residual = append(s.Latency, f.LatencyUs), append(s.Residual, f.Residual)
		s.Replaced, s.Late = append(s.Replaced, f.Replaced), append(s.Late, f.Late)
		s.Fallback, s.Event = append(s.Fallback, f.Fallback), append(s.Event, f.Event+f.Note)
		s.OffMap = append(s.OffMap, f.Limit > 0 && f.Residual > f.Limit)
		for b, point := range centres(f.Shapes) {
			if b == len(s.Bodies) {
				s.Bodies = append(s.Bodies, make([][2]float64, k-first))
			}
			s.Bodies[b] = append(s.Bodies[b], point)
		}
		for b := range s.Bodies { // a body that this scene has not
			if len(s.Bodies[b]) <= k-first {
				s.Bodies[b] = append(s.Bodies[b], [2]float64{math.NaN(), math.NaN()})
			}
		}
		for _, d := range f.Shapes {
			for _, point := range d.Path {
				for a, v := range point {
					s.Lo[a], s.Hi[a] = min(s.Lo[a], v-d.Radius), max(s.Hi[a], v+d.Radius)
				}
			}
		}
	}
	return s
}

func entry(v []float64, i int) float64 {
	if i < len(v) {
		return v[i]
	}
	return math.NaN()
}
