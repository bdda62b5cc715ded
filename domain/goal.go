package domain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Goals are what decisions are to reach in place of weights. Objectives are summed from the decision that had them first to
// the end of the episode. Those with a bound stay within it, and the others are as small as can be.
type Goals struct {
	Bounds []Bound `json:"bounds,omitempty"`
	// First are objectives in the order of their importance. At the first decision each gets a bound: its least within the bounds
	// before it, and a hundredth of the front.
	First []int `json:"first,omitempty"`
}

// Bound is the most that an objective may sum to.
type Bound struct {
	Objective int     `json:"objective"`
	Most      float64 `json:"most"`
	Unit      float64 `json:"-"` // that ProblemAbilities.Polish counts it in; a loop's goal has none
}

// Equal reports whether two goals are the same.
func (g *Goals) Equal(o *Goals) bool {
	return g == o || g != nil && o != nil && slices.Equal(g.Bounds, o.Bounds) && slices.Equal(g.First, o.First)
}

// Validate says what in a goal for m objectives cannot be.
func (g *Goals) Validate(m int) error {
	counted := make([]bool, m)
	name := func(j int) error {
		if j < 0 || j >= m || counted[j] {
			return fmt.Errorf("a goal names objective %d, want each of 0 to %d at most once", j, m-1)
		}
		counted[j] = true
		return nil
	}
	for _, b := range g.Bounds {
		if err := name(b.Objective); err != nil {
			return err
		}
		if math.IsNaN(b.Most) || math.IsInf(b.Most, 0) {
			return fmt.Errorf("a goal bounds objective %d by %v, want a finite number", b.Objective, b.Most)
		}
	}
	for _, j := range g.First {
		if err := name(j); err != nil {
			return err
		}
	}
	if len(g.Bounds)+len(g.First) == 0 {
		return fmt.Errorf("a goal is empty, want a bound of an objective, or the one that counts first")
	}
	return nil
}

// goalForm is what the text of goals is.
const goalForm = `bounds as {"OBJECTIVE": "<= NUMBER"}, or a list of objectives in the order of their importance`

// Goals are those of a JSON text: {"energy": "<= 3"}, or ["comfort", "energy"].
func (s *Spec) Goals(text []byte) (*Goals, error) {
	g, words, d := &Goals{}, []string{}, json.NewDecoder(bytes.NewReader(text))
	begin, err := d.Token()
	for err == nil && d.More() { // a name that appears twice is counted twice
		var word json.Token
		if word, err = d.Token(); err == nil {
			words = append(words, fmt.Sprint(word))
			if _, ok := word.(string); !ok {
				err = fmt.Errorf("%v is no text", word)
			}
		}
	}
	if err != nil || begin != json.Delim('{') && begin != json.Delim('[') {
		return nil, fmt.Errorf("the goal is %.64s, want %s", text, goalForm)
	}
	step := 1
	if begin == json.Delim('{') {
		step = 2
	}
	for i := 0; i < len(words); i += step {
		j := slices.Index(Names(s.Objectives), words[i])
		if j < 0 {
			return nil, fmt.Errorf("the goal names %.64q, which is no objective of case %s (it has %s)", words[i], s.Name, strings.Join(Names(s.Objectives), ", "))
		}
		if slices.Contains(words[:i], words[i]) {
			return nil, fmt.Errorf("the goal names %s twice", words[i])
		}
		if step == 1 {
			g.First = append(g.First, j)
			continue
		}
		number, bounded := strings.CutPrefix(strings.TrimSpace(words[i+1]), "<=")
		most, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if !bounded || err != nil || math.IsNaN(most-most) {
			return nil, fmt.Errorf("the goal bounds %s by %.64q, want \"<= NUMBER\", finite and in %s, without a unit", words[i], words[i+1], s.Objectives[j].Unit)
		}
		g.Bounds = append(g.Bounds, Bound{Objective: j, Most: most})
	}
	slices.SortFunc(g.Bounds, func(a, b Bound) int { return a.Objective - b.Objective })
	return g, g.Validate(s.ObjectiveSize())
}
