package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpc-engine/gpc/domain"
	"github.com/gpc-engine/gpc/internal/finite"
	"github.com/gpc-engine/gpc/internal/jsonin"
	"github.com/gpc-engine/gpc/serve"
)

const (
	// leastRate and mostRate bound the decisions a second.
	leastRate, mostRate = 0.1, 1000.0
	// patient is the longest time until the next frame that a changed preference waits for; a
	// preview is made where it is longer.
	patient = 40 * time.Millisecond
	// framesEvery bounds how often a frame is sent: what comes faster is made and not shown.
	framesEvery = time.Second / 60
	// framesBeside does so while the server decides for others: a page draws for some 30 ms a frame, perhaps on
	// the machine that decides.
	framesBeside = time.Second / 2
	// besideFor is how long after a decision for others the next is expected.
	besideFor = time.Second
	// fanShare is how much of the time may go into fans while the loop runs.
	fanShare = 0.25
	// fansEvery is the least time between two.
	fansEvery = 50 * time.Millisecond
	// waits is the fault of a loop that goes on when the server has time for it.
	waits = "the server decides for others: this loop waits"
)

// player is the one goroutine that calls a source, and whoever watches.
type player struct {
	source   Source // that is shown
	home     Source // that it was made with
	ask      chan func()
	stop     context.CancelFunc
	ctx      context.Context
	finished chan struct{}
	// looking are the fans on their way.
	looking sync.WaitGroup

	// The goroutine's own.
	playing    bool
	rate       float64
	position   int
	start      int64 // tells this player from one before it
	generation int64
	order      int64        // of the last state that was told
	described  *Description // that the pages have read
	fault      string
	due        time.Time // of the next frame
	sent       time.Time // when a frame was last sent
	sentAt     int       // which
	groups     int64     // of others' decisions that the server had made
	groupsAt   time.Time // when they were last more than before
	fanning    bool      // a fan is on its way
	dropFan    func()    // that nobody wants any more
	nextFan    time.Time
	fanned     fanOf // what the last fan was of
	watchers   map[*watcher]bool
	newest     atomic.Int64 // position, for the signs of life
}

// fanOf tells whether there is a new fan to make.
type fanOf struct {
	k, episode int
	generation int64
	preference string
}

func newPlayer(source Source, rate float64, playing bool) *player {
	p := &player{
		source: source, home: source, rate: rate, playing: playing, ask: make(chan func()), finished: make(chan struct{}), watchers: map[*watcher]bool{},
		start:   rand.Int64N(1 << 48), // a number that JavaScript has
		dropFan: func() {},
	}
	p.generation, p.described = p.start, source.Describe()
	_, p.position = source.Range()
	if !source.Describe().Steers {
		p.position, _ = source.Range()
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	go p.run()
	return p
}

func (p *player) close() {
	p.stop()
	<-p.finished
	p.looking.Wait()
}

// call has the player's goroutine do something, and waits for it.
func (p *player) call(ctx context.Context, f func() error) (err error) {
	finished := make(chan struct{})
	select {
	case p.ask <- func() { defer close(finished); err = p.guarded(f) }:
		<-finished
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-p.ctx.Done():
		return errGone
	}
}

// guarded makes a panic an error: one page does not end the loops of others.
func (p *player) guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			debug.PrintStack()
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

func (p *player) run() {
	defer func() {
		p.stop()
		p.release()
		close(p.finished)
	}()
	p.due = time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(p.wait())
		select {
		case <-p.ctx.Done():
			return
		case f := <-p.ask:
			f()
		case <-timer.C:
			if p.playing && !time.Now().Before(p.due) {
				p.tick()
			}
		}
		p.newest.Store(int64(p.position))
		p.lookAhead()
	}
}

// wait is how long nothing has to be done.
func (p *player) wait() time.Duration {
	wait := time.Minute
	if p.playing {
		wait = time.Until(p.due)
	}
	if !p.fanning && p.watched() {
		wait = min(wait, time.Until(p.nextFan))
	}
	return max(0, wait)
}

func (p *player) watched() bool { return len(p.watchers) > 0 }

