package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gpc-engine/gpc"
	"github.com/gpc-engine/gpc/batchnav"
	"github.com/gpc-engine/gpc/closedloop"
	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/internal/machine"
	"github.com/gpc-engine/gpc/serve"
)

// decides is who decides, each decision a slice of a server's time: the server itself, or controllers of its
// method on a plant that a person has changed.
type decides interface {
	Decide(ctx context.Context, session string, r serve.Request) (*serve.Decision, error)
	Refine(ctx context.Context, session string, r serve.Request, opt batchnav.RefineOptions) (*serve.Refined, error)
	Reset(ctx context.Context, session string) error
}

// errFixed is returned for a change of what nobody at a page can change.
var errFixed = errors.New("this page shows a recording: only a plant that is simulated as it is shown can be changed, linked and saved")

// Link is how a frame of a Live came about: so many decisions of a drawn episode, with what a person did on
// the way. The same program and map make the same frame of it, bit for bit.
type Link struct {
	Case      string  `json:"case"`
	Method    string  `json:"method"`
	Seed      uint64  `json:"seed"`
	Episode   int     `json:"episode"`
	Decisions int     `json:"decisions"`
	Did       []Event `json:"did"`
}

// Event is what a person did after so many decisions: another preference, or a change of the plant.
type Event struct {
	After      int                `json:"after"`
	Preference *domain.Preference `json:"preference,omitempty"`
	Change     json.RawMessage    `json:"change,omitempty"`
}

const (
	// mostRelived decisions a link may ask for, and reliveLimit how long they may take.
	mostRelived = 20_000
	reliveLimit = 30 * time.Second
	// mostRecorded numbers of an episode are kept for its trace.
	mostRecorded = 1 << 22
	// mostSeed is the largest that JavaScript has.
	mostSeed = 1<<53 - 1
)

// Change changes the plant from the last frame on, by an episode that begins where the plant stands; see
// domain.EpisodeAbilities.
func (l *Live) Change(ctx context.Context, text json.RawMessage) error {
	changed := domain.AbilitiesOfEpisode(l.ep).Change
	if changed == nil {
		return jsonin.Errorf("change", "nothing in case %s can be changed from the page", l.c.Name())
	}
	if l.ep.Done() {
		return jsonin.Errorf("change", "the episode has ended: begin another")
	}
	change, err := changed(text)
	if err == nil {
		err = l.restage(ctx, change)
	}
	if err != nil {
		return jsonin.Errorf("change", "%w", err)
	}
	l.did = append(l.did, Event{After: l.made, Change: slices.Clone(text)})
	return nil
}

// restage goes on with an episode of a scene that a change made.
func (l *Live) restage(ctx context.Context, change domain.Change) error {
	scene, err := json.Marshal(change.Scene)
	if err != nil {
		return err
	}
	on, of := l.on, l.decider
	if change.Params != nil {
		if on, err = l.remade(change.Params, scene); err != nil {
			return err
		}
		of = decider{l.home.decides, on.Definition().Problem, on.Spec()}
		if on != l.c {
			of.decides = &controllers{aside: l.server.Aside(), of: on, sessions: map[string]domain.Controller{}}
		}
	}
	stage := domain.AbilitiesOfPlant(on.Definition().Plant).Stage
	if stage == nil {
		return fmt.Errorf("the plant of case %s cannot begin from a given scene", l.c.Name())
	}
	ep, err := stage(l.seed, l.episode, scene, l.how(ctx))
	if err != nil {
		return err
	}
	if change.Params != nil {
		l.take(on, of)
	}
	last := l.frames[len(l.frames)-1]
	l.start(ep, true)
	f := l.opening()
	if f.Event = change.About; last.U != nil {
		f.Grid = operate(l.problem, l.s, l.x, last.U)
	}
	l.append(f)
	return nil
}

// remade is the case with another plant, or the case itself where the plant is its own again.
func (l *Live) remade(params any, scene json.RawMessage) (*gpc.Case, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	file := closedloop.SceneFile{Case: l.c.Name(), Params: text, Scene: scene}
	return l.c.Staged(&closedloop.Scenes{Files: []closedloop.NamedScene{{Name: "the change", SceneFile: file}}})
}

