package closedloop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/interrupt"
)

// ReadEpisodes hands every episode of a trace to visit and returns its header. A trace that
// does not hold all its episodes, or whose hashes are not those of its bytes, is an error.
func ReadEpisodes(ctx context.Context, path string, visit func(e *EpisodeRecord) error) (*Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	defer f.Close()
	h, err := ReadTrace(interrupt.Reader(ctx, f), visit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

// ReadTrace is ReadEpisodes of an open trace.
func ReadTrace(source io.Reader, visit func(e *EpisodeRecord) error) (*Header, error) {
	w, err := newWholeTrace(source)
	if err != nil {
		return nil, err
	}
	for {
		e, err := w.episode()
		if err == nil && e != nil {
			err = visit(e)
		}
		if err != nil {
			return nil, err
		}
		if e == nil {
			return &w.Header, nil
		}
	}
}

// wholeTrace reads a trace that has to hold all its episodes, unchanged.
type wholeTrace struct {
	*Reader
	want int // the next episode
}

func newWholeTrace(source io.Reader) (*wholeTrace, error) {
	r, err := NewReader(source)
	if err != nil {
		return nil, err
	}
	return &wholeTrace{r, r.Header.Shard[0]}, nil
}

// episode is the next one, nil after the last.
func (w *wholeTrace) episode() (*EpisodeRecord, error) {
	e, err := w.successor()
	if !errors.Is(err, io.EOF) {
		return e, err
	}
	if want := w.Header.count(); w.episodes < want {
		return nil, fmt.Errorf("trace: it holds %d of its %d episodes: its run was interrupted and can be resumed", w.episodes, want)
	}
	return nil, nil
}

// successor is the next episode, whose bytes and number are as they have to be; other errors are those of Next.
func (w *wholeTrace) successor() (*EpisodeRecord, error) {
	e, err := w.Next()
	switch {
	case err != nil:
		return nil, err
	case e.Damage != "":
		return nil, fmt.Errorf("trace line %d: %s: the file was changed", e.SceneLine, e.Damage)
	case e.Episode != w.want:
		return nil, fmt.Errorf("trace line %d: episode %d, want %d", e.SceneLine, e.Episode, w.want)
	}
	w.want += w.Header.Shard[1]
	return e, nil
}

// mostMissing is how many missing shards are named one by one.
const mostMissing = 100

// Join returns the statistics of an evaluation whose shards were run apart, from their traces in any order. Except for
// times and load they are those of Evaluate without shards, to the bit.
func Join(ctx context.Context, spec *domain.Spec, paths []string) (*Result, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("no traces to join")
	}
	var first *Header
	type shard struct {
		*wholeTrace
		path string
	}
	shards := map[int]shard{} // by number
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
		defer f.Close()
		w, err := newWholeTrace(interrupt.Reader(ctx, f))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		h := w.Header
		h.Shard[0] = 0
		first = cmp.Or(first, &h)
		if h.Case != spec.Name {
			return nil, fmt.Errorf("trace %s holds case %s, want %s", path, h.Case, spec.Name)
		}
		if difference := first.sameRun(&h); difference != "" {
			return nil, fmt.Errorf("%s belongs to another run than %s: %s", path, paths[0], difference)
		}
		i := w.Header.Shard[0]
		if other, duplicate := shards[i]; duplicate {
			return nil, fmt.Errorf("%s is shard %d/%d, as is %s: give each shard once", path, i, h.Shard[1], other.path)
		}
		shards[i] = shard{w, path}
	}
	n := first.Shard[1]
	if lacking := n - len(shards); lacking > 0 {
		var missing []string
		for i := 0; len(missing) < min(lacking, mostMissing); i++ {
			if _, ok := shards[i]; !ok {
				missing = append(missing, fmt.Sprintf("%d/%d", i, n))
			}
		}
		if more := lacking - len(missing); more > 0 {
			missing = append(missing, fmt.Sprintf("and %d more", more))
		}
		return nil, fmt.Errorf("%d traces of %d shards: missing %s", len(paths), n, strings.Join(missing, ", "))
	}
	// In the order of the whole run, and each to its end.
	sum := newTally(spec, first.Steps)
	for i := range first.Episodes + n {
		s := shards[i%n]
		e, err := s.episode()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.path, err)
		}
		if e != nil {
			sum.add(e)
		}
	}
	return sum.result(first), nil
}

// Comparison is what one trace says on the episodes that all compared traces have
// and in which all of them are safe.
type Comparison struct {
	Case      string `json:"case"`             // its name
	Method    string `json:"method"`           // of the trace
	Seed      uint64 `json:"seed"`             // of its scenes
	Commit    string `json:"commit"`           // of the program
	Device    string `json:"device"`           // of the latencies
	Trace     string `json:"trace"`            // its file's name
	Episodes  int    `json:"episodes"`         // of the trace
	Safe      int    `json:"safe"`             // of them
	Way       int    `json:"way"`              // from whose start the first trace's method found a plan that keeps off the limits by all of `kept_off`
	SafeOfWay int    `json:"safe_of_way"`      // of these: safe
	NoWay     int    `json:"no_way,omitempty"` // from whose start its own method found none; absent: 0
	Sensing
	Compared      int    `json:"compared"`           // safe in every trace
	CostMean      Number `json:"cost_mean"`          // over these
	DifferencePct Number `json:"difference_pct"`     // mean of 100 (cost − first's)/first's over these
	DifferenceSEM Number `json:"difference_sem_pct"` // its standard error
	// Difference is the distribution of the same.
	Difference RegretStatistics `json:"difference"`
	MarginMean Number           `json:"margin_mean"` // of these episodes' least margins
	Latency    Latency          `json:"latency_us"`
}