// tick goes on by one frame. What was missed is not caught up on.
func (p *player) tick() {
	p.due = p.due.Add(time.Duration(float64(time.Second) / p.rate))
	if now := time.Now(); p.due.Before(now) {
		p.due = now
	}
	err := p.guarded(p.forward)
	if errors.Is(err, errNotYet) {
		if p.sentAt != p.position && time.Since(p.sent) >= p.pace() {
			p.show()
		}
		return
	}
	busy := errors.Is(err, serve.ErrBusy) // others come first
	switch {
	case busy && p.fault != waits:
		p.fault = waits
	case !busy && p.fault == waits:
		p.fault = ""
	case err == nil || busy:
		return
	}
	if err != nil && !busy {
		p.playing = false
		if !errors.Is(err, io.EOF) {
			p.fault = err.Error()
		}
		p.stand()
	}
	p.sendState()
}

// forward shows the next frame, which is made where it is not there.
func (p *player) forward() error {
	first, last := p.source.Range()
	if p.position = max(p.position, first); p.position == last {
		if err := p.source.Advance(p.ctx); err != nil {
			return err
		}
		_, last = p.source.Range()
		p.position = last - 1                                                        // a session may have decided more than once
		if _, live := p.source.(*Live); live && p.source.Describe() != p.described { // the next episode is of the case's own plant again
			p.renew()
			return nil
		}
	}
	p.position = min(p.position+1, last)
	if !p.playing || time.Since(p.sent) >= p.pace() {
		p.show()
	}
	return nil
}

// pace is the least time between two frames that are sent.
func (p *player) pace() time.Duration {
	if p.sharesServer() {
		return framesBeside
	}
	return framesEvery
}

// sharesServer reports whether the server decides for plants other than the page's own.
func (p *player) sharesServer() bool {
	counter, ok := p.source.(interface{ groups() int64 })
	if !ok {
		return false
	}
	if n := counter.groups(); n != p.groups {
		p.groups, p.groupsAt = n, time.Now()
	}
	return time.Since(p.groupsAt) < besideFor
}

// show sends the frame at hand.
func (p *player) show() {
	p.sent, p.sentAt = time.Now(), p.position
	p.send("frame", p.source.Frame(p.position))
}

// stand sends the frame at which nothing goes on any more, where that came too soon after another to be sent.
func (p *player) stand() {
	if p.sentAt != p.position {
		p.show()
	}
}

// frame is a frame by its number.
func (p *player) frame(k int) (*Frame, error) {
	first, last := p.source.Range()
	if k < first || k > last {
		return nil, jsonin.Errorf("k", "frame %d is not kept, want %d to %d", k, first, last)
	}
	return p.source.Frame(k), nil
}

func (p *player) steer(w domain.Preference) error {
	if err := p.source.Steer(w); err != nil {
		return err
	}
	p.sendState()
	if _, last := p.source.Range(); p.position != last || p.playing && time.Until(p.due) <= patient {
		return nil
	}
	f, err := p.source.Preview(p.ctx)
	if err == nil && f != nil {
		p.send("preview", f)
	}
	return err
}

func (p *player) pause(v *bool) error {
	if v == nil {
		return jsonin.Errorf("paused", "field \"paused\" is null, want true or false")
	}
	p.playing, p.fault, p.nextFan = !*v, "", time.Now()
	if p.due = time.Now(); p.playing {
		if first, last := p.source.Range(); p.position == last && !p.source.Describe().Steers {
			p.position = first // from the beginning
			p.show()
		}
	} else {
		p.stand()
	}
	p.sendState()
	return nil
}

func (p *player) step(direction *int) error {
	if direction == nil || *direction != 1 && *direction != -1 {
		return jsonin.Errorf("by", "field \"by\" is missing or wrong, want 1 or -1")
	}
	p.playing, p.fault = false, ""
	var err error
	if *direction > 0 {
		err = p.forward()
	} else if first, _ := p.source.Range(); p.position > first {
		p.position--
		p.show()
	}
	p.sendState()
	if errors.Is(err, io.EOF) || errors.Is(err, errNotYet) {
		return nil // there it stays
	}
	return err
}

func (p *player) setRate(hz *float64) error {
	if hz == nil || !(*hz >= leastRate && *hz <= mostRate) {
		return jsonin.Errorf("hz", "field \"hz\" is missing or out of range, want %v to %v decisions a second", leastRate, mostRate)
	}
	p.rate, p.due = *hz, time.Now()
	p.sendState()
	return nil
}

func (p *player) seek(k *int) error {
	if k == nil {
		return jsonin.Errorf("k", "field \"k\" is null, want the number of a frame")
	}
	if _, err := p.frame(*k); err != nil {
		return err
	}
	p.playing, p.position = false, *k
	p.show()
	p.sendState()
	return nil
}

