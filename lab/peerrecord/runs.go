package peerrecord

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gpc-engine/gpc/internal/machine"
)

// Served is a run of lab/serve: a server beyond what it can do.
type Served struct {
	Case        string `json:"case"`
	Method      string `json:"method"`
	Commit      string `json:"commit"`
	Device      string `json:"device"`
	Connections int    `json:"connections"` // of the load, each a session
	// Waiting is what the server was told, WaitingMax how many requests it let wait when its
	// capacity was measured, and at the end.
	Waiting    string `json:"waiting"`
	WaitingMax [2]int `json:"waiting_max"`
	// CPUs that the server had and those of the generator; null: they shared all.
	ServerCPUs    []int   `json:"server_cpus"`
	GeneratorCPUs []int   `json:"generator_cpus"`
	HalfOpen      int     `json:"half_open"` // connections that say nothing
	DeadlineMs    float64 `json:"deadline_ms"`
	// Idle is one request after another, alone; Capacity what connections get decided that ask as
	// soon as they are answered: the most of those that WaitingMax, twice and four times as many get.
	Idle                Times       `json:"idle"`
	Capacity            float64     `json:"capacity_per_s"`
	CapacityConnections int         `json:"capacity_connections"`
	Load                OfferedLoad `json:"load"`
	// Trouble is what went on beside the load.
	Trouble Trouble `json:"trouble"`
	// Of the session that was to decide as on the idle server: its decisions, and those that differ.
	Canary          int            `json:"canary"`
	CanaryDiffering int            `json:"canary_differing"`
	Memory          ResidentMemory `json:"memory"`
	P99Ratio        float64        `json:"p99_ratio"` // accepted under load over idle
	Broken          []string       `json:"broken"`    // what did not hold
	Machine         *machine.Load  `json:"machine,omitempty"`
}

// Times are latencies by the client's clock, from when a request was due, µs.
type Times struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	Max float64 `json:"max_us"`
}

// OfferedLoad is a load at a rate that does not depend on the answers.
type OfferedLoad struct {
	Seconds  float64 `json:"seconds"`
	Rate     float64 `json:"offered_per_s"`
	Sent     int     `json:"sent"`
	Accepted int     `json:"accepted"` // answered by a decision
	Late     int     `json:"late"`     // of these, by the fallback of the deadline
	Refused  int     `json:"refused"`  // 429
	Lost     int     `json:"lost"`     // without an answer
	Wrong    int     `json:"wrong"`    // any other answer
	Overdue  int     `json:"overdue"`  // answers that were there only after the deadline
	Answers  Times   `json:"accepted_times"`
	Refusals Times   `json:"refused_times"`
	Behind   Times   `json:"behind_times"` // until a request that was due was sent
}

// Trouble counts attempts, and those that were not answered as they should be.
type Trouble struct {
	Large        int `json:"large"` // bodies of 2 MiB: 413
	Malformed    int `json:"malformed"`
	Disconnected int `json:"disconnected"`
	Reopened     int `json:"half_open_reopened"` // that the server had closed
	Wrong        int `json:"wrong"`
}

// ResidentMemory is what of the server is resident, bytes: when the load has lasted a tenth, at
// its end, and at most.
type ResidentMemory struct {
	Start int `json:"start"`
	End   int `json:"end"`
	Most  int `json:"most"`
}

// Rows are the table of a run, the header first.
func (s *Served) Rows() [][]string {
	l, x := &s.Load, &s.Trouble
	cpus := "shared by both"
	if s.ServerCPUs != nil {
		cpus = fmt.Sprintf("server %v, generator %v", s.ServerCPUs, s.GeneratorCPUs)
	}
	return [][]string{
		{"", "`" + s.Case + "` by `" + s.Method + "`"},
		{"CPUs", cpus},
		{"idle, one request after another", s.Idle.text()},
		{"capacity", fmt.Sprintf("%.0f decisions a second over %d connections; `--waiting %s`: %d, at the end %d", s.Capacity, s.CapacityConnections, s.Waiting, s.WaitingMax[0], s.WaitingMax[1])},
		{"offered", fmt.Sprintf("%.0f requests a second for %.0f s over %d connections: %d sent, %.2f of what was to be", l.Rate, l.Seconds, s.Connections, l.Sent, float64(l.Sent)/(l.Rate*l.Seconds))},
		{"answered", fmt.Sprintf("%d decided (%d of them late), %d refused, %d otherwise, %d lost; %d after the deadline of %g ms", l.Accepted, l.Late, l.Refused, l.Wrong, l.Lost, l.Overdue, s.DeadlineMs)},
		{"accepted", fmt.Sprintf("%s; p99 %.2f times the idle server's", l.Answers.text(), s.P99Ratio)},
		{"refused", l.Refusals.text()},
		{"sent behind time", l.Behind.text()},
		{"resident memory", fmt.Sprintf("%.1f MiB after a tenth, %.1f at the end, %.1f at most", mebibytes(s.Memory.Start), mebibytes(s.Memory.End), mebibytes(s.Memory.Most))},
		{"beside it", fmt.Sprintf("%d half-open connections (%d opened again), %d bodies of 2 MiB, %d malformed, %d cut off: %d answered wrong", s.HalfOpen, x.Reopened, x.Large, x.Malformed, x.Disconnected, x.Wrong)},
		{"another session", fmt.Sprintf("%d decisions, %d other than on the idle server", s.Canary, s.CanaryDiffering)},
		{"does not hold", cmp.Or(strings.Join(s.Broken, "; "), "–")},
	}
}

// text is times in a cell.
func (t *Times) text() string {
	return fmt.Sprintf("p50 %.0f µs, p99 %.0f µs, at most %.0f µs, n %d", t.P50, t.P99, t.Max, t.N)
}

