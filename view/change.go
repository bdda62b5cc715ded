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
	parse := domain.AbilitiesOfEpisode(l.ep).Change
	if parse == nil {
		return jsonin.Errorf("change", "nothing in case %s can be changed from the page", l.c.Name())
	}
	if l.ep.Done() {
		return jsonin.Errorf("change", "the episode has ended: begin another")
	}
	change, err := parse(text)
	if err == nil {
		err = l.restage(ctx, change)
	}
	if err != nil {
		return jsonin.Errorf("change", "%w", err)
	}
	l.events = append(l.events, Event{After: l.decisions, Change: slices.Clone(text)})
	return nil
}

// restage goes on with an episode of a scene that a change made.
func (l *Live) restage(ctx context.Context, change domain.Change) error {
	scene, err := json.Marshal(change.Scene)
	if err != nil {
		return err
	}
	running, maker := l.running, l.decider
	if change.Params != nil {
		if running, err = l.remade(change.Params, scene); err != nil {
			return err
		}
		maker = decider{l.home.decides, running.Definition().Problem, running.Spec()}
		if running != l.c {
			maker.decides = &controllers{server: l.server.Aside(), plantCase: running, sessions: map[string]domain.Controller{}}
		}
	}
	stage := domain.AbilitiesOfPlant(running.Definition().Plant).Stage
	if stage == nil {
		return fmt.Errorf("the plant of case %s cannot begin from a given scene", l.c.Name())
	}
	ep, err := stage(l.seed, l.episode, scene, l.episodeOptions(ctx))
	if err != nil {
		return err
	}
	if change.Params != nil {
		l.take(running, maker)
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
func (l *Live) take(running *gpc.Case, maker decider) {
	l.running, l.decider = running, maker
	d, description := *l.home.description, describe(running.Definition())
	d.Grid, d.Margins = description.Grid, description.Margins
	d.Changes = l.description.Changes
	if d.Source = l.source(); running != l.c {
		d.Warnings = slices.Concat(d.Warnings, []string{"the network is changed: the map was trained for the one before"})
	}
	l.description = &d
}

// Seeded begins an episode of another seed.
func (l *Live) Seeded(ctx context.Context, seed uint64) error {
	previous := l.seed
	l.seed = seed
	if err := l.begin(ctx, l.episode, nil); err != nil {
		l.seed = previous
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
	decisions, undone := l.decisions, 0
	for _, f := range l.frames[k-first+1:] {
		if f.Event != "" {
			undone++
		} else if f.U == nil {
			const past = "frame %d belongs to an episode that has ended: a link leads to the present episode"
			return nil, jsonin.Errorf("k", past, k)
		}
		if f.U != nil {
			decisions--
		}
	}
	link := &Link{Case: l.c.Name(), Method: l.description.Method, Seed: l.seed, Episode: l.episode, Decisions: decisions, Did: []Event{}}
	for _, e := range slices.Backward(l.events) {
		if e.Change != nil && undone > 0 {
			undone--
		} else if e.After < decisions || e.After == decisions && (e.Change != nil || decisions == l.decisions) {
			link.Did = append(link.Did, e)
		}
	}
	slices.Reverse(link.Did)
	if p := l.preference; decisions == l.decisions && !p.Equal(l.preferred) {
		link.Did = append(link.Did, Event{After: decisions, Preference: &p})
	}
	return link, nil
}

// Relive makes a frame again as its link says: it decides again.
func (l *Live) Relive(ctx context.Context, link *Link) error {
	switch {
	case link.Case != l.c.Name():
		return jsonin.Errorf("case", "the link is for case %.64q, this server runs %s", link.Case, l.c.Name())
	case link.Method != l.description.Method:
		const other = "the link is for method %.64q, this server decides by %s"
		return jsonin.Errorf("method", other, link.Method, l.description.Method)
	case link.Episode < 0 || link.Episode > math.MaxInt32:
		return jsonin.Errorf("episode", "field \"episode\" is %d, want 0 to %d", link.Episode, math.MaxInt32)
	case link.Seed > mostSeed:
		return jsonin.Errorf("seed", "field \"seed\" is %d, want 0 to %d", link.Seed, uint64(mostSeed))
	case link.Decisions < 0 || link.Decisions > mostRelived:
		return jsonin.Errorf("decisions", "field \"decisions\" is %d, want 0 to %d", link.Decisions, mostRelived)
	}
	for i, e := range link.Did {
		if e.After < 0 || e.After > link.Decisions || i > 0 && e.After < link.Did[i-1].After {
			return jsonin.Errorf("did", "entry %d comes after %d decisions, want 0 to %d, in rising order", i, e.After, link.Decisions)
		}
		if (e.Preference == nil) == (e.Change == nil) {
			return jsonin.Errorf("did", "entry %d: want either preference or change", i)
		}
	}
	ctx, stop := context.WithTimeout(ctx, reliveLimit)
	defer stop()
	l.seed = link.Seed
	if err := l.begin(ctx, link.Episode, nil); err != nil {
		return err
	}
	l.preference = l.first
	events := link.Did
	for {
		for ; len(events) > 0 && events[0].After == l.decisions; events = events[1:] {
			var err error
			if e := &events[0]; e.Preference != nil {
				err = l.Steer(*e.Preference)
			} else {
				err = l.Change(ctx, e.Change)
			}
			if err != nil {
				return err
			}
		}
		if l.decisions == link.Decisions {
			return nil
		}
		if l.ep.Done() || l.frames[len(l.frames)-1].Note != "" {
			const tooShort = "the episode ends after %d decisions, the link leads to decision %d"
			return jsonin.Errorf("decisions", tooShort, l.decisions, link.Decisions)
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
	l.recording = closedloop.NewRecording(l.running.Definition(), l.ep, staged, closedloop.Options{
		Method: h.Method, Episodes: l.episode + 1, Seed: l.seed,
		Preference: domain.Preference{Adaptive: true}, Commit: h.Commit, Backend: h.Backend, ISA: h.ISA, ModelSHA256: h.ModelSHA256,
		Device: fmt.Sprintf("%s (%s), %d threads", h.Backend, h.ISA, h.Threads),
	})
}

// controllers decide on a plant that was changed, each session's by one of its own, in slices of the server's
// time.
type controllers struct {
	server    serve.Aside
	plantCase *gpc.Case
	mutex     sync.Mutex // of sessions: a fan decides beside the loop
	sessions  map[string]domain.Controller
}

// session is the controller of a session, which is made where it is not there.
func (o *controllers) session(name string) (m domain.Controller, err error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if m = o.sessions[name]; m != nil {
		return m, nil
	}
	if m, err = o.server.Controller(o.plantCase); err == nil {
		err = m.Reset(nil)
	}
	if err == nil {
		o.sessions[name] = m
	}
	return m, err
}

// errNoSearch is of a search on a plant that was changed.
var errNoSearch = errors.New("a plant that was changed cannot be searched")

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
	return o.server.Do(ctx, func() error { return m.Reset(nil) })
}

// Decide implements decides. No deadline is kept: no plant of somebody's waits.
func (o *controllers) Decide(ctx context.Context, session string, r serve.Request) (*serve.Decision, error) {
	m, err := o.session(session)
	if err != nil {
		return nil, err
	}
	return o.server.DecideBy(ctx, m, o.plantCase.Definition().Problem, r)
}