func (p *player) reset(episode *int) error {
	number := -1
	if episode != nil {
		if number = *episode; number < 0 || number > math.MaxInt32 {
			return jsonin.Errorf("episode", "field \"episode\" is %d, want 0 to %d", number, math.MaxInt32)
		}
	}
	if err := p.source.Reset(p.ctx, number); err != nil {
		return err
	}
	p.begin()
	return nil
}

// begin shows other frames than before, from their first.
func (p *player) begin() {
	p.generation++
	p.dropFan()
	p.described = p.source.Describe()
	p.fault = ""
	p.position, _ = p.source.Range()
	p.due = time.Now()
	p.sendState()
	p.show()
}

// live is the source as a plant that runs here, which can be changed.
func (p *player) live() (*Live, error) {
	if running, ok := p.source.(*Live); ok {
		return running, nil
	}
	return nil, errFixed
}

// change changes the plant that runs; the frames so far stay.
func (p *player) change(change *json.RawMessage) error {
	running, err := p.live()
	if err == nil && change == nil {
		err = jsonin.Errorf("change", "field \"change\" is null, want an object with the field to change")
	}
	if err == nil {
		err = running.Change(p.ctx, *change)
	}
	if err == nil {
		p.renew()
	}
	return err
}

// renew tells the pages to read everything again, and shows the last frame.
func (p *player) renew() {
	p.generation++
	p.dropFan()
	p.described = p.source.Describe()
	p.fault, p.nextFan, p.due = "", time.Now(), time.Now()
	_, p.position = p.source.Range()
	p.sendState()
	p.show()
}

// seed begins an episode of another seed.
func (p *player) seed(v *uint64) error {
	running, err := p.live()
	if err == nil && (v == nil || *v > mostSeed) {
		err = jsonin.Errorf("seed", "field \"seed\" is missing or out of range, want 0 to %d", uint64(mostSeed))
	}
	if err == nil {
		err = running.Seeded(p.ctx, *v)
	}
	if err == nil {
		p.begin()
	}
	return err
}

// relive makes the frame again that a link leads to, and stands there.
func (p *player) relive(link *Link) error {
	running, err := p.live()
	if err == nil && link == nil {
		err = jsonin.Errorf("link", "field \"link\" is null, want what GET /view/link answers")
	}
	if err != nil {
		return err
	}
	p.playing = false
	err = running.Relive(p.ctx, link)
	p.renew() // where it ends in an error, at the frame that was reached
	return err
}

// sessions are those that can be shown beside what the player was made with.
func (p *player) sessions() ([]string, error) {
	if home, ok := p.home.(*Live); ok {
		return home.Sessions(p.ctx)
	}
	return []string{}, nil
}

// follow shows a session, or with nil what the player was made with.
func (p *player) follow(name *string) error {
	source := p.home
	if name != nil {
		home, ok := p.home.(*Live)
		if !ok {
			return jsonin.Errorf("session", "a page that shows a %s has no sessions", p.home.Describe().Kind)
		}
		s, err := home.Follow(p.ctx, *name)
		if err != nil {
			return err
		}
		source, p.playing = s, true
	}
	p.release()
	p.source = source
	p.begin()
	return nil
}

// release closes a session that is shown.
func (p *player) release() {
	if s, ok := p.source.(*Session); ok {
		s.Close()
	}
}

func (p *player) sendState() { p.send("state", p.state()) }

// send has every watcher told.
func (p *player) send(name string, v any) {
	if !p.watched() {
		return
	}
	text, err := finite.Marshal(v)
	if err != nil {
		panic("view: " + err.Error()) // types of this package
	}
	for w := range p.watchers {
		w.offer(event{name, clock(), text})
	}
}

// watch begins with where it stands.
func (p *player) watch(ctx context.Context, page string) (w *watcher, err error) {
	err = p.call(ctx, func() error {
		if len(p.watchers) >= mostWatchers {
			return fmt.Errorf("%d pages are open already, the largest number: close one", mostWatchers)
		}
		rest := p.watchers
		w = &watcher{page: page, awake: make(chan struct{}, 1)}
		p.watchers = map[*watcher]bool{w: true}
		p.sendState()
		p.send("frame", p.source.Frame(p.position))
		maps.Copy(p.watchers, rest)
		p.fanned.generation = 0 // it has seen no fan
		return nil
	})
	return w, err
}

func (p *player) leave(w *watcher) {
	_ = p.call(context.Background(), func() error { // errGone: all have left
		delete(p.watchers, w)
		return nil
	})
}