func mebibytes(bytes int) float64 { return float64(bytes) / (1 << 20) }

// Torture is a run of lab/torture.
type Torture struct {
	Device  string   `json:"device"`
	Commit  string   `json:"commit"`
	Seed    uint64   `json:"seed"` // of moments, bits and maps
	Short   bool     `json:"short"`
	Seconds float64  `json:"seconds"`
	Attacks []Attack `json:"attacks"`
	// Load is the machine's, which moments of kills depend on.
	Load *machine.Load `json:"load,omitempty"`
}

// Attack is one sort of attack on one thing.
type Attack struct {
	By       string   `json:"by"`
	On       string   `json:"on"`
	Want     string   `json:"want"` // what survival is
	Tried    int      `json:"tried"`
	Survived int      `json:"survived"`
	Lost     []string `json:"lost,omitempty"` // what was not survived, in words
}

// Check says what of a run cannot be.
func (t *Torture) Check() error {
	for _, a := range t.Attacks {
		if a.Survived < 0 || a.Survived > a.Tried {
			return fmt.Errorf("attack %q on %q: %d survived of %d", a.By, a.On, a.Survived, a.Tried)
		}
	}
	return nil
}

// Rows are the table of a run, the header first.
func (t *Torture) Rows() [][]string {
	rows := [][]string{{"attack", "on", "tried", "survived", "survived is"}}
	for _, a := range t.Attacks {
		rows = append(rows, []string{a.By, a.On, fmt.Sprint(a.Tried), fmt.Sprint(a.Survived), a.Want})
	}
	return rows
}

// BesidePandapower is a run of lab/peers/pandapower.
type BesidePandapower struct {
	Device  string              `json:"device"`
	Commit  string              `json:"commit"`
	Peer    string              `json:"peer"` // with its version
	Numba   bool                `json:"numba"`
	Rounds  int                 `json:"rounds"`
	Average float64             `json:"load_average"` // of a quarter of an hour, at the end
	Rows    []PandapowerNetwork `json:"rows"`
}

// PandapowerNetwork is a network solved by both: largest differences of all elements and tables,
// times of whole calls, and of ours the solve alone.
type PandapowerNetwork struct {
	Network string  `json:"network"`
	Op      string  `json:"op"` // runpp or runopp
	Buses   int     `json:"buses"`
	Voltage float64 `json:"voltage_pu"`
	Angle   float64 `json:"angle_deg"`
	Power   float64 `json:"power_mw"` // and MVAr
	Loading float64 `json:"loading_pct"`
	// Of an optimum.
	Cost         *float64 `json:"cost"`
	CostRelative float64  `json:"cost_relative"`
	OursMs       float64  `json:"ours_ms"`
	PeerMs       float64  `json:"peer_ms"`
	SolveMs      float64  `json:"solve_ms"`
	Ratio        float64  `json:"ratio"` // the peer's time over ours, from Lo to Hi over the rounds
	Lo           float64  `json:"lo"`
	Hi           float64  `json:"hi"`
	// What was raised; "" where there is a solution.
	PeerFailed string `json:"peer_failed"`
	OursFailed string `json:"ours_failed"`
}

// Listing is a table of many networks in words, of lab/peers/pandapower/doors.py and lab/peers/matpower/files.py.
type Listing struct {
	Kind    string     `json:"listing"`
	Device  string     `json:"device"`
	Commit  string     `json:"commit"`
	Note    string     `json:"note"` // the version of the other program
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Check compares the rows with the columns.
func (l *Listing) Check() error {
	for _, r := range l.Rows {
		if len(r) != len(l.Columns) {
			return fmt.Errorf("%s: %d cells in %d columns: %q", l.Kind, len(r), len(l.Columns), r)
		}
	}
	return nil
}

// LearnedFlows is a run of lab/peers/learned: exact optima of scenarios that learned optimal power flows
// are measured at.
type LearnedFlows struct {
	Device  string          `json:"device"`
	Commit  string          `json:"commit"`
	Seed    int             `json:"seed"`
	Average float64         `json:"load_average"`
	Note    string          `json:"note"`
	Rows    []LearnedRecipe `json:"rows"`
	Sets    []LearnedSet    `json:"sets"`
}

// LearnedRecipe is a network at the loads and topologies of one data set.
type LearnedRecipe struct {
	Network    string  `json:"network"`
	Recipe     string  `json:"recipe"`
	Scenarios  int     `json:"scenarios"`
	Optimal    int     `json:"optimal"`
	Infeasible int     `json:"infeasible"`
	Median     int     `json:"median_iterations"`
	Largest    int     `json:"largest_iterations"`
	BatchMs    float64 `json:"batch_ms"`
	AloneMs    float64 `json:"alone_ms"`
	ASecond    float64 `json:"solves_per_cpu_second"`
	Mismatch   float64 `json:"max_mismatch_pu"`
	Violation  float64 `json:"max_violation_pu"`
	// Of PGLearn's duals, relative to the largest price.
	Stationarity    *float64 `json:"max_stationarity,omitempty"`
	Complementarity *float64 `json:"max_complementarity,omitempty"`
}

// LearnedSet is a part of a published data set, written in its layout, and the whole by it.
type LearnedSet struct {
	Network   string  `json:"network"`
	Recipe    string  `json:"recipe"`
	Instances int     `json:"instances"`
	SolverMs  float64 `json:"solver_ms"` // CPU time of an instance's solve
	CPUMs     float64 `json:"cpu_ms"`    // with all that writing takes
	ASecond   float64 `json:"instances_per_cpu_second"`
	Bytes     float64 `json:"bytes"` // of an instance
	Minutes   float64 `json:"whole_cpu_minutes"`
	Gigabytes float64 `json:"whole_gb"`
}