// safeEpisode is what an episode of a comparison came to.
type safeEpisode struct{ cost, margin float64 }

// comparing reads traces one after another. The first is the reference of the others.
type comparing struct {
	first     *Header
	firstPath string                // the first's file
	way       map[int]bool          // episodes of the first from whose start there was one
	safe      []map[int]safeEpisode // of each trace, by episode
	rows      []Comparison
}

// Compare compares traces of several methods on the same episodes (case, seed, regime, noise, preference) with the
// first, episode by episode.
func Compare(ctx context.Context, paths []string) ([]Comparison, error) {
	if len(paths) < 2 {
		return nil, fmt.Errorf("%d traces, want at least two to compare", len(paths))
	}
	k := comparing{firstPath: paths[0], way: map[int]bool{}}
	for _, path := range paths {
		if err := k.read(ctx, path); err != nil {
			return nil, err
		}
	}
	k.settle()
	return k.rows, nil
}

// read adds a trace.
func (k *comparing) read(ctx context.Context, path string) error {
	var times decisionTimes
	row, safe := Comparison{Trace: filepath.Base(path)}, map[int]safeEpisode{}
	h, err := ReadEpisodes(ctx, path, func(e *EpisodeRecord) error {
		low := math.Inf(1)
		for i, l := range e.Lines {
			times.add(i, l.Latency)
			low = math.Min(low, float64(l.Margin))
		}
		if k.first == nil && !e.End.NoWay {
			k.way[e.Episode] = true
		}
		row.count(e, k.way[e.Episode])
		if e.End.Safe {
			safe[e.Episode] = safeEpisode{float64(e.End.Cost), low}
		}
		return nil
	})
	if err != nil {
		return err
	}
	row.Case, row.Method, row.Seed = h.Case, h.Method, h.Seed
	row.Commit, row.Device = h.Commit, h.Device
	row.Latency, row.Sensing = times.latency(), h.Sensing
	k.rows, k.safe = append(k.rows, row), append(k.safe, safe)
	return k.checkEpisodes(h, path)
}

// count takes an episode; way: the first trace has it, and its method found a way from its start.
func (r *Comparison) count(e *EpisodeRecord, way bool) {
	r.Episodes++
	count(&r.Safe, e.End.Safe)
	count(&r.NoWay, e.End.NoWay)
	count(&r.Way, way)
	count(&r.SafeOfWay, way && e.End.Safe)
}

// checkEpisodes is an error where a trace has other episodes than the first.
func (k *comparing) checkEpisodes(h *Header, path string) error {
	normalized := *h
	k.first = cmp.Or(k.first, h)
	first := k.first
	normalized.Method, normalized.ModelSHA256, normalized.Candidates = first.Method, first.ModelSHA256, first.Candidates
	normalized.Commit, normalized.Device = first.Commit, first.Device
	normalized.Backend, normalized.ISA = first.Backend, first.ISA
	normalized.Episodes, normalized.Shard = first.Episodes, first.Shard
	if difference := first.sameRun(&normalized); difference != "" {
		return fmt.Errorf("%s does not hold the same episodes as %s: %s", path, k.firstPath, difference)
	}
	return nil
}

// settle writes what costs and margins are on the episodes in which all are safe.
func (k *comparing) settle() {
	maps.DeleteFunc(k.safe[0], func(episode int, _ safeEpisode) bool {
		return slices.ContainsFunc(k.safe[1:], func(other map[int]safeEpisode) bool {
			_, ok := other[episode]
			return !ok
		})
	})
	common := slices.Sorted(maps.Keys(k.safe[0]))
	for i := range k.rows {
		row := &k.rows[i]
		row.Compared = len(common)
		var difference, margins, costs []float64
		for _, e := range common {
			base, other := k.safe[0][e].cost, k.safe[i][e]
			difference = append(difference, 100*(other.cost-base)/base)
			margins, costs = append(margins, other.margin), append(costs, other.cost)
		}
		mean, sem := meanAndError(difference)
		cost, _ := meanAndError(costs)
		margin, _ := meanAndError(margins)
		row.Difference = DescribeRegret(slices.Clone(difference))
		row.DifferencePct, row.DifferenceSEM = Number(mean), Number(sem)
		row.CostMean, row.MarginMean = Number(cost), Number(margin)
	}
}

// Untimed leaves the times out: those of a machine that did other work say nothing.
func (r *Comparison) Untimed() { r.Latency = noLatency() }

// Compared is the record of `gpc eval compare`: methods on the same episodes.
type Compared struct {
	Comparisons []Comparison `json:"comparisons"`
}