// take has decisions made for a case on another plant from now on.
func (l *Live) take(on *gpc.Case, of decider) {
	l.on, l.decider = on, of
	d, changed := *l.home.description, describe(on.Definition())
	d.Grid, d.Margins = changed.Grid, changed.Margins
	d.Changes = l.description.Changes
	if d.Source = l.source(); on != l.c {
		d.Warnings = slices.Concat(d.Warnings, []string{"the network is changed: the map was trained for the one before"})
	}
	l.description = &d
}

// Seeded begins an episode of another seed.
func (l *Live) Seeded(ctx context.Context, seed uint64) error {
	was := l.seed
	l.seed = seed
	if err := l.begin(ctx, l.episode, nil); err != nil {
		l.seed = was
		return err
	}
	return nil
}

// Link says how a frame came about.
func (l *Live) Link(k int) (*Link, error) {
	first, last := l.Range()
	if k < first || k > last {
		return nil, jsonin.Errorf("k", "frame %d is not kept, want %d to %d", k, first, last)
	}
	made, undone := l.made, 0
	for _, f := range l.frames[k-first+1:] {
		if f.Event != "" {
			undone++
		} else if f.U == nil {
			const over = "frame %d belongs to an episode that has ended: a link leads to the present episode"
			return nil, jsonin.Errorf("k", over, k)
		}
		if f.U != nil {
			made--
		}
	}
	link := &Link{Case: l.c.Name(), Method: l.description.Method, Seed: l.seed, Episode: l.episode, Decisions: made, Did: []Event{}}
	for _, e := range slices.Backward(l.did) {
		if e.Change != nil && undone > 0 {
			undone--
		} else if e.After < made || e.After == made && (e.Change != nil || made == l.made) {
			link.Did = append(link.Did, e)
		}
	}
	slices.Reverse(link.Did)
	if p := l.preference; made == l.made && !p.Equal(l.preferred) {
		link.Did = append(link.Did, Event{After: made, Preference: &p})
	}
	return link, nil
}

// Relive makes a frame again as its link says: it decides again.
func (l *Live) Relive(ctx context.Context, to *Link) error {
	switch {
	case to.Case != l.c.Name():
		return jsonin.Errorf("case", "the link is for case %.64q, this server runs %s", to.Case, l.c.Name())
	case to.Method != l.description.Method:
		const other = "the link is for method %.64q, this server decides by %s"
		return jsonin.Errorf("method", other, to.Method, l.description.Method)
	case to.Episode < 0 || to.Episode > math.MaxInt32:
		return jsonin.Errorf("episode", "field \"episode\" is %d, want 0 to %d", to.Episode, math.MaxInt32)
	case to.Seed > mostSeed:
		return jsonin.Errorf("seed", "field \"seed\" is %d, want 0 to %d", to.Seed, uint64(mostSeed))
	case to.Decisions < 0 || to.Decisions > mostRelived:
		return jsonin.Errorf("decisions", "field \"decisions\" is %d, want 0 to %d", to.Decisions, mostRelived)
	}
	for i, e := range to.Did {
		if e.After < 0 || e.After > to.Decisions || i > 0 && e.After < to.Did[i-1].After {
			return jsonin.Errorf("did", "entry %d comes after %d decisions, want 0 to %d, in rising order", i, e.After, to.Decisions)
		}
		if (e.Preference == nil) == (e.Change == nil) {
			return jsonin.Errorf("did", "entry %d: want either preference or change", i)
		}
	}
	ctx, stop := context.WithTimeout(ctx, reliveLimit)
	defer stop()
	l.seed = to.Seed
	if err := l.begin(ctx, to.Episode, nil); err != nil {
		return err
	}
	l.preference = l.first
	did := to.Did
	for {
		for ; len(did) > 0 && did[0].After == l.made; did = did[1:] {
			var err error
			if e := &did[0]; e.Preference != nil {
				err = l.Steer(*e.Preference)
			} else {
				err = l.Change(ctx, e.Change)
			}
			if err != nil {
				return err
			}
		}
		if l.made == to.Decisions {
			return nil
		}
		if l.ep.Done() || l.frames[len(l.frames)-1].Note != "" {
			const over = "the episode ends after %d decisions, the link leads to decision %d"
			return jsonin.Errorf("decisions", over, l.made, to.Decisions)
		}
		if err := l.Advance(ctx); err != nil {
			return err
		}
	}
}

