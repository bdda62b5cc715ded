package view

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lookAhead has a fan made of the last frame where somebody sees it and it is another than the
// one before, and leaves the loop its time.
func (p *player) lookAhead() {
	if !p.fanning && (!p.watched() || time.Now().Before(p.nextFan)) {
		return
	}
	_, last := p.source.Range()
	episode := p.source.Frame(last).Episode
	if p.fanning {
		if p.fanned.episode != episode { // nobody is there any more
			p.dropFan()
		}
		return
	}
	p.nextFan = time.Now().Add(fansEvery)
	if p.position != last {
		return
	}
	key := fanOf{last, episode, p.generation, fmt.Sprint(p.source.Preference())}
	if key == p.fanned {
		return
	}
	look := p.source.Fan(p.playing)
	if look == nil {
		return
	}
	p.fanning, p.fanned = true, key
	ctx, drop := context.WithCancel(p.ctx)
	p.dropFan = drop
	start := time.Now()
	p.looking.Go(func() {
		var fan *Fan
		err := p.guarded(func() (err error) {
			fan, err = look(ctx)
			return err
		})
		elapsed := time.Since(start)
		select {
		case p.ask <- func() { p.receiveFan(key, fan, err, elapsed) }:
		case <-p.ctx.Done():
		}
	})
}

// receiveFan sends a finished fan to the page; a fan of an earlier episode or plant is dropped.
func (p *player) receiveFan(key fanOf, fan *Fan, err error, elapsed time.Duration) {
	p.dropFan()
	p.fanning, p.nextFan = false, time.Now().Add(fansEvery)
	if p.playing {
		p.nextFan = time.Now().Add(time.Duration(float64(elapsed) * (1/fanShare - 1)))
	}
	switch {
	case key.generation != p.generation, errors.Is(err, context.Canceled):
	case err == nil:
		p.send("fan", fan)
	default:
		p.fault, p.nextFan = fmt.Sprintf("looking ahead: %v", err), time.Now().Add(time.Minute)
		p.sendState()
	}
}
