package closedloop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// traceVersion is the value of the header's "trace". Traces of bareVersion, which earlier
// programs recorded, do not hold the context of decisions.
const (
	traceVersion = 3
	bareVersion  = 2
)

// Vector is a list of numbers whose JSON has null where an entry is not finite.
type Vector []float64

// MarshalJSON implements json.Marshaler.
func (v Vector) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	numbers := make([]Number, len(v))
	for i, x := range v {
		numbers[i] = Number(x)
	}
	return json.Marshal(numbers)
}

// UnmarshalJSON implements json.Unmarshaler; null entries are NaN.
func (v *Vector) UnmarshalJSON(b []byte) error {
	if bytes.Count(b, []byte{','}) >= MaxVectorLength {
		return fmt.Errorf("a list of more than %d entries", MaxVectorLength)
	}
	var numbers []Number
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	if numbers == nil {
		*v = nil
		return nil
	}
	*v = make(Vector, len(numbers))
	for i, x := range numbers {
		(*v)[i] = float64(x)
	}
	return nil
}

// Header is the first line of a trace (DESIGN §8): what is needed to re-simulate,
// re-score and decide again, and which run it was.
type Header struct {
	Trace  int             `json:"trace"`
	Case   string          `json:"case"`
	Method string          `json:"method"`
	Seed   uint64          `json:"seed"`
	Params json.RawMessage `json:"params"`
	// ProblemSHA256 is the domain.FingerprintOf of the problem.
	ProblemSHA256 string `json:"problem_sha256"`
	Commit        string `json:"commit"`
	Device        string `json:"device"`
	// Backend and ISA computed: the engine, "" for a method without a map, and the
	// instruction set of this CPU's kernels. On the same two a decision repeats bit for bit.
	Backend string `json:"backend,omitempty"`
	ISA     string `json:"isa"`
	// ModelSHA256 is of the map, as model.Model.Write stores it, or of the weights that the
	// method decides by; "" for one without.
	ModelSHA256 string `json:"model_sha256,omitempty"`
	// Candidates per decision where the run asked for other than the method's own number.
	Candidates int `json:"candidates,omitempty"`
	// Noise, Bias, Regime and Preference are the episodes' options, Episodes their number
	// over all shards, Shard the i/n that this file holds: the episodes with number ≡ i
	// modulo n. Shift are the factors on parameters of the case's plant that made the plant
	// of Params.
	Noise float64 `json:"noise"`
	Bias  float64 `json:"bias,omitempty"`
	// Sensing: of estimates x and c are those.
	Sensing
	Shift map[string]float64 `json:"shift,omitempty"`
	// Plant is there where the plant is another than the model that methods know. Params are that plant's, ProblemSHA256 the model's.
	Plant *domain.OtherPlant `json:"plant,omitempty"`
	// Steps are the decisions of an episode where the run asked for other than the case's own number.
	Steps int `json:"steps,omitempty"`
	// Computing are the declared times of decisions; absent: none takes time.
	Computing  *Computing        `json:"computing_us,omitempty"`
	Regime     string            `json:"regime"`
	Preference domain.Preference `json:"preference"`
	// ScenesSHA256 is of the files that the scenes were given in (Scenes.SHA256); "" where they
	// were drawn from the seed.
	ScenesSHA256 string `json:"scenes_sha256,omitempty"`
	// Steered: somebody drove the episode who may have changed the preference between two decisions, and ended
	// it before its last step. Its plant is re-simulated; the decisions are not made again, and no
	// optimum was looked for.
	Steered bool `json:"steered,omitempty"`
	// Guard looked after the decisions of the navigator's methods; absent: none.
	Guard    *domain.Guard `json:"guard,omitempty"`
	Episodes int           `json:"episodes"`
	Shard    [2]int        `json:"shard"`
	// Tolerance: a margin below −Tolerance is a violation.
	Tolerance float64  `json:"margin_tolerance"`
	Margins   []string `json:"margins"`
	// Soft are the soft limits, in the order of an end line's excess; absent: there are none.
	Soft []SoftLimit `json:"soft,omitempty"`
}

