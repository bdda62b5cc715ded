package closedloop

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/durable"
)

// Recording keeps one episode that somebody else drives, such as a page, and writes it as a trace that
// Verify re-simulates (Header.Steered).
type Recording struct {
	controlCase *domain.Case
	ep          domain.Episode
	staged      bool
	opt         Options
	record      EpisodeRecord
	ns, nu      int
	sum         score
}

// NewRecording begins a recording before the first decision of an episode, which is number opt.Episodes − 1 of the
// case's plant. staged: its scene was given to a domain.PlantAbilities.Stage, and is not the one that is drawn for
// that number.
func NewRecording(c *domain.Case, ep domain.Episode, staged bool, opt Options) *Recording {
	r := &Recording{controlCase: c, ep: ep, staged: staged, opt: opt, record: EpisodeRecord{Episode: opt.Episodes - 1}}
	r.ns, r.nu = sizes(c.Problem.Spec(), ep)
	return r
}

// Add appends a decision: what it was made for, u, and what the plant made of u.
func (r *Recording) Add(s, c, u []float64, out *domain.Outcome, decision domain.Decision, latency time.Duration) {
	r.sum.add(r.controlCase.Problem.Spec(), out)
	r.record.add(s[:r.ns], c, u[:r.nu], out, decision, latency)
}

// Trace is the trace so far.
func (r *Recording) Trace() ([]byte, error) {
	opt := r.opt
	opt.ShardIndex, opt.ShardCount = r.record.Episode, opt.Episodes // this episode alone
	if err := opt.Validate(r.controlCase.Problem.Spec()); err != nil {
		return nil, err
	}
	h, err := newHeader(r.controlCase, r.controlCase.Plant, &opt)
	if err != nil {
		return nil, err
	}
	e := r.record
	if e.Scene, err = json.Marshal(r.ep.Scene()); err != nil {
		return nil, fmt.Errorf("scene of episode %d of %s: %w", e.Episode, h.Case, err)
	}
	if h.Steered = true; r.staged {
		h.ScenesSHA256, h.Regime = durable.Sum(sha256.Sum256(e.Scene)), ""
	}
	complete := r.ep.Done()
	e.End = endOf(r.ep, &r.sum, complete)
	e.End.compare(noOptimum)
	if !complete {
		e.End.Failure = fmt.Sprintf("saved after %d decisions, before the episode was over", len(e.Lines))
	}
	text, err := h.line()
	lines, _, wrong := e.sealed(durable.Sum(sha256.Sum256(text)))
	return append(text, lines...), cmp.Or(err, wrong)
}