// Recorded is the episode of the last frame as a trace.
func (l *Live) Recorded() ([]byte, error) {
	switch {
	case l.recording == nil:
		const large = "an episode of case %s has more than %d numbers, and is not kept: an evaluation with a trace records it"
		return nil, jsonin.Errorf("episode", large, l.c.Name(), mostRecorded)
	case l.recorded == 0:
		return nil, jsonin.Errorf("episode", "no decision has been made in this episode yet")
	}
	return l.recording.Trace()
}

// record begins a recording of the episode, where it is not too large.
func (l *Live) record(staged bool) {
	l.recording, l.recorded = nil, 0
	if spec := l.spec; spec.Steps*(2*spec.MeasuredSize()+spec.ContextSize()+spec.ActionSize()) > mostRecorded {
		return
	}
	h := l.server.Health()
	l.recording = closedloop.NewRecording(l.on.Definition(), l.ep, staged, closedloop.Options{
		Method: h.Method, Episodes: l.episode + 1, Seed: l.seed,
		Preference: domain.Preference{Adaptive: true}, Commit: h.Commit, Backend: h.Backend, ISA: h.ISA, ModelSHA256: h.ModelSHA256,
		Device: fmt.Sprintf("%s (%s), %d threads", h.Backend, h.ISA, h.Threads),
	})
}

// controllers decide on a plant that was changed, each session's by one of its own, in slices of the server's
// time.
type controllers struct {
	aside    serve.Aside
	of       *gpc.Case
	mutex    sync.Mutex // of sessions: a fan decides beside the loop
	sessions map[string]domain.Controller
}

// session is the controller of a session, which is made where it is not there.
func (o *controllers) session(name string) (m domain.Controller, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if m = o.sessions[name]; m != nil {
		return m, nil
	}
	if m, err = o.aside.Controller(o.of); err == nil {
		err = m.Reset(nil)
	}
	if err == nil {
		o.sessions[name] = m
	}
	return m, err
}

// errNoSearch is of a search on a plant that was changed.
var errNoSearch = errors.New("view: a plant that was changed cannot be searched")

// Refine implements decides.
func (o *controllers) Refine(context.Context, string, serve.Request, batchnav.RefineOptions) (*serve.Refined, error) {
	return nil, errNoSearch
}

// Reset implements decides.
func (o *controllers) Reset(ctx context.Context, session string) error {
	m, err := o.session(session)
	if err != nil {
		return err
	}
	return o.aside.Do(ctx, func() error { return m.Reset(nil) })
}

// Decide implements decides. No deadline is kept: no plant of somebody's waits.
func (o *controllers) Decide(ctx context.Context, session string, r serve.Request) (d *serve.Decision, err error) {
	m, err := o.session(session)
	if err != nil {
		return nil, err
	}
	err = o.aside.Do(ctx, func() error {
		problem, spec := o.of.Definition().Problem, o.of.Spec()
		u, began := make([]float64, spec.ActionSize()), time.Now()
		did, err := m.Decide(r.S, r.C, *r.Preference, u)
		if err != nil {
			return err
		}
		margins := make([]float64, len(spec.Margins))
		d = &serve.Decision{
			U: u, Sigma: slices.Clone(did.Sigma), Residual: did.Residual, ResidualLimit: did.Limit,
			Displacement: did.Displacement,
			Fallback:     uint32(did.Fallback), LatencyUs: machine.Microseconds(time.Since(began)),
		}
		problem.Margins(r.S, r.C, u, margins)
		d.Margin = domain.Smallest(margins)
		if may := domain.AbilitiesOfController(m); may.Prepare != nil {
			return may.Prepare()
		}
		return nil
	})
	return d, err
}