// count is how many episodes the file of a header's shard holds when it is whole.
func (h *Header) count() int {
	return (h.Episodes - h.Shard[0] + h.Shard[1] - 1) / h.Shard[1]
}

// threads at the end of a device's name are what its host gave the process.
var threads = regexp.MustCompile(`, \d+ threads$`)

// sameRun reports, in words, why a file cannot be continued by a run, "" if it can.
func (h *Header) sameRun(o *Header) string {
	fields := func(h *Header) map[string]json.RawMessage {
		other := *h
		other.Device = threads.ReplaceAllString(other.Device, "")
		text, err := json.Marshal(other)
		var all map[string]json.RawMessage
		if err != nil || json.Unmarshal(text, &all) != nil {
			return nil
		}
		return all
	}
	a, b := fields(h), fields(o)
	if a == nil || b == nil {
		return "its header cannot be compared"
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(names)
	var differ []string
	for _, name := range slices.Compact(names) {
		if x, y := a[name], b[name]; !sameJSON(x, y) {
			differ = append(differ, fmt.Sprintf("%s %.80s, this run's is %.80s", name, orNone(x), orNone(y)))
		}
	}
	if len(differ) == 0 {
		return ""
	}
	return "its header has " + strings.Join(differ, "; ")
}

func orNone(value json.RawMessage) string {
	if value == nil {
		return "absent"
	}
	return string(value)
}

// sameJSON compares two values by content.
func sameJSON(a, b json.RawMessage) bool {
	if a == nil && b == nil {
		return true
	}
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Line is one decision of a trace.
type Line struct {
	Episode  int    `json:"episode"`
	T        int    `json:"t"`
	X        Vector `json:"x"`           // measured state, noisy where asked
	C        Vector `json:"c,omitempty"` // context, of a case that has one
	U        Vector `json:"u"`           // applied action
	S        Vector `json:"s"`           // plant's state after it
	Sigma    Vector `json:"sigma"`       // priority the stage was scored with
	J        Vector `json:"J"`           // stage objectives
	Margin   Number `json:"margin"`
	Residual Number `json:"residual"`
	Latency  Number `json:"latency_us"`
	Fallback uint32 `json:"fallback"`
	Failed   bool   `json:"failed,omitempty"` // Outcome.Failed
	// Displacement is ‖z_{t+1} − z_t‖, Priority the method's own σ, Times its shares
	// [localize, step, project] in µs; only of methods that have them.
	Displacement Number `json:"displacement"`
	Priority     Vector `json:"priority,omitempty"`
	Times        Vector `json:"times_us,omitempty"`
	// Gap is domain.ProblemAbilities.Gap of the decision; 0 and absent where the case knows none, null where the
	// decision has none.
	Gap Number `json:"gap_bound,omitempty"`
	// Late: the decision came after its period, by Header.Computing, and u is of the plan before or the problem's fallback. The
	// latency is 0 where it was not made at all.
	Late bool `json:"late,omitempty"`
	// Prepare is what came between this decision and the next observation, µs, of a method that works there.
	Prepare Number `json:"prepare_us,omitempty"`
	// Number of the line in its file, from 1; not stored.
	Line int `json:"-"`
}

// late marks a decision as late; one that was not made took no time.
func (l *Line) late(decides bool) {
	if l.Late = true; !decides {
		l.Latency = 0
	}
}

// sceneLine begins an episode, with the hash of the record before it: the header's line, or the lines of the episode
// before without its seal. endLine ends the episode. sealLine holds the hash of its lines, which the next record
// repeats.
type sceneLine struct {
	Episode  int             `json:"episode"`
	Previous string          `json:"before_sha256"`
	Scene    json.RawMessage `json:"scene"`
}

type endLine struct {
	Episode int `json:"episode"`
	End     End `json:"end"`
}

type sealLine struct {
	Episode int    `json:"episode"`
	SHA256  string `json:"sha256"`
}

// End is the verdict of an episode.
type End struct {
	Cost       Number `json:"cost"`
	OracleCost Number `json:"oracle_cost"` // null without an oracle
	Safe       bool   `json:"safe"`
	// CollisionFree is whether the collision margins alone were kept, Completed
	// whether every step was taken; Failure says why not.
	CollisionFree bool   `json:"collision_free"`
	Completed     bool   `json:"completed"`
	Failure       string `json:"failure,omitempty"`
	// Margins are the smallest values of the named margins over the episode, in the
	// header's order.
	Margins Vector `json:"margins,omitempty"`
	// Violations are the decisions that broke a limit, for each kind in the order of
	// Spec.Limits; absent from traces of older programs.
	Violations []int `json:"violations,omitempty"`
	// Excess is how far each soft limit was exceeded at most, in the order of domain.SoftLimits, Exceeding in how many decisions; absent
	// without soft limits.
	Excess    Vector `json:"excess,omitempty"`
	Exceeding []int  `json:"exceeding,omitempty"`
	// GoalReached is whether the episode succeeded, AtEnd whether it
	// was where it should be after the last step; null for others.
	GoalReached *bool `json:"reached,omitempty"`
	AtEnd       *bool `json:"at_end,omitempty"`
	// Failed: a state of the episode was lost (domain.ProblemAbilities.Failed).
	Failed bool `json:"failed,omitempty"`
	// Cause says in one line why an episode is not safe: what the plant says, or the
	// first margin that was violated, or the first state that was lost.
	Cause string `json:"cause,omitempty"`
	// OracleFailure is why there is no oracle cost where the oracle was asked.
	OracleFailure string `json:"oracle_failure,omitempty"`
	// BestKnown: the oracle cost is the method's own, as no reference costs as little.
	BestKnown bool `json:"best_known,omitempty"`
	// Starts are the costs that the solves of an oracle ended at, null where one
	// did not converge.
	Starts Vector `json:"starts,omitempty"`
	// Excluded scenes were drawn before this one and left out.
	Excluded int `json:"excluded,omitempty"`
	// NoWay: the method found no plan from the start that keeps off the limits by all that is asked for.
	NoWay bool `json:"no_way,omitempty"`
}

// newHeader describes a run.
func newHeader(c *domain.Case, plant domain.Plant, opt *Options) (Header, error) {
	params, err := json.Marshal(plant.Params())
	if err != nil {
		return Header{}, fmt.Errorf("plant parameters: %w", err)
	}
	spec := c.Problem.Spec()
	h := Header{
		Trace: traceVersion, Case: spec.Name, Method: opt.Method, Seed: opt.Seed, Params: params,
		ProblemSHA256: durable.Sum(domain.FingerprintOf(c.Problem)), Commit: opt.Commit, Device: opt.Device, Backend: opt.Backend, ISA: opt.ISA, ModelSHA256: opt.ModelSHA256, Candidates: opt.Candidates,
		Noise: opt.Noise, Bias: opt.Bias, Shift: c.Shift, Regime: opt.Regime, Preference: opt.Preference,
		Episodes: opt.Episodes, Shard: [2]int{opt.ShardIndex, opt.ShardCount}, Tolerance: spec.MarginTolerance,
	}
	h.Plant, h.Steps, h.Computing = c.Other, stepsOf(plant), opt.Computing
	h.Sensing = SensingOf(c)
	if !c.Guard.Off {
		h.Guard = &c.Guard
	}
	if opt.Scenes != nil {
		h.ScenesSHA256 = opt.Scenes.SHA256
	}
	for _, m := range spec.Margins {
		h.Margins = append(h.Margins, m.Name)
	}
	h.Soft = softOf(c.Problem)
	return h, nil
}

// stepsOf are the decisions of an episode where they are not the problem's own; 0: they are.
func stepsOf(plant domain.Plant) int {
	if p, generic := plant.(*Simulation); generic && p.steps() != p.Problem.Spec().Steps {
		return p.Steps
	}
	return 0
}

// sizes returns how many components of state and action an episode has.
func sizes(spec *domain.Spec, ep domain.Episode) (state, action int) {
	if episodeSizes := domain.AbilitiesOfEpisode(ep).Sizes; episodeSizes != nil {
		return episodeSizes()
	}
	return spec.MeasuredSize(), spec.ActionSize()
}
